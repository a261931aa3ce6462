// SPDX-License-Identifier: BSD-3-Clause
// Reductions over any dims, in double or int64.
#include "kernels/cuda/element.hh"
#include "kernels/cuda/pieces.hh"
#include "kernels/fold.hh"
#include "kernels/fold_ops_isa.hh"

namespace nntile::kernels::cuda {

struct ReduceJob {
    Job<2> kept;     // x and y over the dims that stay
    Job<1> reduced;  // x over the others
    bool accumulate = false;
};

// The fold of a launch; and a sum, which most are, without asking for each element which it is.
struct AnyFold {
    Fold fold;
    template <class Wide>
    __device__ Wide take(Wide x) const {
        switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return Op_##name::take(x);
#include "kernels/fold.def"
#undef FOLD
        }
        return x;
    }
    template <class Wide>
    __device__ Wide join(Wide a, Wide b) const {
        switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return Op_##name::join(a, b);
#include "kernels/fold.def"
#undef FOLD
        }
        return a;
    }
    template <class Wide>
    __device__ Wide none() const {
        switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return Op_##name::template identity<Wide>;
#include "kernels/fold.def"
#undef FOLD
        }
        return Wide{};
    }
};
struct SumFold : Op_sum {
    template <class Wide>
    __device__ Wide none() const {
        return identity<Wide>;
    }
};

// Where result `number` lies in x and y.
struct Places {
    int64_t x = 0, y = 0;
};
__device__ inline Places places_of(const Job<2>& kept, int64_t number) {
    Places at;
    for (int d = kept.dims; d-- > 0;) {
        const int64_t place = take_place(number, kept.sizes[d]);
        at.x += place * kept.blocks[0].strides[d];
        at.y += place * kept.blocks[1].strides[d];
    }
    return at;
}

// Whether elements of this dtype are folded as T.
template <class T>
constexpr bool is_folded_as(DType dtype) {
    return (compute_of(dtype) == compute_i64) == std::is_same_v<T, int64_t>;
}

// A thread's elements; a few are on their way at once.
template <class Wide, DType D, class Ops>
__device__ Wide fold_share(const ReduceJob& job, Ops fold, const Share& share, int64_t from) {
    constexpr int ways = 8;
    const auto* x = static_cast<const Storage<D>*>(job.kept.blocks[0].data) + from;
    const auto place = [&](int64_t e) {
        if (job.reduced.dims == 1) return e * job.reduced.blocks[0].strides[0];
        int64_t at = 0;
        for (int d = job.reduced.dims; d-- > 0;)
            at += take_place(e, job.reduced.sizes[d]) * job.reduced.blocks[0].strides[d];
        return at;
    };
    const auto read = [&](int64_t e) { return Element<D>::template get<Wide>(x[place(e)]); };
    Wide total[ways];
    for (int w = 0; w < ways; ++w) total[w] = fold.template none<Wide>();
    int64_t e = share.first;
    for (; e + int64_t{ways - 1} * share.stride < share.end; e += int64_t{ways} * share.stride) {
        Wide value[ways];
#pragma unroll
        for (int w = 0; w < ways; ++w) value[w] = read(e + int64_t{w} * share.stride);
#pragma unroll
        for (int w = 0; w < ways; ++w) total[w] = fold.join(total[w], fold.take(value[w]));
    }
    for (; e < share.end; e += share.stride) total[0] = fold.join(total[0], fold.take(read(e)));
#pragma unroll
    for (int apart = ways / 2; apart > 0; apart /= 2)
#pragma unroll
        for (int w = 0; w < apart; ++w) total[w] = fold.join(total[w], total[w + apart]);
    return total[0];
}
template <class Wide, class Ops>
__device__ Wide fold_share(const ReduceJob& job, Ops fold, const Share& share, int64_t from) {
    switch (job.kept.blocks[0].dtype) {
#define DO(d)                                                          \
    case DType::d:                                                     \
        if constexpr (is_folded_as<Wide>(DType::d))                    \
            return fold_share<Wide, DType::d>(job, fold, share, from); \
        break;
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: break;
    }
    return fold.template none<Wide>();
}

