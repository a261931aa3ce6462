// SPDX-License-Identifier: BSD-3-Clause
// A tile graph as text, and back (to look at and to compare, not to run: programs keep their names
// only).
#pragma once

#include <string>

#include "tile/tile_graph.hh"

namespace nntile::tile {

std::string print(const TileGraph& graph);
TileGraph parse(std::string_view text);  // Error invalid_argument with the line that is wrong

}  // namespace nntile::tile
