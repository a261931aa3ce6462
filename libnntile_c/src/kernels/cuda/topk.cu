// SPDX-License-Identifier: BSD-3-Clause
// The first k of rows, and the k-th alone: a core's steps, so that of equals the same ones are
// taken. A thread has a short row, a block a long one.
#include "kernels/cuda/launch.hh"
#include "kernels/cuda/order_job.hh"
#include "kernels/cuda/select.hh"

namespace nntile::kernels::cuda {

// Of a thread, if there are rows for many threads or no more elements than that.
inline constexpr int64_t longest_row_of_thread = 1024, short_row = 64, many_rows = 2048;

// The first k of each row, or the k-th alone.
struct FirstJob {
    RowJob<3> of;  // x, y, places: a row of x has d elements, the others have k
    int64_t k = 0;
    int64_t kth = -1;  // not -1: this one alone
    bool largest = false, sorted = false, by_heap = false;
    std::byte* scratch = nullptr;
    int64_t row_bytes = 0;  // of it; 0: a block shares them
};

template <class T>
__device__ void write_first(const FirstJob& job, const Row<3>& row, const Key<T>* keys, unsigned at,
                            unsigned step) {
    for (int64_t j = at; j < job.k; j += step) {
        row.set(1, j, keys[j].value);
        row.set(2, j, keys[j].place);
    }
}

// As topk_of() in sort.cc.
template <class T>
__device__ void take_first(const FirstJob& job, const Row<3>& row, Key<T>* keys) {
    const int64_t k = job.k, d = job.of.d;
    const Sooner first{job.largest};
    for (int64_t j = 0; j < (job.by_heap ? k : d); ++j) keys[j] = {row.get<T>(0, j), j};
    if (job.by_heap) {
        std::make_heap(keys, keys + k, first);
        for (int64_t j = k; j < d; ++j) {
            keys[k] = {row.get<T>(0, j), j};
            if (first(keys[k], keys[0])) std::pop_heap(keys, keys + k + 1, first);
        }
        std::sort_heap(keys, keys + k, first);
        return;
    }
    std::nth_element(keys, keys + k - 1, keys + d, first);
    if (job.sorted) sort_keys(keys, k - 1, depth_of(k - 1), first);
}

template <class T>
__global__ void first_of_rows(const __grid_constant__ FirstJob job, int64_t begin, int64_t end) {
    const int64_t all = int64_t{gridDim.x} * blockDim.x, d = job.of.d;
    for (int64_t number = begin + int64_t{blockIdx.x} * blockDim.x + threadIdx.x; number < end;
         number += all) {
        const Row<3> row(job.of, number);
        auto* keys = reinterpret_cast<Key<T>*>(job.scratch + (number - begin) * job.row_bytes);
        if (job.kth < 0) {
            take_first<T>(job, row, keys);
        } else {
            for (int64_t j = 0; j < d; ++j) keys[j] = {row.get<T>(0, j), j};
            select_kth(keys, job.kth, d);
            keys[0] = keys[job.kth];
        }
        write_first(job, row, keys, 0, 1);
    }
}

// A block for each row.
template <class T>
__global__ void select_of_rows(const __grid_constant__ FirstJob job, int64_t begin, int64_t end) {
    using Work = Selection<T>;
    auto* const shared = shared_memory<typename Work::Shared>();
    const int k = static_cast<int>(job.k), d = static_cast<int>(job.of.d);
    for (int64_t number = begin + blockIdx.x; number < end; number += gridDim.x) {
        const Row<3> row(job.of, number);
        const Work work(job.scratch + (number - begin) * job.row_bytes, d, shared);
        __syncthreads();  // the row before may still be read
        for (int64_t j = threadIdx.x; j < d; j += blockDim.x) work.keys[j] = {row.get<T>(0, j), j};
        __syncthreads();
        if (job.kth >= 0) {
            work.quickselect(static_cast<int>(job.kth), d);
            write_first(job, row, work.keys + job.kth, threadIdx.x, blockDim.x);
            continue;
        }
        const Sooner first{job.largest};
        work.select(k - 1, d, first);
        if (job.sorted) work.sort(k - 1, first);
        write_first(job, row, work.keys, threadIdx.x, blockDim.x);
    }
}

template <class T>
struct alignas(16) Candidates {
    static constexpr unsigned threads = Selection<T>::threads;
    T values[threads];
    unsigned found[threads / 32], any;
};
// The same by a heap, which one thread of the block keeps: the others look for what belongs there.
template <class T>
__global__ void keep_first(const __grid_constant__ FirstJob job, int64_t begin, int64_t end) {
    constexpr unsigned threads = Candidates<T>::threads;
    auto* const shared = shared_memory<Candidates<T>>();
    const int64_t k = job.k, d = job.of.d;
    const Sooner first{job.largest};
    for (int64_t number = begin + blockIdx.x; number < end; number += gridDim.x) {
        const Row<3> row(job.of, number);
        auto* const keys =
            job.row_bytes
                ? reinterpret_cast<Key<T>*>(job.scratch + (number - begin) * job.row_bytes)
                : reinterpret_cast<Key<T>*>(shared + 1);
        __syncthreads();  // the row before may still be read
        for (int64_t j = threadIdx.x; j < k; j += threads) keys[j] = {row.get<T>(0, j), j};
        __syncthreads();
        if (threadIdx.x == 0) {
            std::make_heap(keys, keys + k, first);
            shared->any = 0;
        }
        for (int64_t at = k; at < d; at += threads) {
            const int64_t j = at + threadIdx.x;
            const T value = j < d ? row.get<T>(0, j) : T{};
            __syncthreads();
            shared->values[threadIdx.x] = value;
            const unsigned found = __ballot_sync(0xffffffffu, j < d && first(value, keys[0].value));
            if (threadIdx.x % 32 == 0) {
                shared->found[threadIdx.x / 32] = found;
                if (found) atomicAdd(&shared->any, 1u);
            }
            __syncthreads();
            if (threadIdx.x != 0 || shared->any == 0) continue;
            shared->any = 0;
            for (unsigned warp = 0; warp < threads / 32; ++warp)
                for (unsigned rest = shared->found[warp]; rest; rest &= rest - 1) {
                    const unsigned own =
                        warp * 32 + static_cast<unsigned>(__ffs(static_cast<int>(rest))) - 1;
                    if (!first(shared->values[own], keys[0].value)) continue;
                    keys[k] = {shared->values[own], at + own};
                    std::pop_heap(keys, keys + k + 1, first);
                }
        }
        __syncthreads();
        if (threadIdx.x == 0) std::sort_heap(keys, keys + k, first);
        __syncthreads();
        write_first(job, row, keys, threadIdx.x, threads);
    }
}

// ---- on the host

template <auto kernel>
static cudaError_t start_pieces(const FirstJob& job, int64_t most, int64_t each, unsigned threads,
                                size_t shared, cudaStream_t stream) {
    const int64_t count = job.of.rows.count;
    for (int64_t begin = 0; begin < count; begin += most) {
        const int64_t end = std::min(begin + most, count);
        const dim3 blocks = grid_of(end - begin, static_cast<unsigned>(each)).blocks;
        if (const cudaError_t error =
                launch<kernel>(blocks, dim3(threads), shared, stream, job, begin, end))
            return error;
    }
    return cudaSuccess;
}

static int start_first(const Args& args, const CudaPlace* place, FirstJob job) {
    job.k = args.sizes[args.sizes.size() - 2];
    if (!make_first_job(job.of, args)) return not_on_device;
    constexpr auto scratch = static_cast<int64_t>(CudaPlace::scratch_bytes);
    constexpr auto of_key = static_cast<int64_t>(sizeof(Key<double>));
    const int64_t count = job.of.rows.count, d = job.of.d;
    job.by_heap = job.kth < 0 && keeps_heap(job.k, d);
    const bool by_thread = d <= short_row || (d <= longest_row_of_thread && count >= many_rows);
    // One thread of a row puts its elements into the heap: a core does that sooner, if there are
    // many of them and few rows.
    constexpr int64_t of_heap = 256;
    if (job.by_heap && !by_thread && job.k > of_heap * std::max<int64_t>(count, 1))
        return not_on_device;
    const int64_t kept_bytes = (job.k + 1) * of_key;
    job.row_bytes = by_thread     ? (d + 1) * of_key
                    : job.by_heap ? kept_bytes
                                  : (Selection<double>::bytes_of(d) + of_key - 1) / of_key * of_key;
    if (job.row_bytes > scratch) return not_on_device;
    if (!place || count == 0 || job.k == 0) return 0;
    job.scratch = place->scratch;
    const int64_t most = scratch / job.row_bytes;
    return start_by_type(args, [&]<class T>(T) {
        static_assert(sizeof(Key<T>) == of_key);
        constexpr int threads = Selection<T>::threads;
        if (by_thread) return start_pieces<first_of_rows<T>>(job, most, 128, 128, 0, place->stream);
        if (!job.by_heap)
            return start_pieces<select_of_rows<T>>(
                job, most, 1, threads, sizeof(typename Selection<T>::Shared), place->stream);
        constexpr size_t own = sizeof(Candidates<T>), most_shared = 48 << 10;
        const auto kept = static_cast<size_t>(kept_bytes);
        if (own + kept > most_shared)
            return start_pieces<keep_first<T>>(job, most, 1, threads, own, place->stream);
        job.row_bytes = 0;
        return start_pieces<keep_first<T>>(job, count, 1, threads, own + kept, place->stream);
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

}  // namespace nntile::kernels
