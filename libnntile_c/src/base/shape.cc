// SPDX-License-Identifier: BSD-3-Clause
#include "base/shape.hh"

#include <algorithm>

namespace nntile {

bool in_bounds(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
               int64_t numel) {
    const auto negative = [](int64_t n) { return n < 0; };
    if (offset < 0 || std::any_of(sizes.begin(), sizes.end(), negative) ||
        std::any_of(strides.begin(), strides.end(), negative))
        return false;
    if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return true;
    int64_t last = offset, reach = 0;
    for (size_t d = 0; d < sizes.size(); ++d)
        if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &reach) ||
            __builtin_add_overflow(last, reach, &last))
            return false;
    return last < numel;
}

std::optional<Layout> viewed(const Layout& from, std::span<const int64_t> sizes) {
    Layout to{Dims(sizes), Dims(sizes.size(), 1), from.offset};
    size_t i = from.sizes.size(), j = sizes.size();
    // Of a run of dims of `from` that are one dim: what is not used up
    int64_t left = 1, stride = 1;
    while (j-- > 0) {
        if (sizes[j] == 1) continue;
        while (left == 1) {  // the next run
            if (i == 0) return std::nullopt;
            left = from.sizes[--i];
            stride = from.strides[i];
            while (i > 0 && (from.sizes[i - 1] == 1 || from.strides[i - 1] == stride * left))
                left *= from.sizes[--i];
        }
        if (left % sizes[j] != 0) return std::nullopt;
        to.strides[j] = stride;
        stride *= sizes[j];
        left /= sizes[j];
    }
    return to;
}

}  // namespace nntile
