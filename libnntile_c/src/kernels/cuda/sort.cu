// SPDX-License-Identifier: BSD-3-Clause
// Sorted rows that a block can keep, the first k of short rows, the k-th alone, and where a number
// would stand in a row. In a sorted row an element stands behind as many as lie before it: each
// thread counts those of some elements. For the first k a thread takes the steps of a core, so that
// of equals the same ones are taken.
#include <algorithm>

#include "kernels/cuda/rows.hh"
#include "kernels/order.hh"

namespace nntile::kernels::cuda {

inline constexpr int64_t longest_row = 2048;
// Of a thread, whose keys lie in scratch memory; and the most that are sorted as they come.
inline constexpr int64_t longest_row_of_thread = 1024, few_keys = 16;

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
                const bool sooner = descending ? before(own, shared[i]) : before(shared[i], own);
                const bool later = descending ? before(shared[i], own) : before(own, shared[i]);
                place += sooner || (!later && i < j);
            }
            row.set(1, place, own);
            row.set(2, place, j);
        }
    }
}

// The first k of each row, or the k-th alone.
struct FirstJob {
    Job<3> rows;           // x, y, places; without the last dims, k and d
    int64_t k = 0, d = 0;  // d: elements of a row
    int64_t step[3] = {};  // of d, k, k
    int64_t kth = -1;      // not -1: this one alone
    bool largest = false, sorted = false;
    void* keys = nullptr;
};

// As topk_of() in sort.cc.
template <class T, class Read>
__device__ void take_first(const FirstJob& job, Key<T>* keys, Read&& read) {
    constexpr int64_t few = 64;
    const Sooner first{job.largest};
    if (job.k * few > job.d) {
        for (int64_t j = 0; j < job.d; ++j) keys[j] = {read(j), j};
        std::nth_element(keys, keys + job.k - 1, keys + job.d, first);
        for (int64_t j = 1; job.sorted && j < job.k - 1; ++j) {
            const Key<T> own = keys[j];
            int64_t at = j;
            for (; at > 0 && first(own, keys[at - 1]); --at) keys[at] = keys[at - 1];
            keys[at] = own;
        }
        return;
    }
    for (int64_t j = 0; j < job.k; ++j) keys[j] = {read(j), j};
    std::make_heap(keys, keys + job.k, first);
    for (int64_t j = job.k; j < job.d; ++j) {
        keys[job.k] = {read(j), j};
        if (first(keys[job.k], keys[0])) std::pop_heap(keys, keys + job.k + 1, first);
    }
    std::sort_heap(keys, keys + job.k, first);
}

template <class T>
__global__ void first_of_rows(const __grid_constant__ FirstJob job, int64_t begin, int64_t end) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x;
    const auto& blocks = job.rows.blocks;
    for (int64_t number = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < end;
         number += all) {
        int64_t rest = number, at[3] = {};
        for (int d = job.rows.dims; d-- > 0;) {
            const int64_t place = take_place(rest, job.rows.sizes[d]);
            for (int b = 0; b < 3; ++b) at[b] += place * blocks[b].strides[d];
        }
        Key<T>* keys = static_cast<Key<T>*>(job.keys) + (number - begin) * (job.d + 1);
        const auto read = [&](int64_t j) { return load_as<T>(blocks[0], at[0] + j * job.step[0]); };
        if (job.kth < 0) {
            take_first<T>(job, keys, read);
        } else {
            for (int64_t j = 0; j < job.d; ++j) keys[j] = {read(j), j};
            select_kth(keys, job.kth, job.d);
            keys[0] = keys[job.kth];
        }
        for (int64_t j = 0; j < job.k; ++j) {
            store_as(blocks[1], at[1] + j * job.step[1], keys[j].value);
            store_as(blocks[2], at[2] + j * job.step[2], keys[j].place);
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
            if (job.right ? !before(value, other) : before(other, value)) low = middle + 1;
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

static int start_first(const Args& args, const CudaPlace* place, FirstJob job) {
    const size_t k = args.sizes.size() - 2, d = k + 1;
    Args rows = args;
    rows.sizes = args.sizes.first(k);
    job.k = args.sizes[k];
    job.d = args.sizes[d];
    const auto sorts = job.sorted && job.k - 1 > few_keys;
    if (args.numbers != 0 || job.d > longest_row_of_thread || sorts ||
        !make_job(job.rows, rows, {0}))
        return not_on_device;
    if (!place || job.rows.count == 0 || job.k == 0) return 0;
    for (size_t b = 0; b < 3; ++b) job.step[b] = args.blocks[b].strides[b == 0 ? d : k];
    job.keys = place->scratch;
    return start_by_type(args, [&]<class T>(T) {
        const auto most =
            static_cast<int64_t>(CudaPlace::scratch_bytes / sizeof(Key<T>)) / (job.d + 1);
        for (int64_t begin = 0; begin < job.rows.count; begin += most) {
            const int64_t end = std::min(begin + most, job.rows.count);
            const Grid grid = grid_of(end - begin);
            if (const cudaError_t error = launch<first_of_rows<T>>(grid.blocks, grid.threads, 0,
                                                                   place->stream, job, begin, end))
                return error;
        }
        return cudaSuccess;
    });
}

}  // namespace nntile::kernels::cuda

namespace nntile::kernels {

NNTILE_CUDA_KERNEL(topk) {
    cuda::FirstJob job;
    job.largest = args.params[0].i != 0;
    job.sorted = args.params[1].i != 0;
    return cuda::start_first(args, place, job);
}
NNTILE_CUDA_KERNEL(kthvalue) {
    cuda::FirstJob job;
    job.kth = args.params[0].i - 1;
    return cuda::start_first(args, place, job);
}

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
