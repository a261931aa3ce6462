// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "graph/live.hh"
#include "graph/passes/passes.hh"
#include "graph/passes/rewrite.hh"

namespace nntile::graph {

void remove_dead(Graph& graph) {
    const Live live = live_of(graph);
    // Nearly always; views and scalars without a reader do no harm.
    if (std::find(live.nodes.begin(), live.nodes.end(), false) == live.nodes.end()) return;
    Rewriter rewriter(graph);
    for (uint32_t n = 0; n < graph.nodes.size(); ++n)
        if (!live.nodes[n]) rewriter.erase(n);
    rewriter.finish();
}

}  // namespace nntile::graph
