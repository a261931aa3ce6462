// SPDX-License-Identifier: BSD-3-Clause
// Kernels along the last dim: a row is a block's. Its sums are in double, joined in one order.
#pragma once

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/fold_ops_isa.hh"

namespace nntile::kernels::cuda {

inline constexpr unsigned row_threads = 128;

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

// Of a row's block: short rows have more blocks side by side.
inline unsigned threads_of(int64_t d) {
    return d <= 512 ? 32 : d <= 2048 ? row_threads : d <= 8192 ? 256 : 512;
}

// Whether the dtype of an operand, in which the arithmetic is, is one that a row has.
inline bool is_row_dtype(const Block& b) { return is_floating(b.dtype); }

// Starts a kernel with a block for each row: `wide` where that dtype is float64, else `narrow`.
template <auto wide, auto narrow, int n, class... More>
int start_rows(const Args& args, const CudaPlace& place, const Block& b, const RowJob<n>& job,
               More... more) {
    const dim3 blocks = grid_of(job.rows.count, 1).blocks, threads(threads_of(job.d));
    constexpr size_t shared = 32 * sizeof(double);
    return status_of(args,
                     b.dtype == DType::f64
                         ? launch<wide>(blocks, threads, shared, place.stream, job, more...)
                         : launch<narrow>(blocks, threads, shared, place.stream, job, more...));
}

}  // namespace nntile::kernels::cuda
