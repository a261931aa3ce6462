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
    RowJob<3> of;  // x, y, places: a row of x has d elements, the others have k
    int64_t k = 0;
    int64_t kth = -1;  // not -1: this one alone
    bool largest = false, sorted = false;
    void* keys = nullptr;
};

// As topk_of() in sort.cc.
template <class T>
__device__ void take_first(const FirstJob& job, const Row<3>& row, Key<T>* keys) {
    const int64_t k = job.k, d = job.of.d;
    const Sooner first{job.largest};
    const bool heap = keeps_heap(k, d);
    for (int64_t j = 0; j < (heap ? k : d); ++j) keys[j] = {row.get<T>(0, j), j};
    if (heap) {
        std::make_heap(keys, keys + k, first);
        for (int64_t j = k; j < d; ++j) {
            keys[k] = {row.get<T>(0, j), j};
            if (first(keys[k], keys[0])) std::pop_heap(keys, keys + k + 1, first);
        }
        std::sort_heap(keys, keys + k, first);
        return;
    }
    std::nth_element(keys, keys + k - 1, keys + d, first);
    // So few are sorted in this way by std::sort()
    for (int64_t j = 1; job.sorted && j < k - 1; ++j) {
        const Key<T> own = keys[j];
        int64_t at = j;
        for (; at > 0 && first(own, keys[at - 1]); --at) keys[at] = keys[at - 1];
        keys[at] = own;
    }
}

template <class T>
__global__ void first_of_rows(const __grid_constant__ FirstJob job, int64_t begin, int64_t end) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x, d = job.of.d;
    for (int64_t number = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < end;
         number += all) {
        const Row<3> row(job.of, number);
        Key<T>* keys = static_cast<Key<T>*>(job.keys) + (number - begin) * (d + 1);
        if (job.kth < 0) {
            take_first<T>(job, row, keys);
        } else {
            for (int64_t j = 0; j < d; ++j) keys[j] = {row.get<T>(0, j), j};
            select_kth(keys, job.kth, d);
            keys[0] = keys[job.kth];
        }
        for (int64_t j = 0; j < job.k; ++j) {
            row.set(1, j, keys[j].value);
            row.set(2, j, keys[j].place);
        }
    }
}

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

template <class Start>
static int start_by_type(const Args& args, Start&& start) {
    switch (compute_of(args.blocks[0].dtype)) {
        case compute_f32: return status_of(args, start(float{}));
        case compute_f64: return status_of(args, start(double{}));
        default: return status_of(args, start(int64_t{}));
    }
}

// The last dims are k and d: x has the last one, the results have the one before.
static bool make_first_job(RowJob<3>& job, const Args& args) {
    const size_t k = args.sizes.size() - 2, d = k + 1;
    Dims of_x(std::span(args.blocks[0].strides, d + 1));
    of_x[k] = of_x[d];
    const Block blocks[] = {
        {args.blocks[0].data, args.blocks[0].dtype, of_x.data()}, args.blocks[1], args.blocks[2]};
    Args rows = args;
    rows.sizes = args.sizes.first(d);
    rows.blocks = blocks;
    if (!make_row_job(job, rows, {0})) return false;
    job.d = args.sizes[d];
    return true;
}

static int start_first(const Args& args, const CudaPlace* place, FirstJob job) {
    job.k = args.sizes[args.sizes.size() - 2];
    const bool sorts = job.sorted && job.k - 1 > few_keys;
    if (sorts || args.sizes.back() > longest_row_of_thread || !make_first_job(job.of, args))
        return not_on_device;
    const int64_t count = job.of.rows.count;
    if (!place || count == 0 || job.k == 0) return 0;
    job.keys = place->scratch;
    return start_by_type(args, [&]<class T>(T) {
        const auto most =
            static_cast<int64_t>(CudaPlace::scratch_bytes / sizeof(Key<T>)) / (job.of.d + 1);
        for (int64_t begin = 0; begin < count; begin += most) {
            const int64_t end = std::min(begin + most, count);
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

NNTILE_CUDA_KERNEL(sort) {
    using namespace cuda;
    RowJob<3> job;
    if (args.sizes.back() > longest_row || !make_first_job(job, args)) return not_on_device;
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
