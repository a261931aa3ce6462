// SPDX-License-Identifier: BSD-3-Clause
// The order of elements of a row, and the k-th of them, for cores and devices.
#pragma once

#include "kernels/cuda.hh"
#include "kernels/kernel.hh"

namespace nntile::kernels {

template <class T>
struct Key {
    T value;
    int64_t place;
};

template <class T>
NNTILE_FN bool before(T a, T b) {  // in ascending order; nan is the largest
    return (a < b) | ((b != b) & (a == a));
}

// Which of two is taken first by topk.
struct Sooner {
    bool largest;
    template <class T>
    NNTILE_FN bool operator()(T a, T b) const {
        return largest ? before(b, a) : before(a, b);
    }
    template <class T>
    NNTILE_FN bool operator()(const Key<T>& a, const Key<T>& b) const {
        return (*this)(a.value, b.value);
    }
};
// Rows that are sorted: of equals the first stays first.
struct Earlier {
    bool descending;
    template <class T>
    NNTILE_FN bool operator()(const Key<T>& a, const Key<T>& b) const {
        const Key<T>&left = descending ? b : a, &right = descending ? a : b;
        if (before(left.value, right.value)) return true;
        return !before(right.value, left.value) && a.place < b.place;
    }
};

// Whether topk keeps the first k of n in a heap, as PyTorch does.
NNTILE_FN inline bool keeps_heap(int64_t k, int64_t n) {
    constexpr int64_t few = 64;
    return k * few <= n;
}

template <class T>
NNTILE_FN void swap_keys(Key<T>& a, Key<T>& b) {
    const Key<T> kept = a;
    a = b;
    b = kept;
}

template <class T>
NNTILE_FN void swap_if_greater(Key<T>& a, Key<T>& b) {
    if (before(b.value, a.value)) swap_keys(a, b);
}
// Of keys[left], the middle and keys[right] the median comes to the left, as a pivot, the least
// behind it, and the greatest to the right.
template <class T>
NNTILE_FN void put_median_left(Key<T>* keys, int64_t left, int64_t right) {
    swap_keys(keys[left + (right - left) / 2], keys[left + 1]);
    swap_if_greater(keys[left + 1], keys[right]);
    swap_if_greater(keys[left], keys[right]);
    swap_if_greater(keys[left + 1], keys[left]);
}

// Quickselect with the median of three as its pivot: the k-th, from 0, is put to its place. Which
// of several equals that is, is PyTorch's choice.
template <class T>
NNTILE_FN void select_kth(Key<T>* keys, int64_t k, int64_t n) {
    int64_t left = 0, right = n - 1;
    while (right > left) {
        if (right == left + 1) return swap_if_greater(keys[left], keys[right]);
        put_median_left(keys, left, right);
        int64_t i = left + 1, j = right;
        const T pivot = keys[left].value;
        for (;;) {
            do ++i;
            while (before(keys[i].value, pivot));
            do --j;
            while (before(pivot, keys[j].value));
            if (j < i) break;
            swap_keys(keys[i], keys[j]);
        }
        swap_keys(keys[left], keys[j]);
        if (j <= k) left = i;
        if (j >= k) right = j - 1;
    }
}

}  // namespace nntile::kernels
