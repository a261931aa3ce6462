// SPDX-License-Identifier: BSD-3-Clause
// Elements read and written by index. The last dims are those of the table that indices lead into.
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/sorting.hh"
#include "kernels/scatter.hh"

namespace nntile::kernels {

CudaFunction copy_on_cuda;

}  // namespace nntile::kernels

namespace nntile::kernels::cuda {

constexpr int most_indices = 6;

struct Table {
    int dims = 0;  // as many as there are index tensors
    int64_t sizes[most_indices] = {}, strides[most_indices] = {};
    bool wrap = false;  // a negative index counts from the end
    Refusal refusal = Refusal::none;
    Refused* refused = nullptr;
};
// The first block of a job is the result, the second one what is read, then come index tensors.
struct GatherJob {
    Job<2 + most_indices> points;
    Table table;
};
struct ScatterJob {
    Job<2 + most_indices> own, more;  // points of the result; those that come to each
    Table table;
    bool replaces = false;  // what is there does not count
};

// Where operand k of point `number` lies.
template <int n>
__device__ void find_point(const Job<n>& job, int64_t number, int operands, int64_t* at) {
    for (int d = job.dims; d-- > 0;) {
        const int64_t place = take_place(number, job.sizes[d]);
        for (int k = 0; k < operands; ++k) at[k] += place * job.blocks[k].strides[d];
    }
}
// Adds the place that indices lead to; false: one of them leads nowhere.
template <int n>
__device__ bool lead(const Job<n>& job, const Table& table, const int64_t* at, int64_t& place) {
    for (int k = 0; k < table.dims; ++k) {
        const auto given = load_as<int64_t>(job.blocks[2 + k], at[2 + k]);
        const int64_t index = given + (table.wrap && given < 0 ? table.sizes[k] : 0);
        if (index < 0 || index >= table.sizes[k]) {
            refuse_at(table.refused, {table.refusal, given, table.sizes[k]});
            return false;
        }
        place += index * table.strides[k];
    }
    return true;
}

template <class T>
__global__ void gather_elements(const __grid_constant__ GatherJob job) {
    const auto& points = job.points;
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < points.count; e += all) {
        int64_t at[2 + most_indices] = {};
        find_point(points, e, 2 + job.table.dims, at);
        if (!lead(points, job.table, at, at[1])) continue;
        static_cast<T*>(points.blocks[0].data)[at[0]] =
            static_cast<const T*>(points.blocks[1].data)[at[1]];
    }
}

struct alignas(16) Wide {
    uint64_t parts[2];
};
// Whether as many elements as have 16 bytes lie side by side and have one index: rows of a table.
static bool are_wide(const Job<2 + most_indices>& points, const Table& table, int64_t bytes) {
    const int last = points.dims - 1;
    const int64_t of_wide = static_cast<int64_t>(sizeof(Wide)) / bytes;
    const auto fits = [&](int64_t stride) { return stride % of_wide == 0; };
    if (last < 0 || !fits(points.sizes[last])) return false;
    for (int k = 0; k < 2 + table.dims; ++k) {
        const JobBlock& b = points.blocks[k];
        if (b.strides[last] != (k < 2 ? 1 : 0)) return false;
        if (k >= 2) continue;
        if (reinterpret_cast<uintptr_t>(b.data) % sizeof(Wide) != 0) return false;
        for (int d = 0; d < last; ++d)
            if (!fits(b.strides[d])) return false;
    }
    for (int k = 0; k < table.dims; ++k)
        if (!fits(table.strides[k])) return false;
    return true;
}
static void widen(GatherJob& job, int64_t bytes) {
    const int64_t of_wide = static_cast<int64_t>(sizeof(Wide)) / bytes;
    auto& points = job.points;
    points.sizes[points.dims - 1] /= of_wide;
    points.count /= of_wide;
    for (int k = 0; k < 2; ++k)
        for (int d = 0; d < points.dims - 1; ++d) points.blocks[k].strides[d] /= of_wide;
    for (int k = 0; k < job.table.dims; ++k) job.table.strides[k] /= of_wide;
}

