// SPDX-License-Identifier: BSD-3-Clause
#include "tile/layouts.hh"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace nntile::tile {

namespace {

// Strides and extents of the dims that move, the smallest stride first.
using Moves = SmallVector<std::array<int64_t, 2>, 6>;
Moves moves_of(const Layout& layout) {
    Moves moves;
    for (size_t d = 0; d < layout.sizes.size(); ++d)
        if (layout.sizes[d] > 1) moves.push_back({layout.strides[d], layout.sizes[d]});
    std::sort(moves.begin(), moves.end());
    return moves;
}

// Each stride leads beyond all that the smaller ones reach.
bool is_injective(const Moves& moves) {
    int64_t reach = 0;
    for (auto [stride, extent] : moves) {
        if (stride <= reach) return false;
        reach += stride * (extent - 1);
    }
    return true;
}

// Whether two layouts with these injective moves meet if the second begins `distance` later:
// whether the distance is a difference of two of their elements.
bool meet(std::span<const std::array<int64_t, 2>> moves, int64_t distance) {
    if (moves.empty()) return distance == 0;
    const auto [stride, extent] = moves.back();
    const int64_t steps = distance / stride;  // the smaller strides do not reach as far as this one
    for (int64_t n : {steps - 1, steps, steps + 1})
        if (std::abs(n) < extent && meet(moves.first(moves.size() - 1), distance - n * stride))
            return true;
    return false;
}

}  // namespace

bool is_injective(const Layout& layout) { return is_injective(moves_of(layout)); }

bool never_meet(const Layout& a, const Layout& b) {
    if (a.last() < b.offset || b.last() < a.offset) return true;
    const Moves moves = moves_of(a);
    return moves == moves_of(b) && is_injective(moves) &&
           !meet({moves.data(), moves.size()}, b.offset - a.offset);
}

}  // namespace nntile::tile
