// SPDX-License-Identifier: BSD-3-Clause
// Softmax and log-softmax over the last dim, and their gradients. y may be x, dx may be dy.
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

// x -> y
template <DType D, bool keeps, bool log>
__global__ void softmax_rows(const __grid_constant__ RowJob<2> job) {
    using T = typename Elements<D, keeps, 2>::T;
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<2> row(job, number);
        Elements<D, keeps, 2> x(row, 0);
        const Elements<D, false, 2> y(row, 1);
        const auto most = static_cast<T>(
            fold_row<keeps, Op_amax>(job.d, shared, [&](int64_t j, int i) { return x.get(j, i); }));
        const double sum = fold_row<keeps, Op_sum>(job.d, shared, [&](int64_t j, int i) {
            const T e = exp_of(x.get(j, i) - most);
            if constexpr (keeps && !log) x.kept[i] = e;
            return e;
        });
        const auto by = static_cast<T>(log ? log_of(sum) : 1 / sum);
        each_of_row<keeps>(job.d, [&](int64_t j, int i) {
            const T v = x.get(j, i);
            if constexpr (log) y.set(j, v - most - by);
            else if constexpr (keeps) y.set(j, v * by);
            else y.set(j, exp_of(v - most) * by);
        });
    }
}

// dy, y -> dx
template <DType D, bool keeps, bool log>
__global__ void softmax_rows_backward(const __grid_constant__ RowJob<3> job) {
    using T = typename Elements<D, keeps, 3>::T;
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<3> row(job, number);
        const Elements<D, keeps, 3> dy(row, 0), y(row, 1);
        const Elements<D, false, 3> dx(row, 2);
        const auto sum =
            static_cast<T>(fold_row<keeps, Op_sum>(job.d, shared, [&](int64_t j, int i) {
                return log ? dy.get(j, i) : dy.get(j, i) * y.get(j, i);
            }));
        each_of_row<keeps>(job.d, [&](int64_t j, int i) {
            const T slope = dy.get(j, i), v = y.get(j, i);
            dx.set(j, log ? slope - exp_of(v) * sum : (slope - sum) * v);
        });
    }
}

template <bool log>
static int start_softmax(const Args& args, const CudaPlace* place) {
    RowJob<2> job;
    if (!is_row_dtype(args.blocks[0]) || args.blocks[1].dtype != args.blocks[0].dtype ||
        !make_row_job(job, args, {1}))
        return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    return start_rows(args, args.blocks[0], job, [&](auto dtype, auto keeps, auto... sizes) {
        return launch<softmax_rows<dtype(), keeps(), log>>(sizes..., place->stream, job);
    });
}

template <bool log>
static int start_softmax_backward(const Args& args, const CudaPlace* place) {
    RowJob<3> job;
    const DType dtype = args.blocks[0].dtype;
    if (!is_row_dtype(args.blocks[0]) || args.blocks[1].dtype != dtype ||
        args.blocks[2].dtype != dtype || !make_row_job(job, args, {2}))
        return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    return start_rows(args, args.blocks[0], job, [&](auto d, auto keeps, auto... sizes) {
        return launch<softmax_rows_backward<d(), keeps(), log>>(sizes..., place->stream, job);
    });
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(softmax) { return cuda::start_softmax<false>(args, place); }
NNTILE_CUDA_KERNEL(log_softmax) { return cuda::start_softmax<true>(args, place); }
NNTILE_CUDA_KERNEL(softmax_backward) { return cuda::start_softmax_backward<false>(args, place); }
NNTILE_CUDA_KERNEL(log_softmax_backward) { return cuda::start_softmax_backward<true>(args, place); }

}  // namespace nntile::kernels