// A thread takes all that comes to a point, in its order: so the bits never vary.
template <int mode, class T>
__global__ void scatter_elements(const __grid_constant__ ScatterJob job, T nothing, T alpha) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const int operands = 2 + job.table.dims;
    const JobBlock &y = job.own.blocks[0], &x = job.own.blocks[1];
    for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < job.own.count; e += all) {
        int64_t first[2 + most_indices] = {};
        find_point(job.own, e, operands, first);
        for (int pass = job.replaces ? 0 : 1; pass < 2; ++pass)
            for (int64_t m = 0; m < job.more.count; ++m) {
                int64_t at[2 + most_indices];
                for (int k = 0; k < operands; ++k) at[k] = first[k];
                find_point(job.more, m, operands, at);
                if (!lead(job.own, job.table, at, at[0])) continue;
                if (pass == 0) {
                    store_as(y, at[0], nothing);
                    continue;
                }
                const T before = mode == put ? T{} : load_as<T>(y, at[0]);
                store_as(y, at[0], joined<mode>(before, load_as<T>(x, at[1]), alpha));
            }
    }
}

// The same where much comes to few points: what does is sorted by the place that it goes to, and a
// thread takes all that goes to one place. A row for each point of the result, or one for all
// points, if they share the indices.
struct SortedScatter {
    ScatterJob job;
    Table numbers;  // the table, with strides that give each place its number
    PlacedRows rows;
    int64_t first;  // points of the result that these rows are of
    int64_t points;
};

__global__ void list_places(const __grid_constant__ SortedScatter sorted) {
    const auto& [own, more, table, replaces] = sorted.job;
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const int operands = 2 + table.dims;
    for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
         e < sorted.rows.count * sorted.rows.d; e += all) {
        int64_t row = e, at[2 + most_indices] = {}, place = 0;
        const int64_t m = take_place(row, sorted.rows.d);
        find_point(own, sorted.first + row, operands, at);
        find_point(more, m, operands, at);
        sorted.rows.row(row)[m] =
            lead(own, sorted.numbers, at, place) ? PlacedRows::key(place, m) : PlacedRows::nowhere;
    }
}

template <int mode, class T>
__global__ void scatter_sorted(const __grid_constant__ SortedScatter sorted, T nothing, T alpha) {
    const auto& [own, more, table, replaces] = sorted.job;
    const int64_t all = int64_t{gridDim.x} * blockDim.x, d = sorted.rows.d;
    const JobBlock &y = own.blocks[0], &x = own.blocks[1];
    const bool shared = sorted.rows.count < sorted.points;
    for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < sorted.points * d;
         e += all) {
        int64_t rest = e, point, j;
        if (shared) {
            point = take_place(rest, sorted.points);
            j = rest;
        } else {
            j = take_place(rest, d);
            point = rest;
        }
        const uint64_t* const keys = sorted.rows.row(shared ? 0 : point);
        const int64_t number = PlacedRows::place_of(keys[j]);
        if (keys[j] == PlacedRows::nowhere ||
            (j > 0 && PlacedRows::place_of(keys[j - 1]) == number))
            continue;
        int64_t first[2] = {}, to = 0, left = number;
        find_point(own, sorted.first + point, 2, first);
        for (int k = table.dims; k-- > 0;)
            to += take_place(left, table.sizes[k]) * table.strides[k];
        to += first[0];
        if (replaces) store_as(y, to, nothing);
        for (; j < d && PlacedRows::place_of(keys[j]) == number; ++j) {
            int64_t at[2] = {0, first[1]};
            find_point(more, PlacedRows::number_of(keys[j]), 2, at);
            const T before = mode == put ? T{} : load_as<T>(y, to);
            store_as(y, to, joined<mode>(before, load_as<T>(x, at[1]), alpha));
        }
    }
}

