// SPDX-License-Identifier: BSD-3-Clause
// Index tensors as gather and scatter read them. The last dims of a task are those of the table
// that indices lead into; an index is data, so a wrong one is an error of the task; nothing outside
// of the table is touched.
#pragma once

#include "kernels/refuse.hh"
#include "kernels/space.hh"

namespace nntile::kernels {

// Index tensors, one for each of the table's dims.
struct Indices {
    const Args& args;
    Refusal refusal;  // of the op
    std::span<const Block> blocks;
    const int64_t *sizes, *strides;  // of the table's dims
    bool wrap;                       // a negative index counts from the end

    // Adds the places that n of the indices for dim `k` lead to; negative: one of them is out of
    // range.
    template <class I>
    int64_t add_places(size_t k, int64_t offset, int64_t step, int64_t n, int64_t* places) const {
        const I* index = reinterpret_cast<const I*>(blocks[k].data) + offset;
        int64_t wrong = 0;
        for (int64_t j = 0; j < n; ++j) {
            const int64_t given = index[j * step], at = given + (wrap && given < 0 ? sizes[k] : 0);
            const bool inside = static_cast<uint64_t>(at) < static_cast<uint64_t>(sizes[k]);
            wrong |= inside ? 0 : -1;
            places[j] += inside ? at * strides[k] : 0;
        }
        return wrong;
    }

    // Sets `place`, in elements, from the offsets of the index tensors; or says what is wrong.
    int lead(const int64_t* offsets, int64_t* place) const {
        *place = 0;
        for (size_t k = 0; k < blocks.size(); ++k) {
            const Block& b = blocks[k];
            int64_t index = b.dtype == DType::i64
                                ? reinterpret_cast<const int64_t*>(b.data)[offsets[k]]
                                : reinterpret_cast<const int32_t*>(b.data)[offsets[k]];
            const int64_t given = index;
            if (wrap && index < 0) index += sizes[k];
            if (index < 0 || index >= sizes[k]) return refuse(args, {refusal, given, sizes[k]});
            *place += index * strides[k];
        }
        return 0;
    }
};

// A space with the table's dims left out. Operands: those given, then the index tensors.
inline int outer_space(const Args& args, size_t first, size_t last,
                       std::span<const int64_t* const> strides, bool sorted, Space& space) {
    Dims sizes(args.sizes);
    for (size_t d = 0; d < sizes.size(); ++d)
        if (d < first || d >= last) sizes[d] = 1;
    Args outer = args;
    outer.sizes = sizes;
    if (sorted) return space.make(outer, strides, {0, 1});
    return space.make(outer, strides, {});
}

using Strides = SmallVector<const int64_t*, 8>;

inline constexpr int64_t piece_of_indices = 256;

// None is negative, or beyond the end: most are so, and a loop that need not ask is twice as fast.
template <class I>
bool all_inside(const I* index, int64_t n, int64_t size) {
    int64_t signs = 0;
    for (int64_t j = 0; j < n; ++j) signs |= index[j] | (size - 1 - index[j]);
    return signs >= 0;
}
// At most a piece of them; those that lie apart are read from there once.
template <class I>
const I* beside(const I* index, int64_t step, int64_t n, I* held) {
    if (step == 1) return index;
    for (int64_t j = 0; j < n; ++j) held[j] = index[j * step];
    return held;
}

}  // namespace nntile::kernels
