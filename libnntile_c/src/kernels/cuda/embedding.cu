// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and the gradient of the table. The last dims are e (a row) and v (the
// whole table).
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/rows.hh"

namespace nntile::kernels {

CudaFunction fill_on_cuda;

}  // namespace nntile::kernels

namespace nntile::kernels::cuda {

struct TableJob {
    Job<2> indices;  // and what lies by index: y, or dy
    JobBlock table;
    int64_t e = 0, v = 0, table_e = 0, table_v = 0, row_e = 0;  // sizes; strides
    int64_t padding = -1;
    Refused* refused = nullptr;
};

// Where index `number` and its row lie.
struct Entry {
    int64_t index = 0, row = 0;
};
__device__ inline Entry entry_of(const TableJob& job, int64_t number) {
    Entry at;
    for (int d = job.indices.dims; d-- > 0;) {
        const int64_t place = take_place(number, job.indices.sizes[d]);
        at.index += place * job.indices.blocks[0].strides[d];
        at.row += place * job.indices.blocks[1].strides[d];
    }
    at.index = load_as<int64_t>(job.indices.blocks[0], at.index);
    return at;
}

template <class T>
__global__ void take_rows(const __grid_constant__ TableJob job) {
    for (int64_t number = blockIdx.x; number < job.indices.count; number += gridDim.x) {
        const Entry at = entry_of(job, number);
        if (at.index < 0 || at.index >= job.v) {
            refuse_at(job.refused, Refusal::index, at.index, job.v);
            continue;
        }
        for (int64_t j = threadIdx.x; j < job.e; j += blockDim.x)
            store_as(job.indices.blocks[1], at.row + j * job.row_e,
                     load_as<T>(job.table, at.index * job.table_v + j * job.table_e));
    }
}

// The first of equal indices adds the rows of all of them, in their order: so the bits never vary.
template <class T>
__global__ void add_rows(const __grid_constant__ TableJob job) {
    int* const seen = shared_memory<int>();
    for (int64_t number = blockIdx.x; number < job.indices.count; number += gridDim.x) {
        const int64_t index = entry_of(job, number).index;
        if (index < 0 || index >= job.v) {
            refuse_at(job.refused, Refusal::index, index, job.v);
            continue;
        }
        __syncthreads();
        if (threadIdx.x == 0) *seen = index == job.padding;
        __syncthreads();
        for (int64_t k = threadIdx.x; k < number; k += blockDim.x)
            if (entry_of(job, k).index == index) *seen = 1;
        __syncthreads();
        if (*seen) continue;
        for (int64_t j = threadIdx.x; j < job.e; j += blockDim.x) {
            const int64_t to = index * job.table_v + j * job.table_e;
            T sum = load_as<T>(job.table, to);
            for (int64_t k = number; k < job.indices.count; ++k)
                if (const Entry at = entry_of(job, k); at.index == index)
                    sum += load_as<T>(job.indices.blocks[1], at.row + j * job.row_e);
            store_as(job.table, to, sum);
        }
    }
}

// The operands' numbers: of the table, the indices, and what lies by index.
static bool make_table_job(TableJob& job, const Args& args, size_t table, size_t indices,
                           size_t rows) {
    const size_t e = args.sizes.size() - 2, v = e + 1;
    const Block outer[] = {args.blocks[indices], args.blocks[rows]};
    Args by_index = args;
    by_index.sizes = args.sizes.first(e);
    by_index.blocks = outer;
    if (args.numbers != 0 || !make_job(job.indices, by_index, {0})) return false;
    const Block& t = args.blocks[table];
    job.table.data = t.data;
    job.table.dtype = t.dtype;
    job.e = args.sizes[e];
    job.v = args.sizes[v];
    job.table_e = t.strides[e];
    job.table_v = t.strides[v];
    job.row_e = args.blocks[rows].strides[e];
    return true;
}

static int start_rows(bool add, TableJob& job, const Args& args, const CudaPlace& place) {
    if (job.indices.count == 0) return 0;
    if (const cudaError_t error = place.watch(job.refused)) return status_of(args, error);
    const dim3 blocks = grid_of(job.indices.count, 1).blocks, threads(row_threads);
    const auto start = [&]<class T>(T) {
        return add ? launch<add_rows<T>>(blocks, threads, sizeof(int), place.stream, job)
                   : launch<take_rows<T>>(blocks, threads, 0, place.stream, job);
    };
    switch (compute_of(job.table.dtype)) {
        case compute_f32: return status_of(args, start(float{}));
        case compute_f64: return status_of(args, start(double{}));
        default: return status_of(args, start(int64_t{}));
    }
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(embedding) {
    cuda::TableJob job;
    if (!cuda::make_table_job(job, args, 0, 1, 2)) return not_on_device;
    return place ? cuda::start_rows(false, job, args, *place) : 0;
}

NNTILE_CUDA_KERNEL(embedding_backward) {
    cuda::TableJob job;
    if (!cuda::make_table_job(job, args, 2, 1, 0)) return not_on_device;
    const size_t e = args.sizes.size() - 2;
    const Block& dw = args.blocks[2];
    const Block plane{dw.data, dw.dtype, dw.strides + e};
    const Param value{.f = 0};
    Args zero = args;
    zero.sizes = args.sizes.last(2);
    zero.blocks = {&plane, 1};
    zero.params = {&value, 1};
    if (!place) return fill_on_cuda(zero, nullptr);
    if (!args.params[1].i)
        if (const int status = fill_on_cuda(zero, place)) return status;
    job.padding = args.params[0].i;
    return cuda::start_rows(true, job, args, *place);
}

}  // namespace nntile::kernels