template <class Wide>
__device__ void finish(const ReduceJob& job, AnyFold fold, int64_t number, Wide total) {
    const JobBlock& y = job.kept.blocks[1];
    const int64_t at = places_of(job.kept, number).y;
    if (job.accumulate) total = fold.join(load_as<Wide>(y, at), total);
    store_as(y, at, total);
}

template <class Wide>
__global__ void fold_pieces(const __grid_constant__ ReduceJob job, AnyFold fold, const Split split,
                            Wide* waiting) {
    Wide* const shared = shared_memory<Wide>();
    const auto joins = [=](Wide a, Wide b) { return fold.join(a, b); };
    for (int64_t number = blockIdx.x; number < split.groups * split.pieces; number += gridDim.x) {
        const Share share(split, number, static_cast<int>(threadIdx.x));
        const bool there = share.result < split.results;
        const int64_t from = there ? places_of(job.kept, share.result).x : 0;
        const Wide own = fold.fold == Fold::sum ? fold_share<Wide>(job, SumFold(), share, from)
                                                : fold_share<Wide>(job, fold, share, from);
        const Wide total = join_slices(share, split.each, own, shared, joins);
        if (!there || share.slice > 0) continue;
        if (split.pieces > 1) waiting[share.piece * split.results + share.result] = total;
        else finish(job, fold, share.result, total);
    }
}
// What the pieces of a result have waits in scratch: a block joins it.
template <class Wide>
__global__ void join_pieces(const __grid_constant__ ReduceJob job, AnyFold fold, const Split split,
                            const Wide* waiting) {
    Wide* const shared = shared_memory<Wide>();
    for (int64_t number = blockIdx.x; number < split.results; number += gridDim.x) {
        Wide total = fold.template none<Wide>();
        for (int64_t piece = threadIdx.x; piece < split.pieces; piece += blockDim.x)
            total = fold.join(total, waiting[piece * split.results + number]);
        __syncthreads();  // the result before may still be read
        shared[threadIdx.x] = total;
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half)
                shared[threadIdx.x] = fold.join(shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        if (threadIdx.x == 0) finish(job, fold, number, shared[0]);
    }
}

template <class Wide>
static cudaError_t start_reduce(const ReduceJob& job, AnyFold fold, const CudaPlace& place) {
    const auto away = [](const auto& of) {
        const int64_t stride = of.blocks[0].strides[of.dims - 1];
        return stride < 0 ? -stride : stride;
    };
    const Split split(job.kept.count, job.reduced.count, away(job.kept) < away(job.reduced),
                      sizeof(Wide));
    auto* waiting = reinterpret_cast<Wide*>(place.scratch);
    const cudaError_t error = launch<fold_pieces<Wide>>(
        grid_of(split.blocks(), 1).blocks, dim3(Split::threads), Split::threads * sizeof(Wide),
        place.stream, job, fold, split, waiting);
    if (error || split.pieces == 1) return error;
    constexpr unsigned threads = 64;
    return launch<join_pieces<Wide>>(grid_of(split.results, 1).blocks, dim3(threads),
                                     threads * sizeof(Wide), place.stream, job, fold, split,
                                     waiting);
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(reduce) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    Dims kept(args.sizes), reduced(args.sizes);
    for (size_t d = 0; d < args.sizes.size(); ++d) (y.strides[d] == 0 ? kept : reduced)[d] = 1;
    cuda::ReduceJob job;
    job.accumulate = args.params[1].i != 0;
    Args part = args;
    part.sizes = kept;
    if (args.numbers != 0 || !make_job(job.kept, part, {0})) return not_on_device;
    part.sizes = reduced;
    part.blocks = args.blocks.first(1);
    if (!make_job(job.reduced, part, {0})) return not_on_device;
    if (!place || job.kept.count == 0) return 0;
    const cuda::AnyFold fold{static_cast<Fold>(args.params[0].i)};
    return status_of(args, compute_of(x.dtype) == compute_i64
                               ? cuda::start_reduce<int64_t>(job, fold, *place)
                               : cuda::start_reduce<double>(job, fold, *place));
}

}  // namespace nntile::kernels
