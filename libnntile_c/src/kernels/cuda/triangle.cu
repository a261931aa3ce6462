// SPDX-License-Identifier: BSD-3-Clause
// The part of matrices on one side of a diagonal, and zeros on the other.
#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"

namespace nntile::kernels::cuda {

struct TriangleJob {
    Job<2> matrices;
    int64_t rows = 0, columns = 0, row[2] = {}, column[2] = {};
    int64_t diagonal = 0;  // of the task's first row
    bool upper = false;
};

template <class T>
__global__ void take_triangle(const __grid_constant__ TriangleJob job) {
    const auto& matrices = job.matrices;
    const int64_t all = int64_t{gridDim.x} * blockDim.x,
                  count = matrices.count * job.rows * job.columns;
    for (int64_t e = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; e < count; e += all) {
        int64_t rest = e;
        const int64_t j = take_place(rest, job.columns), i = take_place(rest, job.rows);
        int64_t at[2];
        for (int k = 0; k < 2; ++k) at[k] = i * job.row[k] + j * job.column[k];
        for (int d = matrices.dims; d-- > 0;) {
            const int64_t place = take_place(rest, matrices.sizes[d]);
            for (int k = 0; k < 2; ++k) at[k] += place * matrices.blocks[k].strides[d];
        }
        const bool stays = job.upper ? j - i >= job.diagonal : j - i <= job.diagonal;
        static_cast<T*>(matrices.blocks[1].data)[at[1]] =
            stays ? static_cast<const T*>(matrices.blocks[0].data)[at[0]] : T{};
    }
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(triangle) {
    using namespace cuda;
    const size_t m = args.sizes.size() - 2, n = m + 1;
    const Block &x = args.blocks[0], &y = args.blocks[1];
    TriangleJob job;
    Args outer = args;
    outer.sizes = args.sizes.first(m);
    if (args.numbers != 0 || x.dtype != y.dtype || !make_job(job.matrices, outer, {1}))
        return not_on_device;
    job.rows = args.sizes[m];
    job.columns = args.sizes[n];
    for (size_t k = 0; k < 2; ++k) {
        job.row[k] = args.blocks[k].strides[m];
        job.column[k] = args.blocks[k].strides[n];
    }
    const int64_t count = job.matrices.count * job.rows * job.columns;
    if (!place || count == 0) return 0;
    // A diagonal there is as one farther away
    const int64_t beyond = args.index_offset + job.rows + job.columns, given = args.params[0].i,
                  near = given < -beyond  ? -beyond
                         : given > beyond ? beyond
                                          : given;
    job.diagonal = args.index_offset + near;
    job.upper = args.params[1].i != 0;
    const Grid grid = grid_of(count);
    const auto start = [&]<class T>(T) {
        return status_of(
            args, launch<take_triangle<T>>(grid.blocks, grid.threads, 0, place->stream, job));
    };
    switch (size_of(y.dtype)) {
        case 1: return start(uint8_t{});
        case 2: return start(uint16_t{});
        case 4: return start(uint32_t{});
        default: return start(uint64_t{});
    }
}

}  // namespace nntile::kernels
