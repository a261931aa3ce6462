// SPDX-License-Identifier: BSD-3-Clause
// Kernels along the last dim: a row is a block's. Its sums are in double, joined in one order.
#pragma once

#include <type_traits>

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/fold_ops_isa.hh"

namespace nntile::kernels::cuda {

inline constexpr unsigned row_threads = 128;
// So many elements of a row a thread keeps, where all of the row are kept: it is read once.
inline constexpr int kept_elements = 16;

template <int blocks_of>
struct RowJob {
    Job<blocks_of> rows;  // without the last dim
    int64_t d = 0;        // elements of a row
    int64_t step[blocks_of] = {};
    bool present[blocks_of] = {};
};
template <int n>
bool make_row_job(RowJob<n>& job, const Args& args, std::initializer_list<int> leads) {
    const size_t last = args.sizes.size() - 1;
    Args rows = args;
    rows.sizes = args.sizes.first(last);
    job.d = args.sizes[last];
    for (size_t k = 0; k < args.blocks.size() && k < n; ++k) {
        job.present[k] = args.blocks[k].data != nullptr;
        job.step[k] = job.present[k] ? args.blocks[k].strides[last] : 0;
    }
    return args.numbers == 0 && make_job(job.rows, rows, leads);
}

// One row of the operands of a job.
template <int n>
struct Row {
    const RowJob<n>& job;
    int64_t at[n] = {};

    __device__ Row(const RowJob<n>& j, int64_t number) : job(j) {
        for (int d = j.rows.dims; d-- > 0 && number > 0;) {
            const int64_t place = take_place(number, j.rows.sizes[d]);
            for (int k = 0; k < n; ++k) at[k] += place * j.rows.blocks[k].strides[d];
        }
    }
    template <class T>
    __device__ T get(int k, int64_t element = 0) const {
        return load_as<T>(job.rows.blocks[k], at[k] + element * job.step[k]);
    }
    template <class T>
    __device__ T get_or(int k, int64_t element, T absent) const {
        return job.present[k] ? get<T>(k, element) : absent;
    }
    template <class T>
    __device__ void set(int k, int64_t element, T value) const {
        store_as(job.rows.blocks[k], at[k] + element * job.step[k], value);
    }
};

// Of all threads of the block, whole warps; each gets it. `shared` has a place for each warp.
template <class Op, class T>
__device__ T over_block(T value, T* shared) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value = Op::join(value, __shfl_xor_sync(0xffffffffu, value, lanes));
    const unsigned warps = blockDim.x / 32, lane = threadIdx.x % 32;
    if (warps == 1) return value;
    __syncthreads();  // the result before may still be read
    if (lane == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = lane < warps ? shared[lane] : Op::template identity<T>;
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2)
        value = Op::join(value, __shfl_xor_sync(0xffffffffu, value, lanes));
    return value;
}
// The fold of value(element) over a row.
template <class Op, class T, class Value>
__device__ T over_row(int64_t d, T* shared, Value&& value) {
    T total = Op::template identity<T>;
#pragma unroll 4
    for (int64_t j = threadIdx.x; j < d; j += blockDim.x) total = Op::join(total, value(j));
    return over_block<Op>(total, shared);
}

// body(j, i): element j of the row is number i of those that this thread keeps.
template <bool keeps, class Body>
__device__ void each_of_row(int64_t d, Body&& body) {
    if constexpr (keeps) {
#pragma unroll
        for (int i = 0; i < kept_elements; ++i) {
            const unsigned j = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
            if (j < d) body(int64_t{j}, i);
        }
    } else {
#pragma unroll 4
        for (int64_t j = threadIdx.x; j < d; j += blockDim.x) body(j, 0);
    }
}
// In double, but for the few elements that a thread keeps: these in their own type.
template <bool keeps, class Op, class Value>
__device__ double fold_row(int64_t d, double* shared, Value&& value) {
    using T = std::conditional_t<keeps, decltype(value(d, 0)), double>;
    T total = Op::template identity<T>;
    each_of_row<keeps>(
        d, [&](int64_t j, int i) { total = Op::join(total, static_cast<T>(value(j, i))); });
    return over_block<Op>(static_cast<double>(total), shared);
}

// Operand k of a row, of dtype D; kept if that is asked for.
template <DType D, bool keeps, int n>
struct Elements {
    using T = std::conditional_t<D == DType::f64, double, float>;
    Storage<D>* data;
    int64_t step;
    T kept[keeps ? kept_elements : 1];

    __device__ Elements(const Row<n>& row, int k)
        : data(static_cast<Storage<D>*>(row.job.rows.blocks[k].data) + row.at[k]),
          step(row.job.step[k]) {
        if constexpr (keeps)
            each_of_row<true>(row.job.d, [&](int64_t j, int i) { kept[i] = read(j); });
    }
    __device__ T read(int64_t j) const { return number_at<D, T>(data, j * step); }
    __device__ T get(int64_t j, int i) const {
        if constexpr (keeps) return kept[i];
        else return read(j);
    }
    __device__ void set(int64_t j, T x) const { data[j * step] = Element<D>::put(x); }
};

// An operand that a row shares with others: of the dtype of most, or of another one.
template <DType D, int n>
struct Shared {
    using T = std::conditional_t<D == DType::f64, double, float>;
    const JobBlock& block;
    int64_t step;
    bool present, same;

    __device__ Shared(const Row<n>& row, int k)
        : block(row.job.rows.blocks[k]),
          step(row.job.step[k]),
          present(row.job.present[k]),
          same(block.dtype == D) {}
    __device__ T get_or(int64_t j, T absent) const {
        if (!present) return absent;
        if (same) return number_at<D, T>(block.data, j * step);
        return other(block, j * step);
    }
    __noinline__ __device__ static T other(const JobBlock& block, int64_t at) {
        return load_as<T>(block, at);
    }
};

// Of a row's block: as many as it takes to keep the row, so short rows have blocks side by side.
inline unsigned threads_of(int64_t d) {
    unsigned threads = 32;
    while (threads < 512 && int64_t{threads} * kept_elements < d) threads *= 2;
    return threads;
}

// Whether the dtype of an operand, in which the arithmetic is, is one that a row has.
inline bool is_row_dtype(const Block& b) { return is_floating(b.dtype); }

// Starts a kernel with a block for each row: start(dtype, keeps, blocks, threads, bytes shared),
// of which the first two are constants: b's dtype, and whether a thread can keep its elements.
template <int n, class Start>
int start_rows(const Args& args, const Block& b, const RowJob<n>& job, Start&& start) {
    const dim3 blocks = grid_of(job.rows.count, 1).blocks, threads(threads_of(job.d));
    constexpr size_t shared = 32 * sizeof(double);
    const auto of = [&](auto dtype) {
        return job.d <= int64_t{kept_elements} * threads.x
                   ? start(dtype, std::true_type(), blocks, threads, shared)
                   : start(dtype, std::false_type(), blocks, threads, shared);
    };
    switch (b.dtype) {
#define DO(d) \
    case DType::d: return status_of(args, of(std::integral_constant<DType, DType::d>()));
        DO(f32)
        DO(f64)
        DO(f16)
        DO(bf16)
#undef DO
        default: return not_on_device;
    }
}

}  // namespace nntile::kernels::cuda
