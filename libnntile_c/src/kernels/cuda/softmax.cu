// SPDX-License-Identifier: BSD-3-Clause
// Softmax and log-softmax over the last dim, and their gradients. y may be x, dx may be dy.
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

// x -> y
template <class T, bool log>
__global__ void softmax_rows(const __grid_constant__ RowJob<2> job) {
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<2> row(job, number);
        const auto most = static_cast<T>(over_row<Op_amax, double>(
            job.d, shared, [&](int64_t j) { return row.template get<double>(0, j); }));
        const double sum = over_row<Op_sum, double>(job.d, shared, [&](int64_t j) {
            return static_cast<double>(exp_of(row.template get<T>(0, j) - most));
        });
        const auto by = static_cast<T>(log ? log_of(sum) : 1 / sum);
        for (int64_t j = threadIdx.x; j < job.d; j += blockDim.x) {
            const T x = row.template get<T>(0, j) - most;
            row.set(1, j, log ? x - by : exp_of(x) * by);
        }
    }
}

// dy, y -> dx
template <class T, bool log>
__global__ void softmax_rows_backward(const __grid_constant__ RowJob<3> job) {
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<3> row(job, number);
        const double sum = over_row<Op_sum, double>(job.d, shared, [&](int64_t j) {
            const auto dy = row.template get<double>(0, j);
            return log ? dy : dy * row.template get<double>(1, j);
        });
        const auto of_row = static_cast<T>(sum);
        for (int64_t j = threadIdx.x; j < job.d; j += blockDim.x) {
            const T dy = row.template get<T>(0, j), y = row.template get<T>(1, j);
            row.set(2, j, log ? dy - exp_of(y) * of_row : (dy - of_row) * y);
        }
    }
}

template <bool log>
static int start_softmax(const Args& args, const CudaPlace* place) {
    RowJob<2> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {1})) return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    const dim3 blocks = grid_of(job.rows.count, 1).blocks;
    const size_t shared = row_threads * sizeof(double);
    return status_of(args, args.blocks[0].dtype == DType::f64
                               ? launch<softmax_rows<double, log>>(blocks, dim3(row_threads),
                                                                   shared, place->stream, job)
                               : launch<softmax_rows<float, log>>(blocks, dim3(row_threads), shared,
                                                                  place->stream, job));
}

template <bool log>
static int start_softmax_backward(const Args& args, const CudaPlace* place) {
    RowJob<3> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {2})) return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    const dim3 blocks = grid_of(job.rows.count, 1).blocks;
    const size_t shared = row_threads * sizeof(double);
    return status_of(args, args.blocks[0].dtype == DType::f64
                               ? launch<softmax_rows_backward<double, log>>(
                                     blocks, dim3(row_threads), shared, place->stream, job)
                               : launch<softmax_rows_backward<float, log>>(
                                     blocks, dim3(row_threads), shared, place->stream, job));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(softmax) { return cuda::start_softmax<false>(args, place); }
NNTILE_CUDA_KERNEL(log_softmax) { return cuda::start_softmax<true>(args, place); }
NNTILE_CUDA_KERNEL(softmax_backward) { return cuda::start_softmax_backward<false>(args, place); }
NNTILE_CUDA_KERNEL(log_softmax_backward) { return cuda::start_softmax_backward<true>(args, place); }

}  // namespace nntile::kernels
