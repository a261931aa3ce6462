// SPDX-License-Identifier: BSD-3-Clause
// What to tell a user whose step has a task that needs more memory than there is.
#pragma once

#include <string>

#include "tile/lower.hh"

namespace nntile::tile {

// The task that needs the most bytes for its operands and results; tiles that share memory count
// once. none, and 0 bytes, of a graph without tasks.
struct Largest {
    uint32_t task = none;
    uint32_t node = none;  // that the task comes from; none: data takes another grid
    int64_t bytes = 0;
};
Largest largest_task(const TileGraph& tiles);

// The largest task and, where it needs more than `most_bytes`, what to say of it: its op, its
// operands with their dtypes, shapes and tiles, and which axis would have to be cut, and in how
// many, or that no axis of it can be cut. "": it fits. `tiling` and `tiles` are what
// choose_tiling() and lower() made of `graph` and `cuts`. Tries cuts, so it takes as long as some
// lowerings.
struct Advice {
    Largest largest;
    std::string text;
};
Advice advice(const graph::Graph& graph, const AxisCuts& cuts, const Tiling& tiling,
              const TileGraph& tiles, int64_t most_bytes);

}  // namespace nntile::tile
