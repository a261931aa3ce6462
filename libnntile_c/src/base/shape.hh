// SPDX-License-Identifier: BSD-3-Clause
// Words about shapes that every floor uses.
#pragma once

#include <optional>
#include <ostream>
#include <sstream>
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

// "(2, 3)", "(4,)": written only when it is printed, so that a check that passes costs nothing.
struct DimsText {
    std::span<const int64_t> dims;

    friend std::ostream& operator<<(std::ostream& out, DimsText t) {
        out << '(';
        for (size_t i = 0; i < t.dims.size(); ++i) out << (i ? ", " : "") << t.dims[i];
        return out << (t.dims.size() == 1 ? ",)" : ")");
    }
    operator std::string() const {
        std::ostringstream out;
        out << *this;
        return std::move(out).str();
    }
    friend std::string operator+(std::string text, DimsText t) {
        return std::move(text) + std::string(t);
    }
    friend std::string operator+(const char* text, DimsText t) { return text + std::string(t); }
    friend std::string operator+(DimsText t, const char* text) { return std::string(t) + text; }
    friend std::string operator+(DimsText t, const std::string& text) {
        return std::string(t) + text;
    }
};
// Borrows dims: use it within the expression.
inline DimsText text_of_dims(std::span<const int64_t> dims) { return {dims}; }

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

// The dense row-major layout of these sizes; strides of size-1 dims have no meaning.
inline bool is_dense(std::span<const int64_t> sizes, std::span<const int64_t> strides,
                     int64_t offset) {
    int64_t want = 1;
    bool dense = true;
    for (size_t i = sizes.size(); i-- > 0;) {
        if (sizes[i] == 0) return true;
        dense = dense && (sizes[i] == 1 || strides[i] == want);
        want *= sizes[i];
    }
    return dense && offset == 0;
}
inline bool is_dense(const Layout& layout) {
    return is_dense(layout.sizes, layout.strides, layout.offset);
}

// It stays inside a dense value of numel elements. Negative sizes, strides and offsets never do,
// nor addresses beyond 64 bits.
bool in_bounds(std::span<const int64_t> sizes, std::span<const int64_t> strides, int64_t offset,
               int64_t numel);
inline bool in_bounds(const Layout& layout, int64_t numel) {
    return in_bounds(layout.sizes, layout.strides, layout.offset, numel);
}

// With at least one element: the same elements under other sizes, in the same order, as
// torch.Tensor.view() gives them; nullopt where it refuses.
std::optional<Layout> viewed(const Layout& from, std::span<const int64_t> sizes);

}  // namespace nntile
