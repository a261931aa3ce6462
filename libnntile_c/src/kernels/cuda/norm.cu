// SPDX-License-Identifier: BSD-3-Clause
// Layer norm and RMS norm over the last dim, and their gradients. RMS norm takes no mean off, and
// has no bias.
#include "kernels/cuda/pieces.hh"
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

template <DType D, bool keeps, bool centred>
__global__ void norm_rows(const __grid_constant__ RowJob<most_operands> job, double eps) {
    using Of = Forward<centred>;
    using X = Elements<D, keeps, most_operands>;
    using T = typename X::T;
    double* const shared = shared_memory<double>();
    const auto d = static_cast<double>(job.d);
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<most_operands> row(job, number);
        const X x(row, 0);
        const Elements<D, false, most_operands> y(row, Of::y);
        const Shared<D, most_operands> weight(row, Of::weight), bias(row, Of::bias);
        const auto value = [&](int64_t j, int i) { return x.get(j, i); };
        const double mean = centred ? fold_row<keeps, Op_sum>(job.d, shared, value) / d : 0;
        const auto take_off = static_cast<T>(mean);
        const double squares = fold_row<keeps, Op_sum>(job.d, shared, [&](int64_t j, int i) {
            const T away = x.get(j, i) - take_off;
            return away * away;
        });
        const double rstd = 1 / std::sqrt(squares / d + eps);
        const auto scale = static_cast<T>(rstd);
        each_of_row<keeps>(job.d, [&](int64_t j, int i) {
            T result = (x.get(j, i) - take_off) * scale * weight.get_or(j, T(1));
            if (centred) result += bias.get_or(j, T(0));
            y.set(j, result);
        });
        if (threadIdx.x > 0) continue;
        if (centred) row.set(Of::mean, 0, mean);
        row.set(Of::rstd, 0, rstd);
    }
}

template <DType D, bool keeps, bool centred>
__global__ void norm_rows_input(const __grid_constant__ RowJob<most_operands> job) {
    using Of = Backward<centred>;
    using X = Elements<D, keeps, most_operands>;
    double* const shared = shared_memory<double>();
    const auto d = static_cast<double>(job.d);
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<most_operands> row(job, number);
        const X dy(row, 0), x(row, Of::x);
        const Elements<D, false, most_operands> dx(row, Of::dx);
        const Shared<D, most_operands> weight(row, Of::weight);
        using T = typename X::T;
        const T mean = centred ? row.template get<T>(Of::mean) : T(0),
                rstd = row.template get<T>(Of::rstd);
        const auto g = [&](int64_t j, int i) { return dy.get(j, i) * weight.get_or(j, T(1)); };
        const auto normal = [&](int64_t j, int i) { return (x.get(j, i) - mean) * rstd; };
        const auto mean_of = [&](double sum) { return static_cast<T>(sum / d); };
        const T flat = centred ? mean_of(fold_row<keeps, Op_sum>(job.d, shared, g)) : T(0);
        const T slope = mean_of(fold_row<keeps, Op_sum>(
            job.d, shared, [&](int64_t j, int i) { return g(j, i) * normal(j, i); }));
        each_of_row<keeps>(job.d, [&](int64_t j, int i) {
            dx.set(j, rstd * (g(j, i) - flat - normal(j, i) * slope));
        });
    }
}

