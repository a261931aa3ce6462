// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "nntile/tile.h"
#include "tile/lower.hh"

namespace nntile::abi {

// The caller ends it with nntile_tile_destroy().
nntile_tile* new_tile(const graph::Graph& graph, const tile::AxisCuts& cuts);

}  // namespace nntile::abi
