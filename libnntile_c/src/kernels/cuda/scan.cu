// SPDX-License-Identifier: BSD-3-Clause
// Sums, products, log-sum-exps and extremes of all elements up to each, along the last dim. A row
// is a block's, which joins neighbours, then those at twice the distance; where rows are many and
// lie side by side, it is a thread's.
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

enum { scan_sum, scan_product, scan_logsumexp };

// What a scan has of the elements up to one; joined with those after it.
template <int op, class T>
struct Total {
    T value;
    static __device__ Total none() {
        return {op == scan_product ? T(1)
                : op == scan_sum   ? T(0)
                                   : -std::numeric_limits<T>::infinity()};
    }
    template <int n>
    static __device__ Total read(const Row<n>& row, int64_t j) {
        return {row.template get<T>(0, j)};
    }
    static __device__ Total join(const Total& a, const Total& b) {
        if constexpr (op == scan_sum) return {a.value + b.value};
        if constexpr (op == scan_product) return {a.value * b.value};
        if constexpr (op == scan_logsumexp && is_real<T>) {
            const T low = a.value < b.value ? a.value : b.value,
                    high = a.value < b.value ? b.value : a.value;
            if (a.value != a.value || b.value != b.value) return {a.value + b.value};
            if (low == high && high - high != 0) return {high};  // both infinite
            return {high + std::log1p(std::exp(low - high))};
        }
        return b;
    }
    template <int n>
    __device__ void write(const Row<n>& row, int64_t j) const {
        row.set(1, j, value);
    }
};
// Of equals the last one; nan stays.
template <bool largest, class T>
struct Extreme {
    T value;
    int64_t place;
    static __device__ Extreme none() { return {largest ? lowest<T> : highest<T>, 0}; }
    template <int n>
    static __device__ Extreme read(const Row<n>& row, int64_t j) {
        return {row.template get<T>(0, j), j};
    }
    static __device__ Extreme join(const Extreme& a, const Extreme& b) {
        const bool stays = (largest ? b.value < a.value : b.value > a.value) ||
                           (a.value != a.value && b.value == b.value);
        return stays ? a : b;
    }
    template <int n>
    __device__ void write(const Row<n>& row, int64_t j) const {
        row.set(1, j, value);
        row.set(2, j, place);
    }
};

template <class Op>
__global__ void scan_rows(const __grid_constant__ RowJob<3> job) {
    Op* const shared = shared_memory<Op>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<3> row(job, number);
        Op before = Op::none();  // of the pieces that are done
        for (int64_t first = 0; first < job.d; first += blockDim.x) {
            const int64_t j = first + threadIdx.x;
            Op own = j < job.d ? Op::read(row, j) : Op::none();
            for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {
                __syncthreads();
                shared[threadIdx.x] = own;
                __syncthreads();
                if (threadIdx.x >= distance) own = Op::join(shared[threadIdx.x - distance], own);
            }
            own = Op::join(before, own);
            if (j < job.d) own.write(row, j);
            __syncthreads();
            shared[threadIdx.x] = own;
            __syncthreads();
            before = shared[blockDim.x - 1];
        }
    }
}
template <class Op>
__global__ void scan_rows_by_threads(const __grid_constant__ RowJob<3> job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.rows.count;
         number += all) {
        const Row<3> row(job, number);
        Op total = Op::none();
        for (int64_t j = 0; j < job.d; ++j) {
            total = Op::join(total, Op::read(row, j));
            total.write(row, j);
        }
    }
}

template <class Op>
static int start_scan(const Args& args, const RowJob<3>& job, cudaStream_t stream) {
    constexpr int64_t few = 32, many = 4096;
    const int last = job.rows.dims - 1;
    const bool beside = job.rows.count >= many && job.rows.blocks[0].strides[last] == 1;
    if (job.d <= few || beside) {
        const Grid grid = grid_of(job.rows.count);
        return status_of(
            args, launch<scan_rows_by_threads<Op>>(grid.blocks, grid.threads, 0, stream, job));
    }
    return status_of(args,
                     launch<scan_rows<Op>>(grid_of(job.rows.count, 1).blocks, dim3(row_threads),
                                           row_threads * sizeof(Op), stream, job));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(scan) {
    using namespace cuda;
    RowJob<3> job;
    if (!make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    const bool floats = is_floating(args.blocks[1].dtype);
    switch (args.params[0].i) {
        case scan_sum:
            return floats ? start_scan<Total<scan_sum, double>>(args, job, place->stream)
                          : start_scan<Total<scan_sum, int64_t>>(args, job, place->stream);
        case scan_product:
            return floats ? start_scan<Total<scan_product, double>>(args, job, place->stream)
                          : start_scan<Total<scan_product, int64_t>>(args, job, place->stream);
        default: return start_scan<Total<scan_logsumexp, double>>(args, job, place->stream);
    }
}

NNTILE_CUDA_KERNEL(cumulative_extreme) {
    using namespace cuda;
    RowJob<3> job;
    if (!make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    const bool largest = args.params[0].i != 0;
    const auto start = [&]<class T>(T) {
        return largest ? start_scan<Extreme<true, T>>(args, job, place->stream)
                       : start_scan<Extreme<false, T>>(args, job, place->stream);
    };
    switch (compute_of(args.blocks[1].dtype)) {
        case compute_f32: return start(float{});
        case compute_f64: return start(double{});
        default: return start(int64_t{});
    }
}

}  // namespace nntile::kernels
