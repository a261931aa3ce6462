// SPDX-License-Identifier: BSD-3-Clause
// How a pass changes a graph: it erases and replaces nodes, and all values are numbered anew once,
// at the end.
#pragma once

#include "graph/graph.hh"

namespace nntile::graph {

class Rewriter {
public:
    explicit Rewriter(Graph& graph) : graph_(graph), erased_(graph.nodes.size()) {}

    // Its results have no readers left, or replace() gives them to another node.
    void erase(uint32_t node) { erased_[node] = true; }
    // In the place of `node`, which is erased. `by` names the values that it gives.
    void replace(uint32_t node, Node by) { graph_.nodes[node] = std::move(by); }
    // Names that the user gave to dims of a value go to one of the same shape, where that has none.
    void move_marks(uint32_t from, uint32_t to);
    // Nodes stay in order; values that nobody needs go, but for inputs, which stay in order too.
    void finish();

private:
    Graph& graph_;
    std::vector<bool> erased_;
};

}  // namespace nntile::graph
