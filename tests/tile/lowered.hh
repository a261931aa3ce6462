// SPDX-License-Identifier: BSD-3-Clause
// A graph, as text, as it is cut and lowered.
#pragma once

#include "graph/passes/passes.hh"
#include "graph/text.hh"
#include "tile/lower.hh"

namespace nntile::test {

inline tile::TileGraph tiles_of(const std::string& text) {
    graph::NamedCuts cuts;
    const graph::Graph g = graph::parse(text, &cuts);
    graph::verify(g);
    return tile::lower(g, tile::choose_tiling(g, cuts)).tiles;
}

}  // namespace nntile::test
