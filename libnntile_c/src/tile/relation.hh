// SPDX-License-Identifier: BSD-3-Clause
// The iteration space of one node, as its row states it.
#pragma once

#include "graph/live.hh"

namespace nntile::tile {

struct NodeSpace {
    SmallVector<schema::Type, 4> inputs, outputs;
    schema::Relation relation;

    const SmallVector<int8_t, 8>& labels_of(size_t operand) const {
        return relation.operands[operand];
    }
};

// Of a point of its iteration space, for the cost module; without an epilogue.
double flops_of(const graph::Node& node, const NodeSpace& space);
NodeSpace space_of(const graph::Graph& graph, const graph::Node& node);
// The operand whose memory a kernel may write this result into while it reads it: its namesake, and
// what a function of the host updates. no_value: there is none, or any (of programs).
uint32_t namesake_of(const graph::Graph& graph, const graph::Node& node, size_t output);
// In so many partial results, joined at the end, `parts` of a sum are added up, where a node has so
// many output tiles.
int64_t lanes_of(int64_t output_tiles, int64_t parts);

}  // namespace nntile::tile
