// SPDX-License-Identifier: BSD-3-Clause
// y[:, 1:3].mul_(2) is a product and a write of it into a part of y. Where y dies there, the
// product becomes the prologue of the write and can be computed in place. This is about memory, not
// about fusion: NNTILE_FUSE=0 leaves it.
#include "graph/passes/passes.hh"
#include "graph/passes/readers.hh"
#include "graph/passes/rewrite.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

// The node that makes what a write writes, if that may stand in the place of the write; no_value:
// none.
uint32_t maker_of(const Graph& g, const Readers& readers, uint32_t write) {
    const Node& node = g.nodes[write];
    if (node.row->rule != schema::Rule::write || node.program) return no_value;
    const uint32_t data = g.base_of(node.inputs[1]), base = node.inputs[0];
    if (readers.write_of(data) != write || !readers.dies_at(base, write)) return no_value;
    const uint32_t made_by = g.value(data).source;
    const Node& maker = g.nodes[made_by];
    if (maker.outputs.size() != 1 || !is_element_wise(g, maker)) return no_value;
    if (g.value(data).dtype != g.value(base).dtype) return no_value;
    const uint32_t both[] = {made_by, write};
    return readers.may_wait(both, Spoilt::by_writing) ? made_by : no_value;
}

}  // namespace

void fuse_writes(Graph& g) {
    const Readers readers(g);
    Rewriter rewriter(g);
    bool any = false;
    for (uint32_t n = 0; n < g.nodes.size(); ++n) {
        const uint32_t made_by = maker_of(g, readers, n);
        if (made_by == no_value) continue;
        const Node &write = g.nodes[n], &maker = g.nodes[made_by];
        const uint32_t data = maker.outputs[0];
        // The write may see it reshaped
        const auto part = viewed(target_of(g, write), g.value(data).sizes);
        if (!part) continue;
        Node fused{write.row,   write.compute,     -1,
                   maker.where, {write.inputs[0]}, {write.outputs[0], data},
                   write.attrs};
        fused.attrs[schema::attr_index(*write.row, "strides")].ints = part->strides;
        append_program(fused, code_of(g, maker));
        rewriter.erase(made_by);
        rewriter.replace(n, std::move(fused));
        any = true;
    }
    if (any) rewriter.finish();
}

}  // namespace nntile::graph
