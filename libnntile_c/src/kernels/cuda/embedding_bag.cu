// SPDX-License-Identifier: BSD-3-Clause
// Sums, means and maxima of bags of rows of a table: a block takes a bag and some elements of its
// rows, a thread an element. The dims are offsets, bags, indices, e (a row) and v (the table).
#include "kernels/bags.hh"
#include "kernels/cuda/rows.hh"

namespace nntile::kernels::cuda {

struct BagJob {
    JobBlock offsets, indices, table, weights, y, largest;  // strides: by dim
    int64_t count = 0, bags = 0, n = 0, e = 0, v = 0;       // count: offsets; n: indices
    int64_t mode = mode_sum, padding = -1;
    Refused* refused = nullptr;

    // Where a bag begins. A wrong offset, which another kernel refuses, leads nowhere else.
    __device__ int64_t offset(int64_t bag) const {
        if (bag >= count) return n;
        const int64_t at = load_as<int64_t>(offsets, bag * offsets.strides[dim_offsets]);
        return at < 0 ? 0 : at > n ? n : at;
    }
    __device__ int64_t index(int64_t i) const {
        return load_as<int64_t>(indices, i * indices.strides[dim_indices]);
    }
};

__global__ void check_offsets(const __grid_constant__ BagJob job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < job.count; k += all) {
        const auto at = [&](int64_t of) {
            return load_as<int64_t>(job.offsets, of * job.offsets.strides[dim_offsets]);
        };
        const int64_t offset = at(k), before = k == 0 ? 0 : at(k - 1);
        if (!begins_bag(offset, k, before, job.n))
            refuse_at(job.refused, {Refusal::offset, k, job.n, offset, before});
    }
}
__global__ void check_indices(const __grid_constant__ BagJob job) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < job.n; i += all) {
        const int64_t index = job.index(i);
        if (index < 0 || index >= job.v) refuse_at(job.refused, {Refusal::bag_index, index, job.v});
    }
}

template <class T>
__global__ void sum_bags(const __grid_constant__ BagJob job, int64_t pieces) {
    for (int64_t block = blockIdx.x; block < job.bags * pieces; block += gridDim.x) {
        const int64_t bag = block / pieces, j = block % pieces * blockDim.x + threadIdx.x;
        if (j >= job.e) continue;
        const int64_t end = job.offset(bag + 1);
        T total = 0;
        int64_t found = 0, best = 0;
        for (int64_t i = job.offset(bag); i < end; ++i) {
            const int64_t index = job.index(i);
            if (index == job.padding || index < 0 || index >= job.v) continue;
            const T x = load_as<T>(job.table,
                                   index * job.table.strides[dim_v] + j * job.table.strides[dim_e]);
            if (job.mode != mode_max)
                total += job.weights.data
                             ? load_as<T>(job.weights, i * job.weights.strides[dim_indices]) * x
                             : x;
            else if (found == 0 || x > total) total = x, best = index;
            ++found;
        }
        if (job.mode == mode_mean && found > 1) total /= static_cast<T>(found);
        store_as(job.y, bag * job.y.strides[dim_bags] + j * job.y.strides[dim_e], total);
        if (job.largest.data)
            store_as(job.largest,
                     bag * job.largest.strides[dim_bags] + j * job.largest.strides[dim_e], best);
    }
}

// y: the bag of each index; largest: the size of each bag.
__global__ void name_bags(const __grid_constant__ BagJob job) {
    for (int64_t bag = blockIdx.x; bag < job.count; bag += gridDim.x) {
        const int64_t first = job.offset(bag), end = job.offset(bag + 1);
        for (int64_t i = first + threadIdx.x; i < end; i += blockDim.x)
            store_as(job.y, i * job.y.strides[dim_indices], bag);
        if (threadIdx.x == 0)
            store_as(job.largest, bag * job.largest.strides[dim_offsets], end - first);
    }
}

static JobBlock block_of(const Block& b) {
    JobBlock block;
    block.data = b.data;
    block.dtype = b.dtype;
    if (b.data) std::copy_n(b.strides, dim_v + 1, block.strides);
    return block;
}
static BagJob make_bag_job(const Args& args, const Block& offsets) {
    BagJob job;
    job.offsets = block_of(offsets);
    job.count = args.sizes[dim_offsets];
    job.bags = args.sizes[dim_bags];
    job.n = args.sizes[dim_indices];
    job.e = args.sizes[dim_e];
    job.v = args.sizes[dim_v];
    return job;
}
static cudaError_t start_check(BagJob& job, const CudaPlace& place) {
    if (const cudaError_t error = place.watch(job.refused)) return error;
    if (job.count == 0) return cudaSuccess;
    const Grid grid = grid_of(job.count);
    return launch<check_offsets>(grid.blocks, grid.threads, 0, place.stream, job);
}

static int start_bags(const Args& args, const CudaPlace* place, bool with_rows) {
    if (args.numbers != 0 || !is_floating(args.blocks[0].dtype)) return not_on_device;
    if (!place) return 0;
    BagJob job = make_bag_job(args, args.blocks[2]);
    job.table = block_of(args.blocks[0]);
    job.indices = block_of(args.blocks[1]);
    job.weights = block_of(args.blocks[3]);
    job.y = block_of(args.blocks[4]);
    if (with_rows) job.largest = block_of(args.blocks[5]);
    job.mode = args.params[0].i;
    job.padding = args.params[1].i;
    if (const cudaError_t error = start_check(job, *place)) return status_of(args, error);
    if (job.n > 0) {
        const Grid grid = grid_of(job.n);
        if (const cudaError_t error =
                launch<check_indices>(grid.blocks, grid.threads, 0, place->stream, job))
            return status_of(args, error);
    }
    const int64_t pieces = (job.e + row_threads - 1) / row_threads;
    if (job.bags == 0 || pieces == 0) return 0;
    const dim3 blocks = grid_of(job.bags * pieces, 1).blocks, threads(row_threads);
    return status_of(args,
                     job.table.dtype == DType::f64
                         ? launch<sum_bags<double>>(blocks, threads, 0, place->stream, job, pieces)
                         : launch<sum_bags<float>>(blocks, threads, 0, place->stream, job, pieces));
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(embedding_bag) { return cuda::start_bags(args, place, false); }
NNTILE_CUDA_KERNEL(embedding_bag_max) { return cuda::start_bags(args, place, true); }

NNTILE_CUDA_KERNEL(bag_of) {
    if (args.numbers != 0) return not_on_device;
    if (!place) return 0;
    cuda::BagJob job = cuda::make_bag_job(args, args.blocks[0]);
    job.y = cuda::block_of(args.blocks[1]);
    job.largest = cuda::block_of(args.blocks[2]);
    if (const cudaError_t error = cuda::start_check(job, *place)) return status_of(args, error);
    if (job.count == 0) return 0;
    return status_of(args, launch<cuda::name_bags>(cuda::grid_of(job.count, 1).blocks,
                                                   dim3(cuda::row_threads), 0, place->stream, job));
}

}  // namespace nntile::kernels
