// SPDX-License-Identifier: BSD-3-Clause
#include "graph/difference.hh"

#include <algorithm>

#include "base/error.hh"
#include "base/shape.hh"
#include "base/text.hh"

namespace nntile::graph {

namespace {

std::string place_of_node(const Graph& graph, const Node& node) {
    const std::string line =
        node.recorded == no_value ? "" : text_of_place(graph.places[node.recorded]);
    return line.empty() ? line : " (" + line + ")";
}

std::string text_of_node(const Graph& graph, const Node& node) {
    return name_of(graph, node) + place_of_node(graph, node);
}

// Of programs the attributes are those of their instructions.
std::string name_of_attr(const Node& node, size_t k) {
    return node.program || k >= node.row->attrs.size() ? "a number" : node.row->attrs[k].name;
}

std::string text_of_attr(const Node& node, size_t k) {
    const Attr& attr = node.attrs[k];
    if (node.program || k >= node.row->attrs.size()) return std::to_string(attr.i);
    const schema::AttrRow& row = node.row->attrs[k];
    if (row.kind == schema::AttrKind::text) return std::string(schema::choice_word(row, attr.i));
    return row.kind == schema::AttrKind::integers ? std::string(text_of_dims(attr.ints))
                                                  : std::to_string(attr.i);
}

std::string text_of_scalar(const Graph& graph, uint32_t scalar, bool real) {
    return real ? text_of_real(graph.scalars[scalar].f) : std::to_string(graph.scalars[scalar].i);
}

bool is_scalar(const Graph& graph, uint32_t value, uint32_t scalar) {
    return graph.values[value].kind == ValueKind::scalar && graph.values[value].source == scalar;
}

std::string ops_differ(const Graph& before, const Graph& now) {
    const size_t common = std::min(before.nodes.size(), now.nodes.size());
    for (size_t k = 0; k < common; ++k)
        if (name_of(now, now.nodes[k]) != name_of(before, before.nodes[k]))
            return text_of("op ", k + 1, " is ", text_of_node(now, now.nodes[k]), ", it was ",
                           text_of_node(before, before.nodes[k]));
    if (now.nodes.size() > common)
        return text_of("op ", common + 1, " is ", text_of_node(now, now.nodes[common]),
                       ", there was none");
    if (before.nodes.size() > common)
        return text_of("op ", common + 1, " was ", text_of_node(before, before.nodes[common]),
                       ", there is none now");
    return {};
}

std::string values_differ(const Graph& before, const Graph& now, const Node& old, const Node& node,
                          std::span<const uint32_t> olds, std::span<const uint32_t> news,
                          const char* does, const char* did) {
    for (size_t k = 0; k < std::min(olds.size(), news.size()); ++k) {
        if (news[k] == no_value || olds[k] == no_value) continue;
        const Value &v = now.value(news[k]), &w = before.value(olds[k]);
        if (v.sizes != w.sizes)
            return text_of(text_of_node(now, node), does, text_of_dims(v.sizes), did,
                           text_of_dims(w.sizes));
        if (v.dtype != w.dtype)
            return text_of(text_of_node(now, node), does, name_of(v.dtype), did, name_of(w.dtype));
    }
    if (olds.size() == news.size()) return {};
    return text_of(text_of_node(now, node), " has ", news.size(), " operands, ",
                   text_of_node(before, old), " had ", olds.size());
}

std::string node_differs(const Graph& before, const Graph& now, const Node& old, const Node& node) {
    std::string text =
        values_differ(before, now, old, node, old.inputs, node.inputs, " takes ", ", it took ");
    if (text.empty())
        text = values_differ(before, now, old, node, old.outputs, node.outputs, " gives ",
                             ", it gave ");
    if (!text.empty()) return text;
    for (size_t k = 0; k < std::min(node.attrs.size(), old.attrs.size()); ++k) {
        const Attr &a = node.attrs[k], &b = old.attrs[k];
        if (a.scalar != b.scalar || (a.scalar == no_value && (a.i != b.i || a.ints != b.ints)))
            return text_of(text_of_node(now, node), " has ", name_of_attr(node, k), " = ",
                           text_of_attr(node, k), ", it was ", text_of_attr(old, k));
    }
    for (size_t k = 0; k < node.inputs.size(); ++k)
        if (node.inputs[k] != old.inputs[k])
            return text_of_node(now, node) + " reads another tensor than it did";
    if (node.host_call >= 0 &&
        now.hosts[node.host_call].signature != before.hosts[old.host_call].signature)
        return text_of_node(now, node) + " has other arguments than it had";
    return {};
}

std::string inputs_differ(const Graph& before, const Graph& now) {
    for (size_t k = 0; k < std::min(now.inputs.size(), before.inputs.size()); ++k) {
        const Value &v = now.value(now.inputs[k].value), &w = before.value(before.inputs[k].value);
        if (v.dtype != w.dtype)
            return text_of("input ", k, " is ", name_of(v.dtype), ", it was ", name_of(w.dtype));
        if (v.sizes != w.sizes)
            return text_of("input ", k, " has shape ", text_of_dims(v.sizes), ", it had ",
                           text_of_dims(w.sizes));
    }
    if (now.inputs.size() != before.inputs.size())
        return text_of("it reads ", now.inputs.size(), " tensors, before it read ",
                       before.inputs.size());
    return {};
}

}  // namespace

std::string difference(const Graph& before, const Graph& now, bool inputs_first) {
    std::string text = ops_differ(before, now);
    if (text.empty() && inputs_first) text = inputs_differ(before, now);
    for (size_t k = 0; text.empty() && k < now.nodes.size(); ++k)
        text = node_differs(before, now, before.nodes[k], now.nodes[k]);
    if (text.empty()) text = inputs_differ(before, now);
    if (!text.empty()) return text;
    if (now.outputs.size() != before.outputs.size())
        return text_of(now.outputs.size(), " results are kept, before it were ",
                       before.outputs.size());
    for (size_t k = 0; k < now.inputs.size(); ++k)
        if (now.inputs[k].overwritable != before.inputs[k].overwritable)
            return text_of("input ", k,
                           now.inputs[k].overwritable ? " is not needed later, it was"
                                                      : " is needed later, it was not");
    return "a view or a name of an axis is another one";
}

std::string number_difference(const Graph& before, const Graph& now, uint32_t scalar) {
    const auto text = [&](const Node& node, const std::string& name, bool real) {
        return text_of(text_of_node(now, node), " with ", name, " = ",
                       text_of_scalar(now, scalar, real), ", it was ",
                       text_of_scalar(before, scalar, real));
    };
    for (const Node& node : now.nodes) {
        for (size_t k = 0; k < node.attrs.size(); ++k)
            if (node.attrs[k].scalar == scalar) {
                const bool known = !node.program && k < node.row->attrs.size();
                return text(node, name_of_attr(node, k),
                            !known || node.row->attrs[k].kind == schema::AttrKind::real);
            }
        for (const uint32_t value : node.inputs)
            if (value != no_value && is_scalar(now, value, scalar))
                return text(node, "a number", is_floating(now.value(value).dtype));
    }
    return {};
}

std::string reader_of(const Graph& graph, uint32_t value) {
    for (const Node& node : graph.nodes)
        for (const uint32_t input : node.inputs)
            if (input != no_value && graph.base_of(input) == value)
                return text_of_node(graph, node);
    return {};
}

}  // namespace nntile::graph
