// SPDX-License-Identifier: BSD-3-Clause
// What attention and its gradient share on a device: tiles of 64 rows in shared memory, and their
// products, of which each of 128 threads has 8 rows. Threads are 8 by 16: ty has rows 8 ty.., tx
// columns.
//
// A tile that is read along its rows' numbers lies across: column x of it is a run of 64 rows, in
// groups of four that stand in another order for each column, so that neither those who write a
// column's groups nor those who read them meet in a bank.
#pragma once

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/tensor_cores.hh"
#include "kernels/elementary_isa.hh"

namespace nntile::kernels::cuda {

inline constexpr int tile = 64, rows_each = 8, columns_each = 4;
inline constexpr unsigned tile_threads = 128;

struct AttentionJob {
    Job<10> heads;
    int64_t row[10] = {}, column[10] = {};  // strides of each operand's matrices
    bool present[10] = {};
    int64_t queries = 0, keys = 0, size = 0, value_size = 0;
    int64_t first = 0;  // place of the task's first query among all
    double scale = 1;
    bool causal = false;
};

// Where the matrices of operand k have their dims, counted from the queries: 0 queries, 1 keys,
// 2 size, 3 value size; -1: none.
struct MatrixDims {
    int row, column;
};
template <size_t n>
bool make_attention_job(AttentionJob& job, const Args& args, const MatrixDims (&dims)[n], int lead,
                        int mask) {
    const size_t at = args.sizes.size() - 4;
    Args heads = args;
    heads.sizes = args.sizes.first(at);
    if (args.numbers != 0 || !make_job(job.heads, heads, {lead})) return false;
    for (size_t k = 0; k < n; ++k) {
        const Block& b = args.blocks[k];
        job.present[k] = b.data != nullptr;
        if (!b.data) continue;
        job.row[k] = b.strides[at + static_cast<size_t>(dims[k].row)];
        if (dims[k].column >= 0)
            job.column[k] = b.strides[at + static_cast<size_t>(dims[k].column)];
        // Tiles are read as the operands' one dtype; the logarithms and the mask have their own.
        const bool own = static_cast<int>(k) == mask || dims[k].column < 0;
        if (own ? !is_floating(b.dtype) && b.dtype != DType::boolean
                : b.dtype != args.blocks[0].dtype || !is_floating(b.dtype))
            return false;
    }
    job.queries = args.sizes[at];
    job.keys = args.sizes[at + 1];
    job.size = args.sizes[at + 2];
    job.value_size = args.sizes[at + 3];
    job.first = args.index_offset;
    job.causal = args.params[0].i != 0;
    job.scale = args.params[1].f;
    if (job.scale != job.scale)
        job.scale = 1 / std::sqrt(static_cast<double>(job.size > 0 ? job.size : 1));
    return true;
}

// A matrix of one head.
struct Plane {
    unsigned char* data;
    DType dtype;
    int64_t row, column;
};

// The planes of head `number`, in shared memory: registers are for sums.
template <int n>
__device__ void find_planes(Plane* planes, const AttentionJob& job, int64_t number) {
    const unsigned k = threadIdx.x;
    if (k >= n) return;
    const JobBlock& b = job.heads.blocks[k];
    int64_t at = 0;
    for (int d = job.heads.dims; d-- > 0;)
        at += take_place(number, job.heads.sizes[d]) * b.strides[d];
    planes[k] = {static_cast<unsigned char*>(b.data) + at * bytes_of(b.dtype), b.dtype, job.row[k],
                 job.column[k]};
}
inline constexpr size_t planes_bytes = 10 * sizeof(Plane);

template <class T>
using Four = Several<T, 4>;

// Elements as they are stored: as T, or as floats of 16 bits of either dtype. One code for both of
// them is half of ptxas's time.
template <class T>
struct Whole {
    using Storage = T;
    static constexpr int at_once = 4;
    __device__ static T get(T x, DType) { return x; }
    __device__ static T put(T x, DType) { return x; }
};
struct SixteenBits {
    using Storage = uint16_t;
    static constexpr int at_once = 1;
    __device__ static float get(uint16_t x, DType dtype) {
        return dtype == DType::bf16 ? f32_of_bf16(x) : f32_of_f16(x);
    }
    __device__ static uint16_t put(float x, DType dtype) {
        return dtype == DType::bf16 ? bf16_of_f32(x) : f16_of_f32(x);
    }
};
// task(Whole<T>() or SixteenBits()) for what is computed as T in chunks of D columns: heads of
// floats of 16 bits that are up to 128 wide go to tensor cores, so narrow chunks are none of them.
template <class T, int D, class Task>
__device__ void as_stored(DType dtype, Task&& task) {
    if constexpr (sizeof(T) == 8 || D < 128) task(Whole<T>());
    else if (dtype == DType::f32) task(Whole<T>());
    else task(SixteenBits());
}

// Elements column.. of a row, zeros from `columns` on; at once where they lie so.
template <class T, class Stored>
__device__ Four<T> load_four(const Plane& x, int64_t row, int64_t column, int64_t columns) {
    using S = typename Stored::Storage;
    Four<T> y{};
    const S* p = reinterpret_cast<const S*>(x.data) + row * x.row + column * x.column;
    if (x.column == 1 && column + 4 <= columns &&
        reinterpret_cast<uintptr_t>(p) % alignof(Four<S>) == 0) {
        const Four<S> four = *reinterpret_cast<const Four<S>*>(p);
#pragma unroll
        for (int e = 0; e < 4; ++e) y.v[e] = Stored::get(four.v[e], x.dtype);
        return y;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
        if (column + e < columns) y.v[e] = Stored::get(p[e * x.column], x.dtype);
    return y;
}

// Where row r of column x of a tile that lies across is, for r a multiple of 4.
__device__ inline int across(int r, int x) { return x * tile + (r ^ (x & 28)); }

// Rows row.. < rows and columns column.. < columns of x become a tile of D columns, with zeros
// around them.
template <class T, int D>
__device__ void fill_across(T* to, const Plane& x, int64_t row, int64_t rows, int64_t column,
                            int64_t columns) {
    const int lane = static_cast<int>(threadIdx.x % 32), warp = static_cast<int>(threadIdx.x / 32);
    as_stored<T, D>(x.dtype, [&]<class Stored>(Stored) {
#pragma unroll(Stored::at_once)
        for (int task = warp; task < D / 2; task += tile_threads / 32) {
            const int r = task % 16 * 4 + lane / 8, at = task / 16 * 32 + lane % 8 * 4;
            Four<T> four{};
            if (row + r < rows) four = load_four<T, Stored>(x, row + r, column + at, columns);
#pragma unroll
            for (int e = 0; e < 4; ++e) to[across(r & ~3, at + e) + r % 4] = four.v[e];
        }
    });
}
template <class T, int D>
__device__ void fill_along(T* to, const Plane& x, int64_t row, int64_t rows, int64_t column,
                           int64_t columns) {
    as_stored<T, D>(x.dtype, [&]<class Stored>(Stored) {
#pragma unroll(Stored::at_once)
        for (int task = static_cast<int>(threadIdx.x); task < tile * D / 4; task += tile_threads) {
            const int r = task / (D / 4), at = task % (D / 4) * 4;
            Four<T> four{};
            if (row + r < rows) four = load_four<T, Stored>(x, row + r, column + at, columns);
            *reinterpret_cast<Four<T>*>(to + r * D + at) = four;
        }
    });
}

// sum[i][c] += the product of row 8 ty + i of a and row 4 tx + c of b, both of which lie across.
template <class T>
__device__ void multiply_across(T (&sum)[rows_each][columns_each], const T* a, const T* b,
                                int depth) {
    const int ty = static_cast<int>(threadIdx.x / 16), tx = static_cast<int>(threadIdx.x % 16);
    for (int x = 0; x < depth; x += 4) {
        const T *low = a + across(8 * ty, x), *high = a + across(8 * ty + 4, x),
                *right = b + across(4 * tx, x);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const Four<T> l = *reinterpret_cast<const Four<T>*>(low + e * tile),
                          h = *reinterpret_cast<const Four<T>*>(high + e * tile),
                          r = *reinterpret_cast<const Four<T>*>(right + e * tile);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int c = 0; c < 4; ++c) {
                    sum[i][c] += l.v[i] * r.v[c];
                    sum[i + 4][c] += h.v[i] * r.v[c];
                }
        }
    }
}

