// SPDX-License-Identifier: BSD-3-Clause
#include "pipeline.hh"

#include <algorithm>
#include <cstdio>

#include "base/error.hh"
#include "base/settings.hh"
#include "graph/passes/passes.hh"
#include "graph/text.hh"
#include "tile/advice.hh"
#include "tile/cost.hh"

namespace nntile {

namespace {

// Of the values of another graph, by new numbers; empty where one has gone.
std::vector<tile::SavedCut> renumbered(std::vector<tile::SavedCut> cuts,
                                       std::span<const uint32_t> numbers) {
    for (tile::SavedCut& cut : cuts) cut.value = numbers[cut.value];
    const auto gone = [](const tile::SavedCut& cut) { return cut.value == graph::no_value; };
    return std::any_of(cuts.begin(), cuts.end(), gone) ? std::vector<tile::SavedCut>() : cuts;
}

// Cut as the graph is in unlimited memory: other cuts would have other last bits.
void recompute(Compiled& c, const tile::AxisCuts& cuts) {
    const int64_t most = tile::most_task_bytes();
    if (most > INT64_MAX / 2) return;  // no runtime has started
    const int64_t memory = most / 8 * 9;
    int64_t all = 0;
    for (const graph::Value& value : c.graph.values)
        if (value.kind == graph::ValueKind::input || value.kind == graph::ValueKind::result)
            all += product(value.sizes) * size_of(value.dtype);
    if (all <= memory) return;  // before anything is copied: nearly always
    graph::Graph again = c.graph;
    const std::vector<uint32_t> numbers = graph::recompute(again, memory);
    if (numbers.empty()) return;
    tile::SavedGraph same{{}, 0, renumbered(c.tiling.automatic, numbers)};
    if (same.cuts.size() != c.tiling.automatic.size()) return;
    c.graph = std::move(again);
    c.tiling = tile::choose_tiling(c.graph, cuts, false, &same);
    if (settings().print_passes)
        std::fputs(("recompute: " + graph::print(c.graph)).c_str(), stderr);
}

}  // namespace

void run_passes(graph::Graph& graph, const PassSeen& seen) {
    for (const graph::Pass& pass : graph::passes()) {
        pass.run(graph);
        if (seen) seen(pass.name, graph);
    }
}

std::string passes_text(graph::Graph graph) {
    std::string text = "recorded: " + graph::print(graph), last = text.substr(text.find(':'));
    run_passes(graph, [&](const char* name, const graph::Graph& now) {
        graph::verify(now);
        std::string own = ": " + graph::print(now);
        text += name + (own == last ? ": no change\n" : own);
        last = std::move(own);
    });
    return text;
}

std::shared_ptr<Compiled> compile(const graph::Graph& recorded, const tile::AxisCuts& cuts,
                                  const tile::SavedGraph* saved) {
    auto c = std::make_shared<Compiled>();
    c->graph = recorded;
    run_passes(c->graph);
    if (settings().print_passes) std::fputs(passes_text(recorded).c_str(), stderr);
    c->tiling = tile::choose_tiling(c->graph, cuts, false, saved);  // how every value is cut
    recompute(*c, cuts);
    tile::Lowered lowered = tile::lower(c->graph, c->tiling);  // tasks on tiles
    c->tiles = std::move(lowered.tiles);
    c->inputs = lowered.inputs;
    c->copies = lowered.copies;
    c->host_calls = lowered.host_calls;
    for (uint32_t v : lowered.outputs) {
        const graph::Value& value = c->graph.value(v);
        const tile::ValueTiling& tiling = c->tiling.values[v];
        c->outputs.push_back(
            {v, value.source, value.dtype, value.sizes, tiling.cuts, {}, tiling.hints});
        if (c->tiling.named) c->outputs.back().names = tiling.names;
    }
    c->plan = runtime::make_plan(c->tiles, lowered.inputs, lowered.outputs);
    if (!c->plan->can_run()) {  // "": of many small tiles, which take more than their bytes
        const std::string text =
            tile::advice(c->graph, cuts, c->tiling, c->tiles, tile::most_task_bytes()).text;
        if (!text.empty()) fail(Status::out_of_memory, "out of memory: ", text);
    }
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
