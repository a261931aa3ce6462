// SPDX-License-Identifier: BSD-3-Clause
// Draws by the inverse of the distribution function. A row is a block's: each thread sums a part of
// it, and then walks through the part in which a draw of its own ends.
#include <limits>

#include "kernels/cuda/order_job.hh"

namespace nntile::kernels::cuda {

struct Draws {
    RowJob<3> job;  // p, u, y
    int64_t samples = 0;
    Refused* refused = nullptr;
};

// For u in [0, 1): never one of probability 0, however sums are rounded.
__device__ inline int64_t draw_one(const Row<3>& row, const double* ends, int64_t part, double u) {
    const int64_t d = row.job.d, last = (d - 1) / part;
    const double total = ends[last], target = u * total;
    int64_t low = 0, high = last;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (ends[middle] > target || ends[middle] == total) high = middle;
        else low = middle + 1;
    }
    double sum = low == 0 ? 0 : ends[low - 1];
    int64_t found = -1;
    for (int64_t j = low * part; j < d && j < (low + 1) * part && sum <= target; ++j) {
        const double p = row.get<double>(0, j);
        if (p > 0) found = j;
        sum += p;
    }
    return found;
}

__global__ void draw_rows(const __grid_constant__ Draws draws) {
    double* const ends = shared_memory<double>();
    const int64_t d = draws.job.d, part = (d + blockDim.x - 1) / blockDim.x;
    for (int64_t number = blockIdx.x; number < draws.job.rows.count; number += gridDim.x) {
        const Row<3> row(draws.job, number);
        double sum = 0;
        for (int64_t j = threadIdx.x * part; j < d && j < (threadIdx.x + 1) * part; ++j) {
            const double p = row.get<double>(0, j);
            sum += p >= 0 && p <= std::numeric_limits<double>::max()
                       ? p
                       : std::numeric_limits<double>::quiet_NaN();
        }
        __syncthreads();  // the row before may still be read
        ends[threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.x == 0)
            for (unsigned t = 1; t < blockDim.x; ++t) ends[t] += ends[t - 1];
        __syncthreads();
        const double total = ends[blockDim.x - 1];
        const bool good = total > 0;
        if (!good && threadIdx.x == 0)
            refuse_at(draws.refused, {total == 0 ? Refusal::no_chance : Refusal::no_distribution});
        for (int64_t s = threadIdx.x; s < draws.samples && good; s += blockDim.x)
            row.set(2, s, draw_one(row, ends, part, row.get<double>(1, s)));
    }
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(draw) {
    using namespace cuda;
    Draws draws;
    if (!make_first_job(draws.job, args)) return not_on_device;
    draws.samples = args.sizes[args.sizes.size() - 2];
    if (!place || draws.job.rows.count == 0 || draws.samples == 0) return 0;
    if (const cudaError_t error = place->watch(draws.refused)) return status_of(args, error);
    constexpr unsigned threads = 256;
    return status_of(args, launch<draw_rows>(grid_of(draws.job.rows.count, 1).blocks, dim3(threads),
                                             threads * sizeof(double), place->stream, draws));
}

}  // namespace nntile::kernels
