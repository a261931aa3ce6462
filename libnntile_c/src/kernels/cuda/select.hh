// SPDX-License-Identifier: BSD-3-Clause
// The steps of std::nth_element, std::sort and quickselect by a thread or by a block, for rows of
// which a core takes the same elements of several equals, in the same order. These follow from
// where each step puts its elements, so a block makes the same exchanges, many at once.
#pragma once

#include <algorithm>

#include "kernels/cuda/element.hh"
#include "kernels/order.hh"

namespace nntile::kernels::cuda {

// So many std::sort() leaves to an insertion sort.
inline constexpr int64_t few_keys = 16;
// As both begin with: how many parts may lie in each other before they take a heap.
__device__ inline int depth_of(int64_t n) {
    int depth = 0;
    for (; n > 1; n /= 2) depth += 2;
    return depth;
}

// ---- by a thread

// The median of the second, the middle and the last key comes to the front.
template <class T>
__device__ void put_median_first(Key<T>* keys, int64_t begin, int64_t end, const Sooner& first) {
    const int64_t a = begin + 1, b = begin + (end - begin) / 2, c = end - 1;
    const bool ab = first(keys[a], keys[b]), bc = first(keys[b], keys[c]),
               ac = first(keys[a], keys[c]);
    const int64_t median = ab ? (bc ? b : ac ? c : a) : ac ? a : bc ? c : b;
    swap_keys(keys[begin], keys[median]);
}
// Those before the pivot, which is the first key, come before those behind it. Where these begin.
template <class T>
__device__ int64_t part_keys(Key<T>* keys, int64_t begin, int64_t end, const Sooner& first) {
    const T pivot = keys[begin].value;
    for (int64_t i = begin + 1, j = end;; ++i) {
        while (first(keys[i].value, pivot)) ++i;
        --j;
        while (first(pivot, keys[j].value)) --j;
        if (i >= j) return i;
        swap_keys(keys[i], keys[j]);
    }
}
template <class T>
__device__ void insert_keys(Key<T>* keys, int64_t n, const Sooner& first) {
    for (int64_t j = 1; j < n; ++j) {
        const Key<T> own = keys[j];
        int64_t at = j;
        for (; at > 0 && first(own, keys[at - 1]); --at) keys[at] = keys[at - 1];
        keys[at] = own;
    }
}
template <class T>
__device__ void sort_by_heap(Key<T>* keys, int64_t n, const Sooner& first) {
    std::make_heap(keys, keys + n, first);
    std::sort_heap(keys, keys + n, first);
}
template <class T>
__device__ void select_by_heap(Key<T>* keys, int64_t k, int64_t n, const Sooner& first) {
    std::make_heap(keys, keys + k + 1, first);
    for (int64_t j = k + 1; j < n; ++j) {
        if (!first(keys[j], keys[0])) continue;
        // pop_heap() takes the new one from behind the heap
        swap_keys(keys[j], keys[k + 1]);
        std::pop_heap(keys, keys + k + 2, first);
        swap_keys(keys[j], keys[k + 1]);
    }
    swap_keys(keys[0], keys[k]);
}

// std::sort() of few keys, from a depth on.
template <class T>
__device__ void sort_keys(Key<T>* keys, int64_t n, int depth, const Sooner& first) {
    struct {
        int64_t end;
        int depth;
    } waiting[64];  // each is one deeper than the one before
    int count = 0;
    for (int64_t begin = 0, end = n;;) {
        while (end - begin > few_keys) {
            if (depth == 0) {
                sort_by_heap(keys + begin, end - begin, first);
                break;
            }
            --depth;
            put_median_first(keys, begin, end, first);
            const int64_t cut = part_keys(keys, begin, end, first);
            waiting[count++] = {end, depth};
            end = cut;
        }
        if (count == 0) break;
        begin = end;
        end = waiting[--count].end;
        depth = waiting[count].depth;
    }
    insert_keys(keys, n, first);
}

// ---- by a block, of which all threads call these

template <class T>
struct Selection {
    static constexpr int threads = 512, most_waiting = 64;
    struct Part {
        int begin, end, depth;
    };
    struct Shared {
        int counts[threads / 32];
        Part waiting[most_waiting], small[threads];
    };
    Key<T>* keys;
    int *left, *right;  // room for half of the places in each
    Shared* shared;

    static constexpr int64_t room_of(int64_t n) { return n / 2 + 2; }
    static constexpr int64_t bytes_of(int64_t n) {
        return (n + 1) * static_cast<int64_t>(sizeof(Key<T>)) +
               room_of(n) * 2 * static_cast<int64_t>(sizeof(int));
    }
    __device__ Selection(std::byte* scratch, int64_t n, Shared* s)
        : keys(reinterpret_cast<Key<T>*>(scratch)),
          left(reinterpret_cast<int*>(keys + n + 1)),
          right(left + room_of(n)),
          shared(s) {}

    template <class Body>
    __device__ static void one_thread(Body&& body) {
        __syncthreads();
        if (threadIdx.x == 0) body();
        __syncthreads();
    }

