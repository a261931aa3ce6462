// SPDX-License-Identifier: BSD-3-Clause
// y[:, 1:3].mul_(2) is a product and a write of it into a part of y. Where y dies there, the
// product becomes the prologue of the write and can be computed in place. This is about memory, not
// about fusion: NNTILE_FUSE=0 leaves it.
#include "graph/passes/fuse.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

// Where the write puts the result, which it may see reshaped.
std::optional<Layout> part_of(const Graph& g, const Group& group) {
    return viewed(target_of(g, g.nodes[group[1]]), g.value(g.nodes[group[0]].outputs[0]).sizes);
}

bool fits(Graph& g, Readers& readers, const Group& group) {
    const uint32_t data = g.nodes[group[0]].outputs[0], base = g.nodes[group[1]].inputs[0];
    return readers.write_of(data) == group[1] && readers.dies_at(base, group[1]) &&
           g.value(data).dtype == g.value(base).dtype && part_of(g, group);
}

void fuse(Graph& g, Readers&, const Group& group, Rewriter& rewriter) {
    const Node &maker = g.nodes[group[0]], &write = g.nodes[group[1]];
    Node fused{write.row,      write.compute,     -1,
               maker.recorded, {write.inputs[0]}, {write.outputs[0], maker.outputs[0]},
               write.attrs};
    fused.attrs[schema::attr_index(*write.row, "strides")].ints = part_of(g, group)->strides;
    append_program(fused, code_of(g, maker));
    rewriter.erase(group[0]);
    rewriter.replace(group[1], std::move(fused));
}

}  // namespace

extern const Fusion write_fusion{
    "fuse_writes",
    2,
    Spoilt::by_writing,
    false,
    [](const Graph&, const Node& node) {
        return node.row->rule == schema::Rule::write && !node.program;
    },
    [](const Graph& g, const Node& node) {
        return node.outputs.size() == 1 && is_element_wise(g, node);
    },
    fits,
    fuse,
};

}  // namespace nntile::graph