// Rows that each thread has become a tile that lies across.
template <class T>
__device__ void put_across(T* to, const T (&x)[rows_each][columns_each]) {
    const int ty = static_cast<int>(threadIdx.x / 16), tx = static_cast<int>(threadIdx.x % 16);
#pragma unroll
    for (int c = 0; c < columns_each; ++c)
#pragma unroll
        for (int h = 0; h < rows_each; h += 4) {
            Four<T> four;
#pragma unroll
            for (int i = 0; i < 4; ++i) four.v[i] = x[h + i][c];
            *reinterpret_cast<Four<T>*>(to + across(8 * ty + h, 4 * tx + c)) = four;
        }
}

// Of D columns a thread has D / 16: `width` neighbours, then those 16 * width further.
template <int D>
inline constexpr int width = D % 64 == 0 ? 4 : 2;
template <int D>
__device__ int column_of(int number) {
    const int tx = static_cast<int>(threadIdx.x % 16);
    return number / width<D> * 16 * width<D> + tx * width<D> + number % width<D>;
}
// sum[i][..] += the product of row 8 ty + i of a, which lies across, and b, which lies along.
template <class T, int D>
__device__ void multiply_along(T (&sum)[rows_each][D / 16], const T* a, const T* b, int depth) {
    using Part = Several<T, width<D>>;
    const int ty = static_cast<int>(threadIdx.x / 16);
    for (int x = 0; x < depth; x += 4) {
        const T *low = a + across(8 * ty, x), *high = a + across(8 * ty + 4, x),
                *right = b + x * D + column_of<D>(0);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const Four<T> l = *reinterpret_cast<const Four<T>*>(low + e * tile),
                          h = *reinterpret_cast<const Four<T>*>(high + e * tile);
#pragma unroll
            for (int g = 0; g < D / 16; g += width<D>) {
                const Part r = *reinterpret_cast<const Part*>(right + e * D + 16 * g);
#pragma unroll
                for (int i = 0; i < 4; ++i)
#pragma unroll
                    for (int c = 0; c < width<D>; ++c) {
                        sum[i][g + c] += l.v[i] * r.v[c];
                        sum[i + 4][g + c] += h.v[i] * r.v[c];
                    }
            }
        }
    }
}

