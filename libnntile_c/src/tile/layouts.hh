// SPDX-License-Identifier: BSD-3-Clause
// What can be said of layouts on one value by their strides alone. Layouts with at least one
// element.
#pragma once

#include "base/shape.hh"

namespace nntile::tile {

// No element comes twice. False for some layouts without repetition too, but not for slices and
// permutations.
bool is_injective(const Layout& layout);

// No element is in both. False if that is not known; for injective layouts that differ in their
// offsets only it is.
bool never_meet(const Layout& a, const Layout& b);

}  // namespace nntile::tile
