// SPDX-License-Identifier: BSD-3-Clause
// Sorted rows, and where a number would stand in one.
#include "kernels/cuda/order_job.hh"
#include "kernels/cuda/sorting.hh"

namespace nntile::kernels::cuda {

// x -> y, places, which are sorted where they lie.
template <class T>
struct SortedRows {
    using Item = Key<T>;
    RowJob<3> job;
    Earlier earlier;
    int64_t count, d;

    __device__ Row<3> row(int64_t number) const { return Row<3>(job, number); }
    __device__ static Item first(const Row<3>& row, int64_t j) { return {row.get<T>(0, j), j}; }
    __device__ static Item get(const Row<3>& row, int64_t j) {
        return {row.get<T>(1, j), row.get<int64_t>(2, j)};
    }
    __device__ static void set(const Row<3>& row, int64_t j, const Item& item) {
        row.set(1, j, item.value);
        row.set(2, j, item.place);
    }
    __device__ bool sooner(const Item& a, const Item& b) const { return earlier(a, b); }
};

// Sequence, x, y: of a row of the first x is one number, and y its place.
template <class T>
__global__ void search_sorted(const __grid_constant__ RowJob<3> job, bool right) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t number = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < job.rows.count;
         number += all) {
        const Row<3> row(job, number);
        const T value = row.get<T>(1);
        int64_t low = 0, high = job.d;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            const T other = row.get<T>(0, middle);
            if (right ? !before(value, other) : before(other, value)) low = middle + 1;
            else high = middle;
        }
        row.set(2, 0, low);
    }
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(sort) {
    using namespace cuda;
    RowJob<3> job;
    if (!make_first_job(job, args)) return not_on_device;
    if (!place || job.rows.count == 0 || job.d == 0) return 0;
    const Earlier earlier{args.params[0].i != 0};
    return start_by_type(args, [&]<class T>(T) {
        return start_sort(SortedRows<T>{job, earlier, job.rows.count, job.d}, place->stream);
    });
}

NNTILE_CUDA_KERNEL(searchsorted) {
    using namespace cuda;
    const Block blocks[] = {args.blocks[0], args.blocks[1], args.blocks[3]};
    Args rows = args;
    rows.blocks = blocks;
    RowJob<3> job;
    // A sorter that leads out of its row is an error that cores say.
    if (args.blocks[2].data || !make_row_job(job, rows, {1})) return not_on_device;
    if (!place || job.rows.count == 0) return 0;
    const bool right = args.params[0].i != 0;
    const Grid grid = grid_of(job.rows.count);
    return start_by_type(args, [&]<class T>(T) {
        return launch<search_sorted<T>>(grid.blocks, grid.threads, 0, place->stream, job, right);
    });
}

}  // namespace nntile::kernels