// Index tensors are blocks first.. of the task, the table is dims rank.. of `of`.
static bool make_table(Table& table, const Args& args, size_t first, size_t count, size_t rank,
                       const Block& of) {
    if (count > most_indices) return false;
    table.dims = static_cast<int>(count);
    for (size_t k = 0; k < count; ++k) {
        if (args.numbers >> (first + k) & 1) return false;
        table.sizes[k] = args.sizes[rank + k];
        table.strides[k] = of.strides[rank + k];
    }
    table.wrap = args.params[1].i != 0;
    return true;
}
using Blocks = SmallVector<Block, 2 + most_indices>;

// start(mode), a constant
template <class Start>
static cudaError_t start_by_mode(int64_t mode, Start&& start) {
    switch (mode) {
        case put_add: return start(std::integral_constant<int, put_add>{});
        case put_mul: return start(std::integral_constant<int, put_mul>{});
        case put_amin: return start(std::integral_constant<int, put_amin>{});
        case put_amax: return start(std::integral_constant<int, put_amax>{});
        default: return start(std::integral_constant<int, put>{});
    }
}
template <class T>
static cudaError_t start_scatter(const ScatterJob& job, int64_t mode, T nothing, T alpha,
                                 cudaStream_t stream) {
    const Grid grid = grid_of(job.own.count);
    return start_by_mode(mode, [&]<int m>(std::integral_constant<int, m>) {
        return launch<scatter_elements<m, T>>(grid.blocks, grid.threads, 0, stream, job, nothing,
                                              alpha);
    });
}

