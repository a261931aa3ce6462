// SPDX-License-Identifier: BSD-3-Clause
#include "tile/relation.hh"

#include <algorithm>

#include "graph/program.hh"

namespace nntile::tile {

using graph::no_value;

// The axes of a function of the host are the labels; every task has all of the other dims.
static void relate_axes(const graph::HostAxes& axes, NodeSpace& space) {
    auto& labels = space.relation.labels;
    const auto relate = [&](const schema::Type& type, bool output) {
        const size_t k = space.relation.operands.size();
        auto& own = space.relation.operands.emplace_back();
        for (size_t d = 0; d < type.sizes.size(); ++d) {
            const int64_t axis = axes.empty() ? -1 : axes[k][d];
            own.push_back(static_cast<int8_t>(axis));
            while (axis >= static_cast<int64_t>(labels.size()))
                labels.push_back({1, schema::LabelKind::reduce});
            if (axis < 0) continue;
            labels[axis].extent = type.sizes[d];
            if (output) labels[axis].kind = schema::LabelKind::parallel;
        }
    };
    for (const schema::Type& t : space.inputs) relate(t, false);
    for (const schema::Type& t : space.outputs) relate(t, true);
    for (schema::Label& label : labels)
        if (space.outputs.empty()) label.kind = schema::LabelKind::parallel;
}

// The program of an epilogue sees the result as any map sees its operands.
static void relate_epilogue(const graph::Node& node, NodeSpace& space) {
    const graph::Parts parts = graph::parts_of(node);
    auto& operands = space.relation.operands;
    SmallVector<schema::Type, 4> inputs, outputs;
    for (size_t k = parts.own.inputs.size(); k < space.inputs.size(); ++k)
        inputs.push_back(space.inputs[k]);
    for (size_t k = parts.own.outputs.size(); k < space.outputs.size(); ++k)
        outputs.push_back(space.outputs[k]);
    schema::Relation map;
    const schema::OpRow& row = graph::program_row();
    row.relate({row, inputs, {}, node.compute}, outputs, map);
    const auto result = operands.back();
    for (auto& labels : map.operands)
        for (int8_t& l : labels)
            if (l >= 0) l = result[l];
    operands.pop_back();
    for (size_t k = 0; k < inputs.size(); ++k) operands.push_back(map.operands[k]);
    operands.push_back(result);
    for (size_t k = 0; k < outputs.size(); ++k) operands.push_back(map.operands[inputs.size() + k]);
}

NodeSpace space_of(const graph::Graph& graph, const graph::Node& node) {
    NodeSpace space;
    for (uint32_t v : node.inputs)
        space.inputs.push_back(v == no_value ? schema::Type{} : graph.type_of(v));
    for (uint32_t v : node.outputs) space.outputs.push_back(graph.type_of(v));
    if (node.row->relate)
        node.row->relate({*node.row, space.inputs, node.attrs, node.compute}, space.outputs,
                         space.relation);
    if (graph::parts_of(node).after) relate_epilogue(node, space);
    if (node.host_call >= 0) relate_axes(graph.hosts[node.host_call].axes, space);
    return space;
}

double flops_of(const graph::Node& node, const NodeSpace& space) {
    return space.relation.flops > 0 ? space.relation.flops : graph::flops_of(node);
}

uint32_t namesake_of(const graph::Graph& graph, const graph::Node& node, size_t output) {
    if (node.host_call >= 0)
        return output < graph.hosts[node.host_call].updated ? static_cast<uint32_t>(output)
                                                            : graph::no_value;
    if (node.program || output >= node.row->outputs.size()) return graph::no_value;
    const auto& inputs = node.row->inputs;
    const auto found = std::find_if(inputs.begin(), inputs.end(), [&](const schema::ArgRow& in) {
        return in.name == node.row->outputs[output].name;
    });
    return found == inputs.end() ? graph::no_value : static_cast<uint32_t>(found - inputs.begin());
}

int64_t lanes_of(int64_t output_tiles, int64_t parts) {
    // So many output tiles need no lanes to keep workers busy
    constexpr int64_t most_lanes = 4, enough_chains = 8;
    return std::clamp<int64_t>(enough_chains / output_tiles, 1, std::min(parts, most_lanes));
}

}  // namespace nntile::tile
