// SPDX-License-Identifier: BSD-3-Clause
// Access maps: how a torch layout reads a dense row-major value, by dims instead of by addresses.
//
// Digit.     The index of view dim k is written in a mixed radix, j_k = sum(weight * digit): one
//            digit for a dim that stays in one base dim, several for one that runs through
//            consecutive base dims (a merge).
// Affine.    Base coordinates are start_i + sum(step * digit), and none ever carries into the next
//            base dim. Such a layout is a strided block in every tile of the base.
// Regular.   Affine, and after refining base dims (12 -> 3 x 4) every digit has one refined dim to
//            itself, an interval with a step. Only such digits carry cuts from base to view.
// Opaque.    A base dim of an affine map where that fails: diagonals and sliding windows.
// Irregular. Some coordinate carries. `carry` names base dims; with them whole the map is affine.
#pragma once

#include <span>
#include <vector>

#include "base/shape.hh"

namespace nntile::tile {

// Sets of base dims are bit masks.
inline constexpr size_t max_rank = 64;
constexpr uint64_t bit(size_t i) { return uint64_t{1} << i; }

// Base index [base] += step * digit.
struct Step {
    int64_t step;
    uint32_t base;
    friend bool operator==(const Step&, const Step&) = default;
};

// View index [dim] += weight * digit, 0 <= digit < size. Dims of size 1 have no digit; a digit
// without steps is a broadcast.
struct Digit {
    int64_t weight;
    int64_t size;
    uint32_t dim;
    uint16_t first_step;  // into AccessMap::steps
    uint16_t n_steps;
};

struct AccessMap {
    Dims shape;                     // of the base
    Layout layout;                  // normalised, see normal_layout()
    Dims start;                     // base index of the layout's offset
    SmallVector<Digit, 12> digits;  // view dim by view dim, outer digit first
    SmallVector<Step, 16> steps;
    uint64_t carry = 0;  // base dims that overflow; 0: affine

    std::span<const Step> steps_of(const Digit& d) const {
        return {steps.data() + d.first_step, d.n_steps};
    }
};

// Strides of size-1 dims, and all but the sizes of an empty layout, have no meaning: they become 0,
// so that equal views are equal layouts.
Layout normal_layout(const Layout& layout);

// Throws invalid_argument for negative numbers and for a layout that leaves the value.
AccessMap access_map(std::span<const int64_t> shape, const Layout& layout);

// The part of a base dim that is refined: index = offset + step * x, 0 <= x < extent. It is the
// whole dim (0, 1, n), or a slice that was split afterwards (parameters in one flat buffer).
struct Window {
    int64_t offset;
    int64_t step;
    int64_t extent;
};

// Where a digit lies: refined dim `dim` (of `extent`) of dim `base`, there offset + step * digit.
struct RefinedDim {
    int32_t base = -1;  // -1: nowhere, a broadcast or an opaque dim
    int32_t dim = -1;
    int64_t extent = 0;
    int64_t offset = 0;
    int64_t step = 1;
    bool placed() const { return dim >= 0; }
};

struct Form {
    std::vector<Dims> radix;      // refined dims of each base dim; their product: window.extent
    std::vector<Window> windows;  // one per base dim
    std::vector<RefinedDim> digits;
    uint64_t opaque = 0;
};

// The map must be affine.
Form refine(const AccessMap& map);

}  // namespace nntile::tile