// Rows of each thread go to rows row.. < rows and columns column.. < columns of y.
template <class T, int D>
__device__ void store_tile(const Plane& y, const T (&x)[rows_each][D / 16], int64_t row,
                           int64_t rows, int64_t column, int64_t columns) {
    const int ty = static_cast<int>(threadIdx.x / 16);
    as_stored<T, D>(y.dtype, [&]<class Stored>(Stored) {
#pragma unroll
        for (int i = 0; i < rows_each; ++i) {
            const int64_t r = row + 8 * ty + i;
            if (r >= rows) break;
#pragma unroll
            for (int n = 0; n < D / 16; ++n)
                if (const int64_t at = column + column_of<D>(n); at < columns)
                    reinterpret_cast<typename Stored::Storage*>(y.data)[r * y.row + at * y.column] =
                        Stored::put(x[i][n], y.dtype);
        }
    });
}

// What a mask adds to a score.
template <class T>
__device__ T masked(const Plane& mask, int64_t query, int64_t key) {
    const int64_t at = query * mask.row + key * mask.column;
    if (mask.dtype == DType::boolean)
        return mask.data[at] ? T(0) : -std::numeric_limits<T>::infinity();
    return load_as<T>(mask.data, mask.dtype, at);
}

// ---- of floats of 16 bits, on tensor cores: a warp has 16 rows of a tile of 64.

