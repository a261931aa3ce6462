// SPDX-License-Identifier: BSD-3-Clause
// What the outputs of a graph depend on.
#pragma once

#include "graph/graph.hh"

namespace nntile::graph {

struct Live {
    std::vector<bool> nodes, values;
};
Live live_of(const Graph& graph);

}  // namespace nntile::graph
