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

// The fold of a launch; and a sum, which most are. body(Op_name()) is for as many elements as there
// are at once: to find the op for each of them would take longer than its work.
struct AnyFold {
    Fold fold;
    template <class Body>
    __device__ auto as(Body&& body) const {
        switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return body(Op_##name());
#include "kernels/fold.def"
#undef FOLD
        }
        return body(Op_sum());
    }
};
struct SumFold {
    template <class Body>
    __device__ auto as(Body&& body) const {
        return body(Op_sum());
    }
};
template <class Wide, class Ops>
__device__ Wide none_of(Ops fold) {
    return fold.as([]<class Op>(Op) { return Op::template identity<Wide>; });
}
template <class Wide, class Ops>
__device__ Wide join(Ops fold, Wide a, Wide b) {
    return fold.as([&]<class Op>(Op) { return Op::join(a, b); });
}

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

// How many of a thread's elements are on their way at once.
constexpr int ways = 8;

// Where element e of a result lies, from its first one.
__device__ inline int64_t place_of(const Job<1>& reduced, int64_t e) {
    if (reduced.dims == 1) return e * reduced.blocks[0].strides[0];
    int64_t at = 0;
#pragma unroll 1
    for (int d = reduced.dims; d-- > 0;)
        at += take_place(e, reduced.sizes[d]) * reduced.blocks[0].strides[d];
    return at;
}
// The elements at n places. The dtype is looked up once for all of them, as the fold is.
template <class Wide, int n>
__device__ void read(Wide (&value)[n], const JobBlock& x, const int64_t (&at)[n]) {
    switch (x.dtype) {
#define DO(d)                                                                                 \
    case DType::d:                                                                            \
        if constexpr ((compute_of(DType::d) == compute_i64) == std::is_same_v<Wide, int64_t>) \
            for (int w = 0; w < n; ++w) value[w] = number_at<DType::d, Wide>(x.data, at[w]);  \
        break;
        NNTILE_EACH_DTYPE(DO)
#undef DO
        default: break;
    }
}

template <class Wide, class Ops>
__device__ Wide fold_share(const ReduceJob& job, Ops fold, const Share& share, int64_t from) {
    const auto place = [&](int64_t e) { return from + place_of(job.reduced, e); };
    Wide total[ways];
    for (Wide& t : total) t = none_of<Wide>(fold);
    int64_t e = share.first;
    for (; e + int64_t{ways - 1} * share.stride < share.end; e += int64_t{ways} * share.stride) {
        int64_t at[ways];
        Wide value[ways] = {};
#pragma unroll
        for (int w = 0; w < ways; ++w) at[w] = place(e + int64_t{w} * share.stride);
        read(value, job.kept.blocks[0], at);
        fold.as([&]<class Op>(Op) {
#pragma unroll
            for (int w = 0; w < ways; ++w) total[w] = Op::join(total[w], Op::take(value[w]));
        });
    }
    for (; e < share.end; e += share.stride) {
        const int64_t at[] = {place(e)};
        Wide value[1] = {};
        read(value, job.kept.blocks[0], at);
        total[0] = fold.as([&]<class Op>(Op) { return Op::join(total[0], Op::take(value[0])); });
    }
    return fold.as([&]<class Op>(Op) {
#pragma unroll
        for (int apart = ways / 2; apart > 0; apart /= 2)
#pragma unroll
            for (int w = 0; w < apart; ++w) total[w] = Op::join(total[w], total[w + apart]);
        return total[0];
    });
}

template <class Wide>
__device__ void finish(const ReduceJob& job, AnyFold fold, int64_t number, Wide total) {
    const JobBlock& y = job.kept.blocks[1];
    const int64_t at = places_of(job.kept, number).y;
    if (job.accumulate) total = join(fold, load_as<Wide>(y, at), total);
    store_as(y, at, total);
}

template <class Wide>
__global__ void fold_pieces(const __grid_constant__ ReduceJob job, AnyFold fold, const Split split,
                            Wide* waiting) {
    Wide* const shared = shared_memory<Wide>();
    const auto joins = [=](Wide a, Wide b) { return join(fold, a, b); };
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
        Wide total = none_of<Wide>(fold);
        for (int64_t piece = threadIdx.x; piece < split.pieces; piece += blockDim.x)
            total = join(fold, total, waiting[piece * split.results + number]);
        __syncthreads();  // the result before may still be read
        shared[threadIdx.x] = total;
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half)
                shared[threadIdx.x] = join(fold, shared[threadIdx.x], shared[threadIdx.x + half]);
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