template <int D>
inline constexpr int short_row = D + 8;  // of a tile: rows begin in other banks
inline constexpr int score_row = tile + 4, weight_row = tile + 8;
inline constexpr int strip = warp_square;  // rows of a warp

// Rows row.. < rows of x, which has so many columns, with zeros around them.
template <int D>
__device__ void fill_short(uint16_t* to, const Plane& x, int64_t row, int64_t rows,
                           int64_t columns) {
    using Eight = Several<uint16_t, 8>;
    for (int task = static_cast<int>(threadIdx.x); task < tile * D / 8; task += tile_threads) {
        const int r = task / (D / 8), at = task % (D / 8) * 8;
        Eight eight{};
        if (row + r < rows) {
            const auto* from =
                reinterpret_cast<const uint16_t*>(x.data) + (row + r) * x.row + at * x.column;
            if (x.column == 1 && at + 8 <= columns &&
                reinterpret_cast<uintptr_t>(from) % alignof(Eight) == 0) {
                eight = *reinterpret_cast<const Eight*>(from);
            } else {
#pragma unroll
                for (int e = 0; e < 8; ++e)
                    if (at + e < columns) eight.v[e] = from[e * x.column];
            }
        }
        *reinterpret_cast<Eight*>(to + r * short_row<D> + at) = eight;
    }
}
// What a product of so many columns reads.
__device__ inline int short_depth(int64_t columns) {
    return static_cast<int>((columns + strip - 1) / strip * strip);
}
// The scores of a warp's rows of `own` and the 64 rows of `others`; both have D columns.
template <DType S, int D>
__device__ void score_strip(float* scores, const uint16_t* own, const uint16_t* others, int depth) {
#pragma unroll
    for (int n = 0; n < tile; n += strip) {
        WarpSums sums;
        sums.template add<S, true>(own, short_row<D>, others + n * short_row<D>, short_row<D>,
                                   depth);
        sums.store(scores + n, score_row);
    }
}
// Rows of a warp go to rows row.. < rows of y, times `by`; `room` is of the warp.
template <DType S, int D>
__device__ void store_strip(const Plane& y, const WarpSums (&sums)[D / strip], float* room,
                            int64_t row, int64_t rows, int64_t columns, float by = 1) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int begin = 0; begin < D; begin += 2 * strip) {  // a column for each lane
        __syncwarp();
        sums[begin / strip].store(room, score_row);
        sums[begin / strip + 1].store(room + strip, score_row);
        __syncwarp();
        const int64_t at = begin + lane;
        for (int r = 0; r < strip; ++r)
            if (row + r < rows && at < columns)
                reinterpret_cast<uint16_t*>(y.data)[(row + r) * y.row + at * y.column] =
                    Element<S>::put(room[r * score_row + lane] * by);
    }
    __syncwarp();
}

// start.operator()<dtype, D>() for heads that go there.
inline bool is_short(const Args& args, int64_t widest) {
    return is_short_float(args.blocks[0].dtype) && widest <= 128;
}
template <class Start>
int start_short(const Args& args, int64_t widest, Start&& start) {
    const bool narrow = widest <= 64;
    if (args.blocks[0].dtype == DType::f16)
        return narrow ? start.template operator()<DType::f16, 64>()
                      : start.template operator()<DType::f16, 128>();
    return narrow ? start.template operator()<DType::bf16, 64>()
                  : start.template operator()<DType::bf16, 128>();
}

// Chunks of D columns, of at least `least`.
template <int D>
NNTILE_FN int chunks_of(int64_t columns, int least = 0) {
    const auto n = static_cast<int>((columns + D - 1) / D);
    return n > least ? n : least;
}
// How many columns of a chunk a product reads; those behind its last one are zeros.
template <int D>
__device__ int depth_of(int64_t columns, int chunk) {
    const int64_t left = columns - int64_t{chunk} * D;
    return left < D ? static_cast<int>(left) : D;
}

}  // namespace nntile::kernels::cuda
