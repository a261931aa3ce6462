// SPDX-License-Identifier: BSD-3-Clause
// How a pass changes a graph: it erases and replaces nodes, and all values are numbered anew once,
// at the end.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.hh"

namespace nntile::graph {

class Rewriter {
public:
    explicit Rewriter(Graph& graph) : graph_(graph), erased_(graph.nodes.size()) {}

    // Its results have no readers left, or replace() gives them to another node.
    void erase(uint32_t node) { erased_[node] = true; }
    // In the place of `node`, which is erased. `by` names the values that it gives.
    void replace(uint32_t node, Node by) { graph_.nodes[node] = std::move(by); }
    // Before `node`, which stays. `made` gives values that are new.
    void insert(uint32_t node, Node made) { before_[node].push_back(std::move(made)); }
    // Names that the user gave to dims of a value go to one of the same shape, where that has none.
    void move_marks(uint32_t from, uint32_t to);
    // Nodes stay in order; values that nobody needs go, but for inputs, which stay in order too.
    // Gives their new numbers, by the old ones; no_value: it has gone.
    std::vector<uint32_t> finish();

private:
    Graph& graph_;
    std::vector<bool> erased_;
    std::map<uint32_t, std::vector<Node>> before_;
};

}  // namespace nntile::graph
