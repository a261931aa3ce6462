// SPDX-License-Identifier: BSD-3-Clause
// The driver of lowering: inputs, then every live node in recording order.
#include "tile/lowering.hh"
#include "base/error.hh"
#include "base/settings.hh"
#include "tile/cost.hh"

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
    for (const graph::Output& o : graph.outputs) is_output_[o.value] = true;
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
    copy_pieces(old, from, Layout::dense(value.sizes), grids_[v], dense_tiles(grids_[v], tiles_[v]),
                value.dtype, value.dtype, false);
}

bool Lowering::is_unread(const NodeView& view, size_t output) const {
    const uint32_t v = view.node.outputs[output];
    return view.epilogue && output < view.own_out && !is_output_[v] && last_use_[v] == none;
}

void Lowering::bind_operand(const NodeView& view, size_t k, bool dense, NodeTiles& blocks) {
    const uint32_t v = view.node.inputs[k];
    if (v == no_value || graph_.value(v).kind == graph::ValueKind::scalar) return;
    blocks.inputs[k] = &operand(v, view.cuts[k], dense);
    // A kernel says whether it can do with the strides; a function of the host knows none.
    if (view.is_host() && !dense && !blocks.inputs[k]->are_dense())
        bind_operand(view, k, true, blocks);
}

// The value's own tiles where the cuts agree; else temporaries that are spread over them
// afterwards. Partial sums of short floats are kept in f32, but for a function of the host, which
// knows just the value's own dtype.
void Lowering::make_output(const NodeView& view, size_t k, NodeTiles& blocks) {
    const uint32_t v = view.node.outputs[k];
    const std::vector<Cut>& cuts = view.cuts[view.n_in + k];
    const graph::Value& value = graph_.value(v);
    const bool unread = is_unread(view, k),
               widen = k < view.own_out && is_short_float(value.dtype) && !view.is_host() &&
                       view.count(schema::LabelKind::reduce) > 1;
    const Grid grid = grid_of(value.sizes, cuts);
    const bool own = cuts == tiling_.values[v].cuts && !widen;
    const DType dtype = widen ? DType::f32 : value.dtype;
    const auto ids =
        add_tiles(own || unread ? v : none, grid, dtype, own ? role_of(v) : TileRole::temporary);
    if (own) tiles_[v] = ids;
    else if (!unread) tiles_[v] = add_tiles(v, grids_[v], value.dtype, role_of(v));
    blocks.outputs.push_back({grid, dense_tiles(grid, ids), own});
    // Copies for a kernel that writes over them are its own: they may not fit a task twice.
    const uint32_t namesake = own ? no_value : namesake_of(graph_, view.node, k);
    if (namesake < view.n_in && blocks.inputs[namesake] && blocks.inputs[namesake]->copied)
        for (const auto& seen : seen_[view.node.inputs[namesake]])
            seen->given |= &seen->tiles == blocks.inputs[namesake];
    blocks.dtypes.push_back(dtype);
}

NodeTiles Lowering::bind_operands(const NodeView& view, const OperandTiles* place) {
    NodeTiles blocks;
    blocks.inputs.resize(view.n_in);
    for (size_t k = 0; k < view.n_in; ++k) bind_operand(view, k, false, blocks);
    if (place) {
        blocks.outputs.push_back(*place);
        blocks.dtypes.push_back(graph_.value(view.node.outputs[0]).dtype);
        blocks.placed = true;
        return blocks;
    }
    for (size_t k = 0; k < view.n_out; ++k) make_output(view, k, blocks);
    blocks.unread = is_unread(view, 0);
    return blocks;
}

// The first partial result of an output tile is that tile, each further one a tile of its own.
void Lowering::add_lanes(const NodeView& view, NodeTiles& blocks) {
    for (int64_t p = 0; view.lanes() > 1 && p < view.count(schema::LabelKind::parallel); ++p) {
        const Dims segments = view.segments_of_chain(p);
        for (size_t k = 0; k < view.own_out; ++k) {
            const uint32_t like = view.tile_at(blocks.outputs[k], view.n_in + k, segments).tile;
            for (int64_t lane = 1; lane < view.lanes(); ++lane)
                blocks.lanes.push_back(add_temporary_like(like));
        }
    }
}

void Lowering::add_tasks_of(uint32_t number, const graph::Node& node, const OperandTiles* place) {
    const NodeView view(graph_, tiling_, number, node);
    NodeTiles blocks = bind_operands(view, place);
    add_lanes(view, blocks);
    uint32_t misfit = none;
    std::optional<std::vector<Task>> tasks = lower_node(view, blocks, out_.tiles.tiles, misfit);
    // Only what has to be: a copy of an expanded operand, as of a layer's weight for each image,
    // may be much larger than what it is a view of.
    const auto make_dense = [&](size_t k) {
        bind_operand(view, k, true, blocks);
        tasks = lower_node(view, blocks, out_.tiles.tiles, misfit);
    };
    for (size_t times = 0; !tasks && misfit != none && times < view.own_in; ++times)
        make_dense(misfit);
    for (size_t k = 0; !tasks && k < view.own_in; ++k) make_dense(k);
    check(tasks.has_value(), Status::internal, node.row->name,
          ": dense operands do not fit the kernel");
    std::move(tasks->begin(), tasks->end(), std::back_inserter(out_.tiles.tasks));
    for (size_t k = 0; k < view.n_out; ++k)
        if (!blocks.outputs[k].own && !is_unread(view, k))
            spread(node.outputs[k], blocks.outputs[k].grid, blocks.outputs[k].tiles,
                   blocks.dtypes[k]);
}

// Whatever dims merge there. A sum of parts may need more digits on the way than the result has.
bool Lowering::fits_place(uint32_t number, const graph::Node& node, const OperandTiles& place) {
    const NodeView view(graph_, tiling_, number, node);
    if (view.count(schema::LabelKind::reduce) != 1 || node.row->rule == schema::Rule::contract ||
        view.cuts[view.n_in] != tiling_.values[node.outputs[0]].cuts)  // the place's
        return false;
    const NodeTiles blocks = bind_operands(view, &place);  // may make tiles: before their list
    uint32_t misfit;
    return lower_node(view, blocks, out_.tiles.tiles, misfit).has_value();
}

Lowered Lowering::run() {
    out_.tiles.op_names.reserve(graph_.nodes.size());
    out_.tiles.places.reserve(graph_.nodes.size());
    out_.tiles.recorded.reserve(graph_.nodes.size());
    out_.tiles.tasks.reserve(graph_.nodes.size());  // where nothing is cut
    out_.tiles.tiles.reserve(graph_.values.size());
    for (const graph::Node& node : graph_.nodes) {
        out_.tiles.op_names.push_back(graph::name_of(graph_, node));
        out_.tiles.places.push_back(node.recorded == no_value ? 0 : graph_.places[node.recorded]);
        out_.tiles.recorded.push_back(node.recorded);
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
                else add_tasks_of(node_, graph_.nodes[node_]);
        }
    }
    for (const Task& task : out_.tiles.tasks)  // with axes it is a kernel
        out_.host_calls += task.host_call >= 0 && !graph_.hosts[task.host_call].ranges;
    reuse_memory(graph_, out_.tiles);
    if (settings().fuse && !has_gpus()) join_reductions(out_.tiles);
    return std::move(out_);
}

Lowered lower(const graph::Graph& graph, const Tiling& tiling) {
    return Lowering(graph, tiling).run();
}

}  // namespace nntile::tile
