// SPDX-License-Identifier: BSD-3-Clause
// Layer norm and RMS norm over the last dim, and their gradients. RMS norm takes no mean off, and
// has no bias.
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

// Operands, in the order of the rows' docs: a norm without mean lacks bias and mean. All have jobs
// of one type: compilers name a type that depends on a parameter in different ways.
constexpr int most_operands = 6;
template <bool centred>
struct Forward {  // x, weight?, bias? -> y, mean, rstd
    static constexpr int weight = 1, bias = 2, y = centred ? 3 : 2, mean = 4,
                         rstd = centred ? 5 : 3;
};
template <bool centred>
struct Backward {  // dy, x, mean, rstd, weight? -> dx; the same without a weight -> dw, db
    static constexpr int x = 1, mean = 2, rstd = centred ? 3 : 2, weight = rstd + 1, dx = rstd + 2,
                         dw = rstd + 1, db = rstd + 2;
};

template <class T, bool centred>
__global__ void norm_rows(const __grid_constant__ RowJob<most_operands> job, double eps) {
    using Of = Forward<centred>;
    double* const shared = shared_memory<double>();
    const auto d = static_cast<double>(job.d);
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<most_operands> row(job, number);
        const auto x = [&](int64_t j) { return row.template get<double>(0, j); };
        const double mean = centred ? over_row<Op_sum, double>(job.d, shared, x) / d : 0;
        const double squares = over_row<Op_sum, double>(
            job.d, shared, [&](int64_t j) { return (x(j) - mean) * (x(j) - mean); });
        const double rstd = 1 / std::sqrt(squares / d + eps);
        for (int64_t j = threadIdx.x; j < job.d; j += blockDim.x) {
            T y = (row.template get<T>(0, j) - static_cast<T>(mean)) * static_cast<T>(rstd);
            y *= row.get_or(Of::weight, j, T(1));
            if (centred) y += row.get_or(Of::bias, j, T(0));
            row.set(Of::y, j, y);
        }
        if (threadIdx.x > 0) continue;
        if (centred) row.set(Of::mean, 0, mean);
        row.set(Of::rstd, 0, rstd);
    }
}

template <class T, bool centred>
__global__ void norm_rows_input(const __grid_constant__ RowJob<most_operands> job) {
    using Of = Backward<centred>;
    double* const shared = shared_memory<double>();
    const auto d = static_cast<double>(job.d);
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<most_operands> row(job, number);
        const double mean = centred ? row.template get<double>(Of::mean) : 0,
                     rstd = row.template get<double>(Of::rstd);
        const auto g = [&](int64_t j) {
            return row.template get<double>(0, j) * row.get_or(Of::weight, j, 1.0);
        };
        const auto normal = [&](int64_t j) {
            return (row.template get<double>(Of::x, j) - mean) * rstd;
        };
        const double sum = centred ? over_row<Op_sum, double>(job.d, shared, g) / d : 0;
        const double dot =
            over_row<Op_sum, double>(job.d, shared, [&](int64_t j) { return g(j) * normal(j); }) /
            d;
        for (int64_t j = threadIdx.x; j < job.d; j += blockDim.x)
            row.set(Of::dx, j, static_cast<T>(rstd * (g(j) - sum - normal(j) * dot)));
    }
}

// A thread for each element of a row, which sums over the rows in their order.
template <class T, bool centred>
__global__ void norm_rows_affine(const __grid_constant__ RowJob<most_operands> job,
                                 bool accumulate) {
    using Of = Backward<centred>;
    const int64_t j = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (j >= job.d) return;
    double dw = 0, db = 0;
    for (int64_t number = 0; number < job.rows.count; ++number) {
        const Row<most_operands> row(job, number);
        const double mean = centred ? row.template get<double>(Of::mean) : 0;
        const auto dy = row.template get<double>(0, j);
        dw += dy * (row.template get<double>(Of::x, j) - mean) * row.template get<double>(Of::rstd);
        db += dy;
    }
    const Row<most_operands> first(job, 0);
    const auto finish = [&](int k, double sum) {
        if (!job.present[k]) return;
        if (accumulate) sum += first.template get<double>(k, j);
        first.set(k, j, sum);
    };
    finish(Of::dw, dw);
    if constexpr (centred) finish(Of::db, db);
}

template <bool centred>
static int start_norm(const Args& args, const CudaPlace* place) {
    RowJob<most_operands> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    const dim3 blocks = grid_of(job.rows.count, 1).blocks;
    const size_t shared = row_threads * sizeof(double);
    const double eps = args.params[0].f;
    return status_of(args, args.blocks[0].dtype == DType::f64
                               ? launch<norm_rows<double, centred>>(blocks, dim3(row_threads),
                                                                    shared, place->stream, job, eps)
                               : launch<norm_rows<float, centred>>(
                                     blocks, dim3(row_threads), shared, place->stream, job, eps));
}

template <bool centred>
static int start_norm_input(const Args& args, const CudaPlace* place) {
    RowJob<most_operands> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    const dim3 blocks = grid_of(job.rows.count, 1).blocks;
    const size_t shared = row_threads * sizeof(double);
    return status_of(args, args.blocks[0].dtype == DType::f64
                               ? launch<norm_rows_input<double, centred>>(
                                     blocks, dim3(row_threads), shared, place->stream, job)
                               : launch<norm_rows_input<float, centred>>(
                                     blocks, dim3(row_threads), shared, place->stream, job));
}

template <bool centred>
static int start_norm_affine(const Args& args, const CudaPlace* place) {
    RowJob<most_operands> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.d == 0) return 0;
    const Grid grid = grid_of(job.d, row_threads);
    const bool accumulate = args.params[0].i != 0;
    return status_of(args, args.blocks[0].dtype == DType::f64
                               ? launch<norm_rows_affine<double, centred>>(
                                     grid.blocks, grid.threads, 0, place->stream, job, accumulate)
                               : launch<norm_rows_affine<float, centred>>(
                                     grid.blocks, grid.threads, 0, place->stream, job, accumulate));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(layer_norm) { return cuda::start_norm<true>(args, place); }
NNTILE_CUDA_KERNEL(layer_norm_backward_input) { return cuda::start_norm_input<true>(args, place); }
NNTILE_CUDA_KERNEL(layer_norm_backward_affine) {
    return cuda::start_norm_affine<true>(args, place);
}
NNTILE_CUDA_KERNEL(rms_norm) { return cuda::start_norm<false>(args, place); }
NNTILE_CUDA_KERNEL(rms_norm_backward_input) { return cuda::start_norm_input<false>(args, place); }
NNTILE_CUDA_KERNEL(rms_norm_backward_affine) { return cuda::start_norm_affine<false>(args, place); }

}  // namespace nntile::kernels