    // From a to b the first key that is not before the pivot changes places with the last one from
    // c to d that is not behind it, the second with the last but one, until they meet. Where that
    // is: the first place behind the exchanged ones that a search from the left stops at. met: a
    // search from the right stops there, too.
    template <class First>
    __device__ int part(int a, int b, int c, int d, T pivot, const First& first, bool& met) const {
        const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const unsigned below = (1u << lane) - 1;
        const int room = static_cast<int>(room_of((b > d ? b : d) - (a < c ? a : c) + 1));
        int on_left = 0, on_right = 0, pairs = 0;
        for (int64_t done = 0; a + done <= b || d - done >= c; done += threads) {
            const int64_t i = a + done + threadIdx.x, j = d - done - threadIdx.x;
            const bool stops_i = i <= b && !first(keys[i].value, pivot),
                       stops_j = j >= c && !first(pivot, keys[j].value);
            const unsigned of_i = __ballot_sync(0xffffffffu, stops_i),
                           of_j = __ballot_sync(0xffffffffu, stops_j);
            if (lane == 0) shared->counts[warp] = __popc(of_i) | __popc(of_j) << 16;
            __syncthreads();
            int before = 0, all = 0;
            for (unsigned w = 0; w < threads / 32; ++w) {
                if (w == warp) before = all;
                all += shared->counts[w];
            }
            const int at_i = on_left + (before & 0xffff) + __popc(of_i & below),
                      at_j = on_right + (before >> 16) + __popc(of_j & below);
            if (stops_i && at_i < room) left[at_i] = static_cast<int>(i);
            if (stops_j && at_j < room) right[at_j] = static_cast<int>(j);
            on_left += all & 0xffff;
            on_right += all >> 16;
            __syncthreads();
            pairs = on_left < on_right ? on_left : on_right;
            if (pairs > room) pairs = room;
            if (pairs > 0 && left[pairs - 1] >= right[pairs - 1]) break;
        }
        int low = 0, high = pairs;
        while (low < high) {
            const int middle = low + (high - low) / 2;
            if (left[middle] < right[middle]) low = middle + 1;
            else high = middle;
        }
        met = low < pairs && left[low] == right[low];
        int stop = low < on_left ? left[low] : right[low - 1];
        if (low > 0 && right[low - 1] < stop) stop = right[low - 1];
        for (int k = static_cast<int>(threadIdx.x); k < low; k += threads)
            swap_keys(keys[left[k]], keys[right[k]]);
        __syncthreads();
        return stop;
    }
    __device__ int part_at_median(int begin, int end, const Sooner& first) const {
        one_thread([&] { put_median_first(keys, begin, end, first); });
        bool met;
        return part(begin + 1, end - 1, begin + 1, end - 1, keys[begin].value, first, met);
    }

    // As std::nth_element().
    __device__ void select(int k, int n, const Sooner& first) const {
        int begin = 0, end = n;
        for (int depth = depth_of(n); end - begin > 3; --depth) {
            if (depth == 0)
                return one_thread(
                    [&] { select_by_heap(keys + begin, k - begin, end - begin, first); });
            const int cut = part_at_median(begin, end, first);
            (cut <= k ? begin : end) = cut;
        }
        one_thread([&] { insert_keys(keys + begin, end - begin, first); });
    }

    // As std::sort(). A part that is small is a thread's; parts come in their order.
    __device__ void sort(int n, const Sooner& first) const {
        constexpr int small = 512;
        int waiting = 0, found = 0, begin = 0, end = n, depth = depth_of(n);
        const auto sort_small = [&] {
            __syncthreads();
            if (static_cast<int>(threadIdx.x) < found) {
                const Part own = shared->small[threadIdx.x];
                sort_keys(keys + own.begin, own.end - own.begin, own.depth, first);
            }
            found = 0;
            __syncthreads();
        };
        for (;;) {
            while (end - begin > small && depth > 0) {
                const int cut = part_at_median(begin, end, first);
                --depth;
                if (threadIdx.x == 0) shared->waiting[waiting] = {begin, end, depth};
                ++waiting;
                end = cut;
            }
            if (threadIdx.x == 0) shared->small[found] = {begin, end, depth};
            if (++found == threads) sort_small();
            if (waiting == 0) break;
            __syncthreads();
            begin = end;
            end = shared->waiting[--waiting].end;
            depth = shared->waiting[waiting].depth;
            __syncthreads();
        }
        sort_small();
    }

    // As select_kth().
    __device__ void quickselect(int k, int n) const {
        const auto first = [](T a, T b) { return before(a, b); };
        int begin = 0, end = n - 1;
        while (end > begin) {
            if (end == begin + 1)
                return one_thread([&] { swap_if_greater(keys[begin], keys[end]); });
            one_thread([&] { put_median_left(keys, begin, end); });
            bool met;
            const int stop =
                part(begin + 2, end, begin + 1, end - 1, keys[begin].value, first, met);
            // Where both searches met, each went on by one.
            const int i = met ? stop + 1 : stop, j = stop - 1;
            one_thread([&] { swap_keys(keys[begin], keys[j]); });
            if (j <= k) begin = i;
            if (j >= k) end = j - 1;
        }
    }
};

}  // namespace nntile::kernels::cuda
