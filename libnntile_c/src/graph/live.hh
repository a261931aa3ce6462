// SPDX-License-Identifier: BSD-3-Clause
// What the outputs of a graph depend on.
#pragma once

#include "graph/graph.hh"

namespace nntile::graph {

struct Live {
    std::vector<bool> nodes, values;
};
Live live_of(const Graph& graph);

// The first pass: what no output depends on goes. Inputs, run-time scalars and host calls keep their numbers,
// for a caller has lists of them; values get new ones.
void remove_dead(Graph& graph);

}  // namespace nntile::graph
