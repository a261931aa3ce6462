// SPDX-License-Identifier: BSD-3-Clause
#include "tile/relation.hh"

namespace nntile::tile {

using graph::no_value;

NodeSpace space_of(const graph::Graph& graph, const graph::Node& node) {
    NodeSpace space;
    for (uint32_t v : node.inputs) space.inputs.push_back(v == no_value ? schema::Type{} : graph.type_of(v));
    for (uint32_t v : node.outputs) space.outputs.push_back(graph.type_of(v));
    if (node.row->relate)
        node.row->relate({*node.row, space.inputs, node.attrs, node.compute}, space.outputs, space.relation);
    return space;
}

Live live_of(const graph::Graph& graph) {
    Live live{std::vector<bool>(graph.nodes.size()), std::vector<bool>(graph.values.size())};
    auto use = [&](uint32_t v) {
        live.values[v] = true;
        live.values[graph.base_of(v)] = true;
    };
    for (const graph::Output& o : graph.outputs) use(o.value);
    for (size_t n = graph.nodes.size(); n-- > 0;) {
        const graph::Node& node = graph.nodes[n];
        for (uint32_t v : node.outputs)
            if (live.values[v]) live.nodes[n] = true;
        if (!live.nodes[n]) continue;
        for (uint32_t v : node.inputs)
            if (v != no_value) use(v);
    }
    return live;
}

}  // namespace nntile::tile
