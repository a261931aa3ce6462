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

}  // namespace nntile::tile
