// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.hh"

#include "graph/live.hh"

namespace nntile {

std::shared_ptr<Compiled> compile(const graph::Graph& recorded, const tile::AxisCuts& cuts,
                                  const tile::SavedGraph* saved) {
    auto c = std::make_shared<Compiled>();
    c->graph = recorded;
    graph::remove_dead(c->graph);
    c->graph.own_outputs();
    c->tiling = tile::choose_tiling(c->graph, cuts, false, saved);  // how every value is cut
    tile::Lowered lowered = tile::lower(c->graph, c->tiling);   // tasks on tiles
    c->tiles = std::move(lowered.tiles);
    c->inputs = lowered.inputs;
    c->copies = lowered.copies;
    c->host_calls = lowered.host_calls;
    for (uint32_t v : lowered.outputs) {
        const graph::Value& value = c->graph.value(v);
        const tile::ValueTiling& tiling = c->tiling.values[v];
        c->outputs.push_back({v, value.source, value.dtype, value.sizes, tiling.cuts, tiling.names,
                              tiling.hints});
    }
    c->plan = runtime::make_plan(c->tiles, lowered.inputs, lowered.outputs);
    return c;
}

std::shared_ptr<runtime::Storage> Compiled::Kept::storage() const {
    auto s = std::make_shared<runtime::Storage>();
    s->dtype = dtype;
    s->sizes = sizes;
    s->cuts = cuts;
    s->names = names;
    s->hints = hints;
    return s;
}

}  // namespace nntile
