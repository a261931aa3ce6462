// SPDX-License-Identifier: BSD-3-Clause
#include "graph/passes/rewrite.hh"

#include <algorithm>
#include <functional>

namespace nntile::graph {

void Rewriter::move_marks(uint32_t from, uint32_t to) {
    for (size_t k = 0; k < graph_.marks.size(); ++k) {
        const AxisMark mark = graph_.marks[k];
        if (mark.value != from) continue;
        const bool named =
            std::any_of(graph_.marks.begin(), graph_.marks.end(),
                        [&](const AxisMark& m) { return m.value == to && m.dim == mark.dim; });
        graph_.marks.erase(graph_.marks.begin() + static_cast<std::ptrdiff_t>(k));
        --k;
        if (!named) graph_.name_axis(to, mark.dim, mark.name);
    }
}

std::vector<uint32_t> Rewriter::finish() {
    std::vector<uint32_t> number(graph_.values.size(), no_value);
    std::vector<Value> values;
    std::vector<View> views;
    const auto keep = [&](uint32_t v) {
        number[v] = static_cast<uint32_t>(values.size());
        values.push_back(std::move(graph_.values[v]));
    };
    size_t inputs = 0;
    const auto need_base = [&](uint32_t v) {  // an input or a number: results have one already
        if (graph_.values[v].kind != ValueKind::input) return keep(v);
        // In order: a text has no other one
        for (const uint32_t last = graph_.values[v].source; inputs <= last;)
            keep(graph_.inputs[inputs++].value);
    };
    const auto need = [&](uint32_t v) {
        if (v == no_value || number[v] != no_value) return;
        const uint32_t base = graph_.base_of(v);
        if (number[base] == no_value) need_base(base);
        if (base == v) return;
        keep(v);
        views.push_back(std::move(graph_.views[values.back().source]));
        views.back().base = number[base];
        values.back().source = static_cast<uint32_t>(views.size() - 1);
    };
    std::vector<Node> nodes;
    nodes.reserve(graph_.nodes.size());
    const auto add = [&](Node& node) {
        for (uint32_t& v : node.inputs) {
            need(v);
            if (v != no_value) v = number[v];
        }
        for (size_t k = 0; k < node.outputs.size(); ++k) {
            keep(node.outputs[k]);
            node.outputs[k] = number[node.outputs[k]];
            values.back().source = static_cast<uint32_t>(nodes.size());
            values.back().output = static_cast<uint16_t>(k);
        }
        nodes.push_back(std::move(node));
    };
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
        if (const auto made = before_.find(static_cast<uint32_t>(n)); made != before_.end())
            for (Node& node : made->second) add(node);
        if (!erased_[n]) add(graph_.nodes[n]);
    }
    for (const Output& out : graph_.outputs) need(out.value);
    for (const Input& in : graph_.inputs) need(in.value);
    std::vector<AxisMark> marks;
    for (AxisMark& mark : graph_.marks) {
        if (number[mark.value] == no_value) continue;
        mark.value = number[mark.value];
        marks.push_back(std::move(mark));
    }
    std::sort(marks.begin(), marks.end(), std::mem_fn(&AxisMark::before));
    for (Input& in : graph_.inputs) in.value = number[in.value];
    for (Output& out : graph_.outputs) out.value = number[out.value];
    graph_.nodes = std::move(nodes);
    graph_.values = std::move(values);
    graph_.views = std::move(views);
    graph_.marks = std::move(marks);
    graph_.forget_known_views();
    return number;
}

}  // namespace nntile::graph
