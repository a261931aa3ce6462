// SPDX-License-Identifier: BSD-3-Clause
// The driver of lowering: inputs, then every live node in recording order.
#include "tile/lowering.hh"
#include "base/error.hh"

namespace nntile::tile {

using graph::no_value;

Lowering::Lowering(const graph::Graph& graph, const Tiling& tiling)
    : graph_(graph),
      tiling_(tiling),
      live_(live_of(graph)),
      own_cuts_(graph.values.size()),
      grids_(graph.values.size()),
      tiles_(graph.values.size()),
      last_use_(graph.values.size(), none),
      is_output_(graph.values.size()),
      overwritable_(graph.values.size()),
      successor_(graph.values.size(), no_value),
      seen_(graph.values.size()),
      copy_(kernels::find_kernel("copy")),
      copies_(kernels::find_kernel("copies")),
      maker_(graph.nodes.size(), none) {
    for (uint32_t v = 0; v < graph.values.size(); ++v) own_cuts_[v] = tiling.values[v].cuts;
    for (const graph::Input& in : graph.inputs) {
        if (!in.stored || !tiling.values[in.value].as_stored) continue;
        for (size_t d = 0; d < in.stored->cuts.size(); ++d)
            own_cuts_[in.value][d] = normal(in.stored->cuts[d]);
        for (size_t d = in.stored->cuts.size(); d < own_cuts_[in.value].size(); ++d)
            own_cuts_[in.value][d] = whole(graph.value(in.value).sizes[d]);
    }
    for (uint32_t v = 0; v < graph.values.size(); ++v)
        if (live_.values[v]) grids_[v] = grid_of(graph.value(v).sizes, own_cuts_[v]);
    for (uint32_t n = 0; n < graph.nodes.size(); ++n)
        for (uint32_t v : graph.nodes[n].inputs)
            if (live_.nodes[n] && v != no_value) last_use_[graph.base_of(v)] = n;
    for (const graph::Output& o : graph.outputs) {
        is_output_[o.value] = true;
        if (o.input != no_value) successor_[graph.inputs[o.input].value] = o.value;
    }
    for (const graph::Input& in : graph.inputs) overwritable_[in.value] = in.overwritable;
}

bool Lowering::dies_at(uint32_t v, uint32_t number) const {
    const graph::ValueKind kind = graph_.value(v).kind;
    if (kind != graph::ValueKind::result && !(kind == graph::ValueKind::input && overwritable_[v]))
        return false;
    return !is_output_[v] && last_use_[v] == number;
}

void Lowering::bind_input(const graph::Input& input) {
    const uint32_t v = input.value;
    const graph::Value& value = graph_.value(v);
    std::vector<Cut> stored;
    if (input.stored)
        for (const Cut& c : input.stored->cuts) stored.push_back(normal(c));
    out_.inputs.push_back(v);
    if (!input.stored || stored == cuts_of(v) || (stored.empty() && grids_[v].tiles() == 1)) {
        tiles_[v] = add_tiles(v, grids_[v], value.dtype, TileRole::input);
        return;
    }
    // Stored under other cuts: retile once; the new tiles stay with the data unless it is about to
    // be overwritten.
    const Grid old = grid_of(value.sizes, stored);
    const auto from = add_tiles(v, old, value.dtype, TileRole::input);
    tiles_[v] = add_tiles(v, grids_[v], value.dtype,
                          overwritable_[v] ? TileRole::temporary : TileRole::output);
    std::vector<OperandTile> to;
    for (size_t i = 0; i < tiles_[v].size(); ++i)
        to.push_back(
            {tiles_[v][i], 0,
             dense_strides(grids_[v].sizes_of(grids_[v].segments_of(static_cast<int64_t>(i))))});
    copy_pieces(old, from, Layout::dense(value.sizes), grids_[v], to, value.dtype, value.dtype,
                false, none);
}

Lowered Lowering::run() {
    out_.tiles.op_names.reserve(graph_.nodes.size());
    out_.tiles.where.reserve(graph_.nodes.size());
    out_.tiles.recorded.reserve(graph_.nodes.size());
    out_.tiles.tasks.reserve(graph_.nodes.size());  // where nothing is cut
    out_.tiles.tiles.reserve(graph_.values.size());
    for (const graph::Node& node : graph_.nodes) {
        out_.tiles.op_names.push_back(graph::name_of(graph_, node));
        out_.tiles.where.push_back(node.where == no_value ? 0 : graph_.where[node.where]);
        out_.tiles.recorded.push_back(node.where);
    }
    for (const graph::Output& o : graph_.outputs)
        if (std::find(out_.outputs.begin(), out_.outputs.end(), o.value) == out_.outputs.end())
            out_.outputs.push_back(o.value);
    for (const graph::Input& in : graph_.inputs) {
        if (!live_.values[in.value]) continue;
        bind_input(in);
        const Tile& first = out_.tiles.tiles[tiles_[in.value][0]];
        if (first.role == TileRole::output) out_.outputs.push_back(in.value);
    }
    for (node_ = 0; node_ < graph_.nodes.size(); ++node_) {
        if (!live_.nodes[node_]) continue;
        switch (graph_.nodes[node_].row->rule) {
            case schema::Rule::empty: lower_empty(node_); break;
            case schema::Rule::write: lower_write(node_); break;
            case schema::Rule::bits: lower_bits(node_); break;
            default:
                if (const uint32_t write = write_of(node_); write != none) maker_[write] = node_;
                else lower_node(node_, graph_.nodes[node_]);
        }
    }
    mark_updates();
    return std::move(out_);
}

void Lowering::mark_updates() {
    const std::vector<uint32_t> memory = out_.tiles.memories();
    for (const graph::Output& o : graph_.outputs) {
        if (o.input == no_value) continue;
        for (uint32_t t : tiles_[o.value])
            out_.tiles.tiles[t].updates =
                out_.tiles.tiles[memory[t]].value == graph_.inputs[o.input].value;
    }
}

Lowered lower(const graph::Graph& graph, const Tiling& tiling) {
    return Lowering(graph, tiling).run();
}

}  // namespace nntile::tile
