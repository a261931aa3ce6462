// SPDX-License-Identifier: BSD-3-Clause
#include "base/error.hh"
#include "graph/passes/passes.hh"
#include "graph/program.hh"

namespace nntile::graph {

void verify(const Graph& g) {
    const auto wrong = [](const auto&... parts) {
        fail(Status::internal, "a pass left a wrong graph: ", parts...);
    };
    const auto node_of = [&](uint32_t v) {  // the node after which the value is there
        const uint32_t base = g.base_of(v);
        if (base >= g.values.size() || g.value(base).kind == ValueKind::view)
            wrong("%", v, " is a view of %", base);
        return g.value(base).kind == ValueKind::result ? static_cast<int64_t>(g.value(base).source)
                                                       : -1;
    };
    const auto check_value = [&](uint32_t v, int64_t before, const auto& user) {
        if (v == no_value) return;
        if (v >= g.values.size()) wrong(user, " reads %", v, " of ", g.values.size());
        if (node_of(v) >= before) wrong(user, " reads %", v, " before it is made");
    };
    for (uint32_t v = 0; v < g.values.size(); ++v) {
        const Value& value = g.value(v);
        const size_t known = value.kind == ValueKind::input    ? g.inputs.size()
                             : value.kind == ValueKind::result ? g.nodes.size()
                             : value.kind == ValueKind::view   ? g.views.size()
                                                               : g.scalars.size();
        if (value.source >= known) wrong("%", v, " comes from ", value.source, " of ", known);
        if (value.kind == ValueKind::result) {
            const auto& given = g.nodes[value.source].outputs;
            if (value.output >= given.size() || given[value.output] != v)
                wrong("%", v, " is no result of its node");
        }
        if (value.kind == ValueKind::input && g.inputs[value.source].value != v)
            wrong("%", v, " is no input");
    }
    for (size_t n = 0; n < g.nodes.size(); ++n) {
        const Node& node = g.nodes[n];
        for (uint32_t v : node.inputs) check_value(v, static_cast<int64_t>(n), name_of(g, node));
        for (uint32_t v : node.outputs)
            if (v >= g.values.size() || g.value(v).kind != ValueKind::result ||
                g.value(v).source != n)
                wrong("node ", n, " gives %", v, ", which another one makes");
        if (node.program) check_program(g, node);
    }
    for (const Output& o : g.outputs)
        check_value(o.value, static_cast<int64_t>(g.nodes.size()), "the graph");
    for (const AxisMark& m : g.marks)
        if (m.value >= g.values.size() || m.dim >= g.value(m.value).sizes.size())
            wrong("a name of %", m.value);
}

}  // namespace nntile::graph
