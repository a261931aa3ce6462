// SPDX-License-Identifier: BSD-3-Clause
// Cross entropy of logits and classes, a row for a block; what is kept of a row is the logarithm of
// its sum of exponentials. The sum of the weights of targets, by which a mean divides, and the
// likelihoods of targets.
#include "kernels/cuda/rows.hh"

namespace nntile::kernels {

CudaFunction fill_on_cuda;

}  // namespace nntile::kernels

namespace nntile::kernels::cuda {

struct Smoothing {
    int64_t ignore_index = 0;
    double share = 0, own = 1;  // what each class gets of a row, and its target
    Refused* refused = nullptr;
};

// The class of a row: -1 where it is ignored, or refused.
template <int n>
__device__ int64_t class_of(const Row<n>& row, int k, int64_t classes, const Smoothing& s) {
    const auto c = row.template get<int64_t>(k);
    if (c == s.ignore_index) return -1;
    if (c >= 0 && c < classes) return c;
    refuse_at(s.refused, {Refusal::target, c, classes});
    return -1;
}
// Of all classes, where they share.
template <int n>
__device__ double all_weights(const Row<n>& row, int k, double* shared) {
    if (!row.job.present[k]) return static_cast<double>(row.job.d);
    return over_row<Op_sum, double>(row.job.d, shared,
                                    [&](int64_t j) { return row.template get<double>(k, j); });
}

// x, target, weight?, total_weight? -> loss, logsumexp
template <DType D, bool keeps>
__global__ void cross_entropy_rows(const __grid_constant__ RowJob<6> job, const Smoothing s) {
    using T = typename Elements<D, keeps, 6>::T;
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<6> row(job, number);
        const Elements<D, keeps, 6> logits(row, 0);
        const auto x = [&](int64_t j, int i) { return logits.get(j, i); };
        const int64_t c = class_of(row, 1, job.d, s);
        const auto most = static_cast<T>(fold_row<keeps, Op_amax>(job.d, shared, x));
        const double sum = fold_row<keeps, Op_sum>(
            job.d, shared, [&](int64_t j, int i) { return exp_of(x(j, i) - most); });
        const double log_sum = log_of(sum);
        double loss = 0;
        if (c >= 0) {
            const auto of_target = static_cast<double>(logits.read(c));
            loss = s.own * row.get_or(2, c, 1.0) * (log_sum - (of_target - most));
            if (s.share != 0) {
                const double shifted =
                    fold_row<keeps, Op_sum>(job.d, shared, [&](int64_t j, int i) {
                        return row.get_or(2, j, 1.0) * static_cast<double>(x(j, i) - most);
                    });
                loss += s.share * (log_sum * all_weights(row, 2, shared) - shifted);
            }
        }
        if (threadIdx.x > 0) continue;
        row.set(4, 0, loss / row.get_or(3, 0, 1.0));
        row.set(5, 0, most + log_sum);
    }
}

// dy, x, target, weight?, logsumexp, total_weight? -> dx
template <DType D>
__global__ void cross_entropy_rows_backward(const __grid_constant__ RowJob<7> job,
                                            const Smoothing s) {
    using X = Elements<D, false, 7>;
    using T = typename X::T;
    double* const shared = shared_memory<double>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<7> row(job, number);
        const X logits(row, 1), gradient(row, 6);
        const int64_t c = class_of(row, 2, job.d, s);
        const double slope = c < 0 ? 0 : row.template get<double>(0) / row.get_or(5, 0, 1.0);
        const double target = c < 0 ? 0 : slope * s.own * row.get_or(3, c, 1.0),
                     share = slope * s.share;
        const double all = target + (s.share != 0 ? share * all_weights(row, 3, shared) : 0);
        const double log_sum = row.template get<double>(4);
        each_of_row<false>(job.d, [&](int64_t j, int) {
            const double x = static_cast<double>(logits.read(j)) - log_sum;
            double dx = c < 0 ? 0 : all * static_cast<double>(exp_of(static_cast<T>(x)));
            if (share != 0) dx -= share * row.get_or(3, j, 1.0);
            if (j == c) dx -= target;
            gradient.set(j, static_cast<T>(dx));
        });
    }
}

// target, weight? -> total: by one block, in one order
__global__ void total_weight(const __grid_constant__ RowJob<3> job, const Smoothing s,
                             bool accumulate) {
    double* const shared = shared_memory<double>();
    double sum = 0;
    for (int64_t number = threadIdx.x; number < job.rows.count; number += blockDim.x) {
        const Row<3> row(job, number);
        const int64_t c = class_of(row, 0, job.d, s);
        if (c >= 0) sum += row.get_or(1, c, 1.0);
    }
    sum = over_block<Op_sum>(sum, shared);
    if (threadIdx.x > 0) return;
    const Row<3> first(job, 0);
    first.set(2, 0, accumulate ? first.template get<double>(2) + sum : sum);
}

enum { reduction_none, reduction_mean, reduction_sum };

