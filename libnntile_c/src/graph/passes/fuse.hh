// SPDX-License-Identifier: BSD-3-Clause
// Passes that make one node of several. A fusion is a row of the table in fuse.cc; the matcher
// there is the same for all.
#pragma once

#include "graph/passes/passes.hh"
#include "graph/passes/readers.hh"
#include "graph/passes/rewrite.hh"

namespace nntile::graph {

// Nodes in order, each of which reads a result of an earlier one. They become one node, which
// stands where the last one did.
using Group = std::vector<uint32_t>;

struct Fusion {
    const char* name;  // of the pass
    size_t most;       // nodes of a group
    Spoilt spoilt;     // what must not stand in between
    bool saves_time;   // NNTILE_FUSE=0 leaves it out
    // A node that may read what another one of the group makes, and one that may make it
    bool (*reads)(const Graph& graph, const Node& node);
    bool (*makes)(const Graph& graph, const Node& node);
    // Whether they can be one node: all but that nothing in between forbids it
    bool (*fits)(Graph& graph, Readers& readers, const Group& group);
    void (*fuse)(Graph& graph, Readers& readers, const Group& group, Rewriter& rewriter);
};

}  // namespace nntile::graph
