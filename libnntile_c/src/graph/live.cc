// SPDX-License-Identifier: BSD-3-Clause
#include "graph/live.hh"

namespace nntile::graph {

Live live_of(const Graph& graph) {
    Live live{std::vector<bool>(graph.nodes.size()), std::vector<bool>(graph.values.size())};
    auto use = [&](uint32_t v) {
        live.values[v] = true;
        live.values[graph.base_of(v)] = true;
    };
    for (const Output& o : graph.outputs) use(o.value);
    for (size_t n = graph.nodes.size(); n-- > 0;) {
        const Node& node = graph.nodes[n];
        live.nodes[n] = node.host_call >= 0 && graph.hosts[node.host_call].effect;
        for (uint32_t v : node.outputs)
            if (live.values[v]) live.nodes[n] = true;
        if (!live.nodes[n]) continue;
        for (uint32_t v : node.outputs) live.values[v] = true;  // a kernel writes all of them
        for (uint32_t v : node.inputs)
            if (v != no_value) use(v);
    }
    return live;
}

}  // namespace nntile::graph