template <int n>
__device__ double nll_of(const Row<n>& row, int64_t classes, const Smoothing& s) {
    const int64_t c = class_of(row, 1, classes, s);
    return c < 0 ? 0 : -row.get_or(2, c, 1.0) * row.template get<double>(0, c);
}
// logp, target, weight?, total_weight? -> y, of each row
__global__ void nll_rows(const __grid_constant__ RowJob<5> job, const Smoothing s) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.rows.count;
         number += all) {
        const Row<5> row(job, number);
        row.set(4, 0, nll_of(row, job.d, s));
    }
}
// of all rows: by one block, in one order
__global__ void nll_sum(const __grid_constant__ RowJob<5> job, const Smoothing s, bool mean,
                        bool accumulate) {
    double* const shared = shared_memory<double>();
    double sum = 0;
    for (int64_t number = threadIdx.x; number < job.rows.count; number += blockDim.x)
        sum += nll_of(Row<5>(job, number), job.d, s);
    sum = over_block<Op_sum>(sum, shared);
    if (threadIdx.x > 0) return;
    const Row<5> first(job, 0);
    if (mean) sum /= first.template get<double>(3);
    first.set(4, 0, accumulate ? first.template get<double>(4) + sum : sum);
}
// dy, target, weight?, total_weight? -> dx, of which all is 0
__global__ void nll_rows_backward(const __grid_constant__ RowJob<5> job, const Smoothing s,
                                  bool mean) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.rows.count;
         number += all) {
        const Row<5> row(job, number);
        const int64_t c = class_of(row, 1, job.d, s);
        if (c < 0) continue;
        const double divisor = mean ? row.template get<double>(3) : 1;
        row.set(4, c, -row.get_or(2, c, 1.0) * row.template get<double>(0) / divisor);
    }
}

static Smoothing smoothing_of(const Args& args) {
    const double smoothing = args.params[1].f;
    return {args.params[0].i, smoothing / static_cast<double>(args.sizes.back()), 1 - smoothing,
            nullptr};
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(cross_entropy) {
    using namespace cuda;
    RowJob<6> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    Smoothing s = smoothing_of(args);
    if (const cudaError_t error = place->watch(s.refused)) return status_of(args, error);
    return start_rows(args, args.blocks[0], job, [&](auto d, auto keeps, auto... sizes) {
        return launch<cross_entropy_rows<d(), keeps()>>(sizes..., place->stream, job, s);
    });
}

NNTILE_CUDA_KERNEL(cross_entropy_backward) {
    using namespace cuda;
    RowJob<7> job;
    const Block& x = args.blocks[1];
    if (!is_row_dtype(x) || args.blocks[6].dtype != x.dtype || !make_row_job(job, args, {1}))
        return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    Smoothing s = smoothing_of(args);
    if (const cudaError_t error = place->watch(s.refused)) return status_of(args, error);
    return start_rows(args, x, job, [&](auto d, auto, auto... sizes) {
        return launch<cross_entropy_rows_backward<d()>>(sizes..., place->stream, job, s);
    });
}

NNTILE_CUDA_KERNEL(nll_total_weight) {
    using namespace cuda;
    RowJob<3> job;
    if (!make_row_job(job, args, {0})) return not_on_device;
    if (!place) return 0;
    Smoothing s;
    s.ignore_index = args.params[0].i;
    if (const cudaError_t error = place->watch(s.refused)) return status_of(args, error);
    return status_of(args,
                     launch<total_weight>(dim3(1), dim3(row_threads), row_threads * sizeof(double),
                                          place->stream, job, s, args.params[1].i != 0));
}

NNTILE_CUDA_KERNEL(nll_loss) {
    using namespace cuda;
    RowJob<5> job;
    if (!make_row_job(job, args, {0})) return not_on_device;
    if (!place) return 0;
    const int64_t reduction = args.params[0].i;
    if (reduction == reduction_none && job.rows.count == 0) return 0;
    Smoothing s;
    s.ignore_index = args.params[1].i;
    if (const cudaError_t error = place->watch(s.refused)) return status_of(args, error);
    if (reduction == reduction_none) {
        const Grid grid = grid_of(job.rows.count);
        return status_of(args,
                         launch<nll_rows>(grid.blocks, grid.threads, 0, place->stream, job, s));
    }
    return status_of(args, launch<nll_sum>(dim3(1), dim3(row_threads), row_threads * sizeof(double),
                                           place->stream, job, s, reduction == reduction_mean,
                                           args.params[2].i != 0));
}

NNTILE_CUDA_KERNEL(nll_loss_backward) {
    using namespace cuda;
    RowJob<5> job;
    const Param value{.f = 0};
    Args zero = args;
    zero.blocks = args.blocks.subspan(4, 1);
    zero.params = {&value, 1};
    if (!make_row_job(job, args, {1})) return not_on_device;
    if (const int status = fill_on_cuda(zero, place)) return status;
    if (!place || job.rows.count == 0) return 0;
    Smoothing s;
    s.ignore_index = args.params[1].i;
    if (const cudaError_t error = place->watch(s.refused)) return status_of(args, error);
    const Grid grid = grid_of(job.rows.count);
    return status_of(args, launch<nll_rows_backward>(grid.blocks, grid.threads, 0, place->stream,
                                                     job, s, args.params[0].i == reduction_mean));
}

}  // namespace nntile::kernels
