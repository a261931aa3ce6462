// SPDX-License-Identifier: BSD-3-Clause
#include "graph/live.hh"

#include <algorithm>

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
        for (uint32_t v : node.outputs)
            if (live.values[v]) live.nodes[n] = true;
        if (!live.nodes[n]) continue;
        for (uint32_t v : node.outputs) live.values[v] = true;  // a kernel writes all of them
        for (uint32_t v : node.inputs)
            if (v != no_value) use(v);
    }
    return live;
}

void remove_dead(Graph& graph) {
    const Live live = live_of(graph);
    // Nearly always; views and scalars without a reader do no harm.
    if (std::find(live.nodes.begin(), live.nodes.end(), false) == live.nodes.end()) return;
    const auto stays = [&](uint32_t v) {        // a node has all of its outputs
        const Value& value = graph.values[v];
        if (value.kind == ValueKind::result) return bool(live.nodes[value.source]);
        return value.kind == ValueKind::input || live.values[v];
    };
    std::vector<uint32_t> number(graph.values.size(), no_value), node_number(graph.nodes.size(), no_value);
    std::vector<Node> nodes;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
        if (!live.nodes[n]) continue;
        node_number[n] = static_cast<uint32_t>(nodes.size());
        nodes.push_back(std::move(graph.nodes[n]));
    }
    std::vector<Value> values;
    std::vector<View> views;
    for (uint32_t v = 0; v < graph.values.size(); ++v) {
        if (!stays(v)) continue;
        number[v] = static_cast<uint32_t>(values.size());
        values.push_back(std::move(graph.values[v]));
        Value& value = values.back();
        if (value.kind == ValueKind::result) value.source = node_number[value.source];
        if (value.kind != ValueKind::view) continue;
        views.push_back(std::move(graph.views[value.source]));
        views.back().base = number[views.back().base];
        value.source = static_cast<uint32_t>(views.size() - 1);
    }
    for (Node& node : nodes) {
        for (uint32_t& v : node.inputs)
            if (v != no_value) v = number[v];
        for (uint32_t& v : node.outputs) v = number[v];
    }
    std::vector<AxisMark> marks;
    for (AxisMark& mark : graph.marks) {
        if (number[mark.value] == no_value) continue;
        mark.value = number[mark.value];
        marks.push_back(std::move(mark));
    }
    for (Input& in : graph.inputs) in.value = number[in.value];
    for (Output& out : graph.outputs) out.value = number[out.value];
    graph.nodes = std::move(nodes);
    graph.values = std::move(values);
    graph.views = std::move(views);
    graph.marks = std::move(marks);
    graph.forget_known_views();
}

}  // namespace nntile::graph
