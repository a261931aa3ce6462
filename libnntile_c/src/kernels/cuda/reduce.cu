// SPDX-License-Identifier: BSD-3-Clause
// Reductions over any dims. Each result is folded by a block of threads, or by one thread where it
// has few elements; in double, or int64, and joined in an order that depends on nothing else.
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"
#include "kernels/fold.hh"
#include "kernels/fold_ops_isa.hh"

namespace nntile::kernels::cuda {

struct ReduceJob {
    Job<2> kept;     // x and y over the dims that stay
    Job<1> reduced;  // x over the others
    bool accumulate = false;
};

constexpr unsigned most_threads = 256;
constexpr int64_t few = 32;

template <class Wide>
__device__ Wide take(Fold fold, Wide x) {
    switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return Op_##name::take(x);
#include "kernels/fold.def"
#undef FOLD
    }
    return x;
}
template <class Wide>
__device__ Wide join(Fold fold, Wide a, Wide b) {
    switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return Op_##name::join(a, b);
#include "kernels/fold.def"
#undef FOLD
    }
    return a;
}
template <class Wide>
__device__ Wide identity(Fold fold) {
    switch (fold) {
#define FOLD(name, ...) \
    case Fold::name: return Op_##name::template identity<Wide>;
#include "kernels/fold.def"
#undef FOLD
    }
    return Wide{};
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

// Every `step`th element from `first` on.
template <class Wide>
__device__ Wide fold_some(const ReduceJob& job, Fold fold, int64_t from, int64_t first,
                          int64_t step) {
    Wide total = identity<Wide>(fold);
    for (int64_t e = first; e < job.reduced.count; e += step) {
        int64_t at = from, rest = e;
        for (int d = job.reduced.dims; d-- > 0;)
            at += take_place(rest, job.reduced.sizes[d]) * job.reduced.blocks[0].strides[d];
        total = join(fold, total, take(fold, load_as<Wide>(job.kept.blocks[0], at)));
    }
    return total;
}

template <class Wide>
__device__ void finish(const ReduceJob& job, Fold fold, int64_t at, Wide total) {
    const JobBlock& y = job.kept.blocks[1];
    if (job.accumulate) total = join(fold, load_as<Wide>(y, at), total);
    store_as(y, at, total);
}

template <class Wide>
__global__ void reduce_by_blocks(const __grid_constant__ ReduceJob job, Fold fold) {
    Wide* const shared = shared_memory<Wide>();
    for (int64_t number = blockIdx.x; number < job.kept.count; number += gridDim.x) {
        const Places at = places_of(job.kept, number);
        shared[threadIdx.x] = fold_some<Wide>(job, fold, at.x, threadIdx.x, blockDim.x);
        for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
            __syncthreads();
            if (threadIdx.x < half)
                shared[threadIdx.x] = join(fold, shared[threadIdx.x], shared[threadIdx.x + half]);
        }
        if (threadIdx.x == 0) finish(job, fold, at.y, shared[0]);
        __syncthreads();  // before the next result is folded there
    }
}

template <class Wide>
__global__ void reduce_by_threads(const __grid_constant__ ReduceJob job, Fold fold) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.kept.count;
         number += all) {
        const Places at = places_of(job.kept, number);
        finish(job, fold, at.y, fold_some<Wide>(job, fold, at.x, 0, 1));
    }
}

template <class Wide>
static cudaError_t start_reduce(const ReduceJob& job, Fold fold, cudaStream_t stream) {
    if (job.reduced.count <= few) {
        const Grid grid = grid_of(job.kept.count);
        return launch<reduce_by_threads<Wide>>(grid.blocks, grid.threads, 0, stream, job, fold);
    }
    const unsigned threads = job.reduced.count < most_threads ? 64 : most_threads;
    const Grid grid = grid_of(job.kept.count, 1);  // a block for each
    return launch<reduce_by_blocks<Wide>>(grid.blocks, dim3(threads), threads * sizeof(Wide),
                                          stream, job, fold);
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
    if (!make_job(job.kept, part, {0})) return not_on_device;
    part.sizes = reduced;
    part.blocks = args.blocks.first(1);
    if (!make_job(job.reduced, part, {0})) return not_on_device;
    if (!place || job.kept.count == 0) return 0;
    const auto fold = static_cast<Fold>(args.params[0].i);
    return status_of(args, compute_of(x.dtype) == compute_i64
                               ? cuda::start_reduce<int64_t>(job, fold, place->stream)
                               : cuda::start_reduce<double>(job, fold, place->stream));
}

}  // namespace nntile::kernels
