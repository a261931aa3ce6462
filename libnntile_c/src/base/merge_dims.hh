// SPDX-License-Identifier: BSD-3-Clause
// Neighbouring dims of a loop over strided arrays as one dim.
#pragma once

#include <cstdint>
#include <span>

namespace nntile {

// Merges dims in place, outermost first: dim d joins the one that is left before it, where each
// array's stride over that is sizes[d] times its stride over d, and may_join(d) allows it. arrays:
// strides of each, one per dim. Returns how many dims are left. first: null, or of each one left
// its first dim.
template <class MayJoin>
int merge_dims(std::span<int64_t> sizes, std::span<int64_t* const> arrays, MayJoin&& may_join,
               int* first = nullptr) {
    int left = 0;
    for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
        bool joins = left > 0 && may_join(d);
        for (const int64_t* strides : arrays)
            joins = joins && strides[left - 1] == strides[d] * sizes[d];
        if (joins) {
            sizes[left - 1] *= sizes[d];
        } else {
            if (first) first[left] = d;
            sizes[left++] = sizes[d];
        }
        for (int64_t* strides : arrays) strides[left - 1] = strides[d];
    }
    return left;
}

inline int merge_dims(std::span<int64_t> sizes, std::span<int64_t* const> arrays) {
    return merge_dims(sizes, arrays, [](int) { return true; });
}

}  // namespace nntile
