// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include "graph/passes/passes.hh"

namespace nntile::graph {

void own_outputs(Graph& graph) {
    std::vector<uint32_t> owned;
    for (Output& o : graph.outputs) {
        const Value& value = graph.value(o.value);
        if (value.kind != ValueKind::result || std::count(owned.begin(), owned.end(), o.value))
            o.value = graph.copy(o.value, value.dtype);
        owned.push_back(o.value);
    }
}

}  // namespace nntile::graph
