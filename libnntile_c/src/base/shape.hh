// SPDX-License-Identifier: BSD-3-Clause
// Words about shapes that every floor uses.
#pragma once

#include <string>

#include "base/small_vector.hh"

namespace nntile {

inline int64_t product(std::span<const int64_t> sizes) {
    int64_t n = 1;
    for (int64_t s : sizes) n *= s;
    return n;
}

// Row-major strides in elements; a zero extent counts as 1, as in PyTorch.
inline Dims dense_strides(std::span<const int64_t> sizes) {
    Dims strides(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;)
        strides[i - 1] = strides[i] * std::max<int64_t>(sizes[i], 1);
    return strides;
}

inline std::string text_of_dims(std::span<const int64_t> dims) {  // "(2, 3)", "(4,)"
    std::string out = "(";
    for (size_t i = 0; i < dims.size(); ++i) out += (i ? ", " : "") + std::to_string(dims[i]);
    return out + (dims.size() == 1 ? ",)" : ")");
}

// A torch tensor on a dense value: address of index j = offset + sum(j * strides), in elements.
struct Layout {
    Dims sizes;
    Dims strides;
    int64_t offset = 0;

    int64_t numel() const { return product(sizes); }
    // Highest address; meaningful only if numel() > 0.
    int64_t last() const {
        int64_t at = offset;
        for (size_t i = 0; i < sizes.size(); ++i) at += (sizes[i] - 1) * strides[i];
        return at;
    }
    static Layout dense(std::span<const int64_t> sizes) {
        return {Dims(sizes), dense_strides(sizes), 0};
    }
    friend bool operator==(const Layout&, const Layout&) = default;
};

// Layout equals the dense row-major layout of these sizes; strides of size-1 dims have no meaning.
inline bool is_dense(const Layout& layout) {
    if (layout.offset != 0) return layout.numel() == 0;
    int64_t want = 1;
    for (size_t i = layout.sizes.size(); i-- > 0;) {
        if (layout.sizes[i] == 0) return true;
        if (layout.sizes[i] != 1 && layout.strides[i] != want) return false;
        want *= layout.sizes[i];
    }
    return true;
}

}  // namespace nntile
