// SPDX-License-Identifier: BSD-3-Clause
// Index of the first extreme in row-major order of the reduced dims, which are the last ones; nan
// beats all. A result is a block's, or a thread's where it is of few elements.
#include "base/error.hh"
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"

namespace nntile::kernels::cuda {

struct ExtremeJob {
    Job<2> kept;     // x and y over the dims that stay
    Job<1> reduced;  // x over the others
    bool largest = false;
};

template <class T>
struct Best {
    T value;
    int64_t index;  // -1: none yet
};
// Whether b is further out than a, or as far and earlier.
template <class T>
__device__ bool beats(const Best<T>& b, const Best<T>& a, bool largest) {
    if (a.index < 0 || b.index < 0) return a.index < 0;
    const bool nan_a = a.value != a.value, nan_b = b.value != b.value;
    if (nan_a != nan_b) return nan_b;
    if (nan_a || a.value == b.value) return b.index < a.index;
    return largest ? b.value > a.value : b.value < a.value;
}

template <class T>
__device__ Best<T> find_some(const ExtremeJob& job, int64_t from, int64_t first, int64_t step) {
    Best<T> best{T{}, -1};
    for (int64_t e = first; e < job.reduced.count; e += step) {
        int64_t at = from, rest = e;
        for (int d = job.reduced.dims; d-- > 0;)
            at += take_place(rest, job.reduced.sizes[d]) * job.reduced.blocks[0].strides[d];
        const Best<T> here{load_as<T>(job.kept.blocks[0], at), e};
        if (beats(here, best, job.largest)) best = here;
    }
    return best;
}

template <class T>
__global__ void find_extremes(const __grid_constant__ ExtremeJob job, bool by_threads) {
    Best<T>* const shared = shared_memory<Best<T>>();
    const int64_t step = by_threads ? 1 : blockDim.x, self = by_threads ? 0 : threadIdx.x,
                  all = by_threads ? int64_t{gridDim.x} * blockDim.x : gridDim.x;
    for (int64_t number = by_threads ? int64_t{blockIdx.x} * blockDim.x + threadIdx.x : blockIdx.x;
         number < job.kept.count; number += all) {
        int64_t rest = number, x = 0, y = 0;
        for (int d = job.kept.dims; d-- > 0;) {
            const int64_t place = take_place(rest, job.kept.sizes[d]);
            x += place * job.kept.blocks[0].strides[d];
            y += place * job.kept.blocks[1].strides[d];
        }
        Best<T> best = find_some<T>(job, x, self, step);
        if (!by_threads) {
            __syncthreads();  // the result before may still be read
            shared[threadIdx.x] = best;
            for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
                __syncthreads();
                if (threadIdx.x < half &&
                    beats(shared[threadIdx.x + half], shared[threadIdx.x], job.largest))
                    shared[threadIdx.x] = shared[threadIdx.x + half];
            }
            best = shared[0];
        }
        if (self == 0) store_as(job.kept.blocks[1], y, best.index);
    }
}

static int start_extreme(const Args& args, const CudaPlace* place, bool largest) {
    constexpr int64_t few = 32;
    const size_t outer = args.sizes.size() - static_cast<size_t>(args.params[0].i);
    Dims kept(args.sizes), reduced(args.sizes);
    for (size_t d = 0; d < args.sizes.size(); ++d) (d < outer ? reduced : kept)[d] = 1;
    ExtremeJob job;
    job.largest = largest;
    Args part = args;
    part.sizes = kept;
    if (args.numbers != 0 || !make_job(job.kept, part, {0})) return not_on_device;
    part.sizes = reduced;
    part.blocks = args.blocks.first(1);
    if (!make_job(job.reduced, part, {})) return not_on_device;
    if (!place || job.kept.count == 0) return 0;
    if (job.reduced.count == 0)
        return fail_task(args, static_cast<int>(Status::index_error),
                         "%s: the reduced dims are empty", largest ? "argmax" : "argmin");
    const bool by_threads = job.reduced.count <= few;
    const Grid grid = by_threads ? grid_of(job.kept.count) : grid_of(job.kept.count, 1);
    const auto start = [&]<class T>(T) {
        const dim3 threads = by_threads ? grid.threads : dim3(256);
        return status_of(args, launch<find_extremes<T>>(grid.blocks, threads, 256 * sizeof(Best<T>),
                                                        place->stream, job, by_threads));
    };
    switch (compute_of(args.blocks[0].dtype)) {
        case compute_f32: return start(float{});
        case compute_f64: return start(double{});
        default: return start(int64_t{});
    }
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(argmax) { return cuda::start_extreme(args, place, true); }
NNTILE_CUDA_KERNEL(argmin) { return cuda::start_extreme(args, place, false); }

}  // namespace nntile::kernels
