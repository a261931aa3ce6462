// SPDX-License-Identifier: BSD-3-Clause
// Sorted rows that a block can keep, and where a number would stand in one. nan is the largest. In
// a sorted row an element stands behind as many as lie before it: each thread counts those of some
// elements.
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

inline constexpr int64_t longest_row = 2048;

template <class T>
__device__ bool is_before(T a, T b) {  // in ascending order
    return a < b || (b != b && a == a);
}

// x -> y, places
template <class T>
__global__ void sort_rows(const __grid_constant__ RowJob<3> job, bool descending) {
    T* const shared = shared_memory<T>();
    for (int64_t number = blockIdx.x; number < job.rows.count; number += gridDim.x) {
        const Row<3> row(job, number);
        __syncthreads();  // the row before may still be read
        for (int64_t j = threadIdx.x; j < job.d; j += blockDim.x) shared[j] = row.get<T>(0, j);
        __syncthreads();
        for (int64_t j = threadIdx.x; j < job.d; j += blockDim.x) {
            const T own = shared[j];
            int64_t place = 0;
            for (int64_t i = 0; i < job.d; ++i) {
                const bool sooner =
                    descending ? is_before(own, shared[i]) : is_before(shared[i], own);
                const bool later =
                    descending ? is_before(shared[i], own) : is_before(own, shared[i]);
                place += sooner || (!later && i < j);
            }
            row.set(1, place, own);
            row.set(2, place, j);
        }
    }
}

struct SearchJob {
    Job<3> points;  // sequence, x, y
    int64_t n = 0, step = 0;
    bool right = false;
};
template <class T>
__global__ void search_sorted(const __grid_constant__ SearchJob job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const auto& blocks = job.points.blocks;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.points.count;
         number += all) {
        int64_t rest = number, at[3] = {};
        for (int d = job.points.dims; d-- > 0;) {
            const int64_t place = take_place(rest, job.points.sizes[d]);
            for (int k = 0; k < 3; ++k) at[k] += place * blocks[k].strides[d];
        }
        const T value = load_as<T>(blocks[1], at[1]);
        int64_t low = 0, high = job.n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const T other = load_as<T>(blocks[0], at[0] + middle * job.step);
            if (job.right ? !is_before(value, other) : is_before(other, value)) low = middle + 1;
            else high = middle;
        }
        store_as(blocks[2], at[2], low);
    }
}

template <class Start>
static int start_by_type(const Args& args, Start&& start) {
    switch (compute_of(args.blocks[0].dtype)) {
        case compute_f32: return status_of(args, start(float{}));
        case compute_f64: return status_of(args, start(double{}));
        default: return status_of(args, start(int64_t{}));
    }
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

// The last dims are k = d and d: x has the last one, the results have the one before.
NNTILE_CUDA_KERNEL(sort) {
    using namespace cuda;
    const size_t d = args.sizes.size() - 1;
    Dims of_x(std::span(args.blocks[0].strides, d + 1));
    of_x[d - 1] = of_x[d];
    const Block blocks[] = {
        {args.blocks[0].data, args.blocks[0].dtype, of_x.data()}, args.blocks[1], args.blocks[2]};
    Args rows = args;
    rows.sizes = args.sizes.first(d);
    rows.blocks = blocks;
    RowJob<3> job;
    if (args.sizes[d] > longest_row || !make_row_job(job, rows, {0})) return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    const bool descending = args.params[0].i != 0;
    return start_by_type(args, [&]<class T>(T) {
        return launch<sort_rows<T>>(grid_of(job.rows.count, 1).blocks, dim3(threads_of(job.d)),
                                    static_cast<size_t>(job.d) * sizeof(T), place->stream, job,
                                    descending);
    });
}

NNTILE_CUDA_KERNEL(searchsorted) {
    using namespace cuda;
    const size_t n = args.sizes.size() - 1;
    const Block blocks[] = {args.blocks[0], args.blocks[1], args.blocks[3]};
    Args points = args;
    points.sizes = args.sizes.first(n);
    points.blocks = blocks;
    SearchJob job;
    // A sorter that leads out of its row is an error that cores say.
    if (args.numbers != 0 || args.blocks[2].data || !make_job(job.points, points, {1}))
        return not_on_device;
    if (!place || job.points.count == 0) return 0;
    job.n = args.sizes[n];
    job.step = args.blocks[0].strides[n];
    job.right = args.params[0].i != 0;
    const Grid grid = grid_of(job.points.count);
    return start_by_type(args, [&]<class T>(T) {
        return launch<search_sorted<T>>(grid.blocks, grid.threads, 0, place->stream, job);
    });
}

}  // namespace nntile::kernels