constexpr int64_t most_keys = CudaPlace::scratch_bytes / sizeof(uint64_t), much = 64;
// Whether each of the threads of start_scatter() would have much to do, and keys have room.
static bool is_sorted(const ScatterJob& job) {
    constexpr int64_t few = 16384, most_places = UINT32_MAX;
    int64_t places = 1;
    for (int k = 0; k < job.table.dims && places < most_places; ++k) places *= job.table.sizes[k];
    return job.more.count >= much && job.own.count < few && job.more.count <= most_keys &&
           places < most_places;
}
template <class T>
static cudaError_t start_sorted(const ScatterJob& job, int64_t mode, T nothing, T alpha,
                                const CudaPlace& place) {
    SortedScatter sorted{job, job.table, {}, 0, 0};
    int64_t step = 1;
    for (int k = job.table.dims; k-- > 0; step *= job.table.sizes[k])
        sorted.numbers.strides[k] = step;
    bool shared = job.own.count > 1;
    for (int k = 0; k < job.table.dims; ++k)
        for (int d = 0; d < job.own.dims; ++d)
            shared = shared && job.own.blocks[2 + k].strides[d] == 0;
    sorted.rows.keys = reinterpret_cast<uint64_t*>(place.scratch);
    sorted.rows.d = job.more.count;
    const int64_t most = shared ? job.own.count : most_keys / job.more.count;
    for (; sorted.first < job.own.count; sorted.first += most) {
        sorted.points = std::min(most, job.own.count - sorted.first);
        sorted.rows.count = shared ? 1 : sorted.points;
        Grid grid = grid_of(sorted.rows.count * sorted.rows.d);
        cudaError_t error = launch<list_places>(grid.blocks, grid.threads, 0, place.stream, sorted);
        if (error == cudaSuccess) error = start_sort(sorted.rows, place.stream);
        grid = grid_of(sorted.points * sorted.rows.d);
        if (error == cudaSuccess)
            error = start_by_mode(mode, [&]<int m>(std::integral_constant<int, m>) {
                return launch<scatter_sorted<m, T>>(grid.blocks, grid.threads, 0, place.stream,
                                                    sorted, nothing, alpha);
            });
        if (error != cudaSuccess) return error;
    }
    return cudaSuccess;
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(gather) {
    using namespace cuda;
    const size_t count = args.blocks.size() - 2, rank = args.sizes.size() - count;
    const Block &x = args.blocks.front(), &y = args.blocks.back();
    GatherJob job;
    if (x.dtype != y.dtype || (args.numbers & 1) || !make_table(job.table, args, 1, count, rank, x))
        return not_on_device;
    Blocks blocks{y, x};
    for (size_t k = 0; k < count; ++k) blocks.push_back(args.blocks[1 + k]);
    Args outer = args;
    outer.sizes = args.sizes.first(rank);
    outer.blocks = {blocks.data(), blocks.size()};
    outer.numbers = 0;
    if (!make_job(job.points, outer, {0, 1})) return not_on_device;
    if (!place || job.points.count == 0) return 0;
    job.table.refusal = args.params[0].i ? Refusal::gather : Refusal::indexing;
    if (const cudaError_t error = place->watch(job.table.refused)) return status_of(args, error);
    const auto start = [&]<class T>(T) {
        const Grid grid = grid_of(job.points.count);
        return status_of(
            args, launch<gather_elements<T>>(grid.blocks, grid.threads, 0, place->stream, job));
    };
    if (const int64_t bytes = size_of(y.dtype); are_wide(job.points, job.table, bytes)) {
        widen(job, bytes);
        return start(Wide{});
    }
    switch (size_of(y.dtype)) {
        case 1: return start(uint8_t{});
        case 2: return start(uint16_t{});
        case 4: return start(uint32_t{});
        default: return start(uint64_t{});
    }
}

NNTILE_CUDA_KERNEL(scatter) {
    using namespace cuda;
    const size_t count = args.blocks.size() - 3, rank = args.sizes.size() - count;
    const size_t own_dims = rank - static_cast<size_t>(args.params[2].i);
    const Block &base = args.blocks[0], &x = args.blocks[1], &y = args.blocks.back();
    ScatterJob job;
    if ((args.numbers & 1) || !make_table(job.table, args, 2, count, rank, y)) return not_on_device;
    Dims whole_sizes(args.sizes), own_sizes(args.sizes.first(rank)), more_sizes(own_sizes);
    for (size_t d = own_dims; d < rank; ++d) whole_sizes[d] = own_sizes[d] = 1;
    for (size_t d = 0; d < own_dims; ++d) more_sizes[d] = 1;
    Blocks blocks{y, x};
    for (size_t k = 0; k < count; ++k) blocks.push_back(args.blocks[2 + k]);
    Args part = args;
    part.blocks = {blocks.data(), blocks.size()};
    part.numbers = args.numbers & 2;
    part.sizes = own_sizes;
    if (!make_job(job.own, part, {0, 1})) return not_on_device;
    part.sizes = more_sizes;
    if (!make_job(job.more, part, {})) return not_on_device;
    // Few points to which much comes are few threads: a core is faster.
    const bool sorted = is_sorted(job);
    if (!sorted && job.own.count < 64 && job.more.count >= much) return not_on_device;
    const Block pair[] = {base, y};
    Args whole = args;
    whole.sizes = whole_sizes;
    whole.blocks = pair;
    whole.numbers = 0;
    if (!place) return copy_on_cuda(whole, nullptr);
    if (base.data != y.data)
        if (const int status = copy_on_cuda(whole, place)) return status;
    if (job.own.count == 0 || job.more.count == 0) return 0;
    job.table.refusal = args.params[0].i ? Refusal::scatter : Refusal::index_put;
    if (const cudaError_t error = place->watch(job.table.refused)) return status_of(args, error);
    const int64_t mode = args.params[3].i;
    job.replaces = !args.params[4].i;
    const double alpha = y.dtype == DType::boolean ? args.params[5].f != 0 : args.params[5].f;
    const auto start = [&]<class T>(T) {
        const T nothing = neutral<T>(static_cast<int>(mode), y.dtype), by = static_cast<T>(alpha);
        return status_of(args, sorted ? start_sorted(job, mode, nothing, by, *place)
                                      : start_scatter(job, mode, nothing, by, place->stream));
    };
    switch (compute_of(y.dtype)) {
        case compute_f32: return start(float{});
        case compute_f64: return start(double{});
        default: return start(int64_t{});
    }
}

}  // namespace nntile::kernels