// Sums over rows, of each element: of the slope of a weight and of a bias.
struct Sums {
    double dw, db;
};
__device__ inline Sums join_sums(const Sums& a, const Sums& b) {
    return {a.dw + b.dw, a.db + b.db};
}
template <bool centred>
__device__ void finish_affine(const RowJob<most_operands>& job, bool accumulate, int64_t j,
                              const Sums& sums) {
    using Of = Backward<centred>;
    const Row<most_operands> first(job, 0);
    const auto finish = [&](int k, double sum) {
        if (!job.present[k]) return;
        if (accumulate) sum += first.template get<double>(k, j);
        first.set(k, j, sum);
    };
    finish(Of::dw, sums.dw);
    if constexpr (centred) finish(Of::db, sums.db);
}
template <bool centred>
__global__ void norm_rows_affine(const __grid_constant__ RowJob<most_operands> job, bool accumulate,
                                 const Split split, Sums* waiting) {
    using Of = Backward<centred>;
    Sums* const shared = shared_memory<Sums>();
    for (int64_t number = blockIdx.x; number < split.groups * split.pieces; number += gridDim.x) {
        const Share share(split, number, static_cast<int>(threadIdx.x));
        const int64_t j = share.result;
        Sums sums{0, 0};
#pragma unroll 2
        for (int64_t r = share.first; r < share.end; r += share.stride) {
            const Row<most_operands> row(job, r);
            const double mean = centred ? row.template get<double>(Of::mean) : 0;
            const auto dy = row.template get<double>(0, j);
            sums.dw += dy * (row.template get<double>(Of::x, j) - mean) *
                       row.template get<double>(Of::rstd);
            sums.db += dy;
        }
        sums = join_slices(share, split.each, sums, shared, join_sums);
        if (j >= split.results || share.slice > 0) continue;
        if (split.pieces > 1) waiting[share.piece * split.results + j] = sums;
        else finish_affine<centred>(job, accumulate, j, sums);
    }
}
template <bool centred>
__global__ void join_affine(const __grid_constant__ RowJob<most_operands> job, bool accumulate,
                            const Split split, const Sums* waiting) {
    const int64_t j = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    if (j >= split.results) return;
    Sums sums{0, 0};
    for (int64_t piece = 0; piece < split.pieces; ++piece)
        sums = join_sums(sums, waiting[piece * split.results + j]);
    finish_affine<centred>(job, accumulate, j, sums);
}

template <bool centred>
static int start_norm(const Args& args, const CudaPlace* place) {
    RowJob<most_operands> job;
    const Block& x = args.blocks[0];
    if (!is_row_dtype(x) || args.blocks[Forward<centred>::y].dtype != x.dtype ||
        !make_row_job(job, args, {0}))
        return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    const double eps = args.params[0].f;
    return start_rows(args, x, job, [&](auto d, auto keeps, auto... sizes) {
        return launch<norm_rows<d(), keeps(), centred>>(sizes..., place->stream, job, eps);
    });
}

template <bool centred>
static int start_norm_input(const Args& args, const CudaPlace* place) {
    RowJob<most_operands> job;
    using Of = Backward<centred>;
    const Block& dy = args.blocks[0];
    if (!is_row_dtype(dy) || args.blocks[Of::x].dtype != dy.dtype ||
        args.blocks[Of::dx].dtype != dy.dtype || !make_row_job(job, args, {0}))
        return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    return start_rows(args, dy, job, [&](auto d, auto keeps, auto... sizes) {
        return launch<norm_rows_input<d(), keeps(), centred>>(sizes..., place->stream, job);
    });
}

template <bool centred>
static int start_norm_affine(const Args& args, const CudaPlace* place) {
    RowJob<most_operands> job;
    if (!is_row_dtype(args.blocks[0]) || !make_row_job(job, args, {0})) return not_on_device;
    if (!place || job.d == 0) return 0;
    const bool accumulate = args.params[0].i != 0;
    const Split split(job.d, job.rows.count, true, sizeof(Sums));
    auto* waiting = reinterpret_cast<Sums*>(place->scratch);
    const cudaError_t error = launch<norm_rows_affine<centred>>(
        grid_of(split.blocks(), 1).blocks, dim3(Split::threads), Split::threads * sizeof(Sums),
        place->stream, job, accumulate, split, waiting);
    if (error || split.pieces == 1) return status_of(args, error);
    const Grid grid = grid_of(split.results);
    return status_of(args, launch<join_affine<centred>>(grid.blocks, grid.threads, 0, place->stream,
                                                        job, accumulate, split, waiting));
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
