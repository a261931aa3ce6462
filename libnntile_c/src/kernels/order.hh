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

// Quickselect with the median of three as its pivot: the k-th, from 0, is put to its place. Which
// of several equals that is, is PyTorch's choice.
template <class T>
NNTILE_FN void select_kth(Key<T>* keys, int64_t k, int64_t n) {
    const auto greater = [keys](int64_t a, int64_t b) {
        return before(keys[b].value, keys[a].value);
    };
    int64_t left = 0, right = n - 1;
    while (right > left) {
        if (right == left + 1) {
            if (greater(left, right)) swap_keys(keys[left], keys[right]);
            return;
        }
        swap_keys(keys[left + (right - left) / 2], keys[left + 1]);
        if (greater(left + 1, right)) swap_keys(keys[left + 1], keys[right]);
        if (greater(left, right)) swap_keys(keys[left], keys[right]);
        if (greater(left + 1, left)) swap_keys(keys[left + 1], keys[left]);
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
