// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and the gradient of the table. The last dims are e (a row) and v (the
// whole table).
#include <algorithm>

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
            refuse_at(job.refused, {Refusal::index, at.index, job.v});
            continue;
        }
        for (int64_t j = threadIdx.x; j < job.e; j += blockDim.x)
            store_as(job.indices.blocks[1], at.row + j * job.row_e,
                     load_as<T>(job.table, at.index * job.table_v + j * job.table_e));
    }
}

// The gradient of a table takes the rows of equal indices in their order, so its bits never vary.
// First the indices are put in order by the rows that they name: `ends` says where those of each
// row end in `list`. Of the table and of the indices that is done part by part.
struct Part {
    static constexpr int64_t most = int64_t{1} << 20;  // rows, and indices
    int64_t row = 0, rows = 0, number = 0, numbers = 0;
    int *ends = nullptr, *list = nullptr, *sorted = nullptr;
    __device__ bool has(const TableJob& job, int64_t index) const {
        return index >= row && index < row + rows && index != job.padding;
    }
};
static_assert(3 * Part::most * sizeof(int) <= CudaPlace::scratch_bytes);

__global__ void count_indices(const __grid_constant__ TableJob job, const Part part) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < part.numbers; k += all) {
        const int64_t index = entry_of(job, part.number + k).index;
        if (index < 0 || index >= job.v) refuse_at(job.refused, {Refusal::index, index, job.v});
        else if (part.has(job, index)) atomicAdd(part.ends + (index - part.row), 1);
    }
}
// Counts become where each row begins: by one block.
__global__ void sum_counts(const Part part) {
    int* const shared = shared_memory<int>();
    const int64_t each = (part.rows + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each,
                  end = first + each < part.rows ? first + each : part.rows;
    int own = 0;
    for (int64_t r = first; r < end; ++r) own += part.ends[r];
    shared[threadIdx.x] = own;
    __syncthreads();
    for (unsigned apart = 1; apart < blockDim.x; apart *= 2) {
        const int before = threadIdx.x >= apart ? shared[threadIdx.x - apart] : 0;
        __syncthreads();
        shared[threadIdx.x] += before;
        __syncthreads();
    }
    int begin = shared[threadIdx.x] - own;
    for (int64_t r = first; r < end; ++r) {
        const int count = part.ends[r];
        part.ends[r] = begin;
        begin += count;
    }
}
__global__ void list_indices(const __grid_constant__ TableJob job, const Part part) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    for (int64_t k = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; k < part.numbers; k += all) {
        const int64_t index = entry_of(job, part.number + k).index;
        if (index < 0 || index >= job.v || !part.has(job, index)) continue;
        part.list[atomicAdd(part.ends + (index - part.row), 1)] = static_cast<int>(k);
    }
}
// A block for each index, of so many elements of its row; the first of equal ones adds all.
template <class T>
__global__ void add_rows(const __grid_constant__ TableJob job, const Part part, int64_t pieces) {
    int* const earlier = shared_memory<int>();
    for (int64_t block = blockIdx.x; block < part.numbers * pieces; block += gridDim.x) {
        const auto k = static_cast<int>(block / pieces);
        const int64_t index = entry_of(job, part.number + k).index;
        if (index < 0 || index >= job.v || !part.has(job, index)) continue;
        const int64_t row = index - part.row;
        const int begin = row > 0 ? part.ends[row - 1] : 0, end = part.ends[row];
        const int* order = part.list;
        if (end - begin > 1) {
            __syncthreads();
            if (threadIdx.x == 0) *earlier = 0;
            __syncthreads();
            for (int i = begin + static_cast<int>(threadIdx.x); i < end;
                 i += static_cast<int>(blockDim.x))
                if (part.list[i] < k) *earlier = 1;
            __syncthreads();
            if (*earlier) continue;
            for (int i = begin + static_cast<int>(threadIdx.x); i < end;
                 i += static_cast<int>(blockDim.x)) {
                int place = begin;
                for (int other = begin; other < end; ++other)
                    place += part.list[other] < part.list[i];
                part.sorted[place] = part.list[i];
            }
            __syncthreads();
            order = part.sorted;
        }
        const int64_t j = block % pieces * blockDim.x + threadIdx.x;
        if (j >= job.e) continue;
        const int64_t to = index * job.table_v + j * job.table_e;
        T sum = load_as<T>(job.table, to);
        for (int i = begin; i < end; ++i) {
            const Entry at = entry_of(job, part.number + order[i]);
            sum += load_as<T>(job.indices.blocks[1], at.row + j * job.row_e);
        }
        store_as(job.table, to, sum);
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

template <class Start>
static cudaError_t start_typed(const TableJob& job, Start&& start) {
    switch (compute_of(job.table.dtype)) {
        case compute_f32: return start(float{});
        case compute_f64: return start(double{});
        default: return start(int64_t{});
    }
}

static int start_take(TableJob& job, const Args& args, const CudaPlace& place) {
    if (job.indices.count == 0) return 0;
    if (const cudaError_t error = place.watch(job.refused)) return status_of(args, error);
    const dim3 blocks = grid_of(job.indices.count, 1).blocks, threads(row_threads);
    return status_of(args, start_typed(job, [&]<class T>(T) {
                         return launch<take_rows<T>>(blocks, threads, 0, place.stream, job);
                     }));
}

static cudaError_t start_add(const TableJob& job, const Part& part, cudaStream_t stream) {
    const auto bytes = static_cast<size_t>(part.rows) * sizeof(int);
    if (const cudaError_t error = cudaMemsetAsync(part.ends, 0, bytes, stream)) return error;
    const Grid grid = grid_of(part.numbers);
    constexpr unsigned scan = 512;
    if (const cudaError_t error =
            launch<count_indices>(grid.blocks, grid.threads, 0, stream, job, part))
        return error;
    if (const cudaError_t error =
            launch<sum_counts>(dim3(1), dim3(scan), scan * sizeof(int), stream, part))
        return error;
    if (const cudaError_t error =
            launch<list_indices>(grid.blocks, grid.threads, 0, stream, job, part))
        return error;
    const int64_t pieces = (job.e + row_threads - 1) / row_threads;
    return start_typed(job, [&]<class T>(T) {
        return launch<add_rows<T>>(grid_of(part.numbers * pieces, 1).blocks, dim3(row_threads),
                                   sizeof(int), stream, job, part, pieces);
    });
}
static int start_add(TableJob& job, const Args& args, const CudaPlace& place) {
    if (job.indices.count == 0 || job.e == 0) return 0;
    if (const cudaError_t error = place.watch(job.refused)) return status_of(args, error);
    Part part;
    part.ends = reinterpret_cast<int*>(place.scratch);
    part.list = part.ends + Part::most;
    part.sorted = part.list + Part::most;
    for (part.row = 0; part.row < job.v || part.row == 0; part.row += Part::most) {
        part.rows = std::min(Part::most, job.v - part.row);
        for (part.number = 0; part.number < job.indices.count; part.number += Part::most) {
            part.numbers = std::min(Part::most, job.indices.count - part.number);
            if (const cudaError_t error = start_add(job, part, place.stream))
                return status_of(args, error);
        }
    }
    return 0;
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(embedding) {
    cuda::TableJob job;
    if (!cuda::make_table_job(job, args, 0, 1, 2)) return not_on_device;
    return place ? cuda::start_take(job, args, *place) : 0;
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
    return cuda::start_add(job, args, *place);
}

}  // namespace nntile::kernels
