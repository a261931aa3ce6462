// SPDX-License-Identifier: BSD-3-Clause
// Tasks of writes into a part of other data. Where the data comes from a program, its tasks compute
// it in place if they can: y[:, 1:3].mul_(2) changes y, the gradients of a split are made where
// they are put together. So do the tasks of another op whose result lies in another order than its
// dims.
#include "graph/program.hh"
#include "tile/layouts.hh"
#include "tile/lowering.hh"

namespace nntile::tile {

static OperandTiles blocks_of(OperandTiles place, std::span<const uint32_t> tiles) {
    for (OperandTile& block : place.tiles) block.tile = tiles[block.tile];
    return place;
}

void Lowering::lower_write(uint32_t number) {
    const graph::Node& node = graph_.nodes[number];
    const bool program{graph::parts_of(node).before};
    if (program || maker_[number] != none) {
        const uint32_t maker = program ? number : maker_[number];
        const graph::Node made = program ? graph::prologue_of(node) : graph_.nodes[maker];
        if (const auto place = place_in_base(number, made)) {
            const auto& base = tiles_[node.inputs[0]];
            if (program || fits_place(maker, made, blocks_of(*place, base))) {
                take_base(number);
                const OperandTiles blocks = blocks_of(*place, tiles_[node.outputs[0]]);
                return add_tasks_of(maker, made, &blocks);
            }
        }
        add_tasks_of(maker, made);
    }
    const uint32_t base = node.inputs[0], data = graph::data_of(node), v = node.outputs[0];
    const Layout layout = graph::target_of(graph_, node);
    const DType dtype = graph_.value(v).dtype;
    const OperandTiles& old = operand(base, tiling_.values[v].cuts);
    if (old.own && dies_at(base, number) && graph_.base_of(data) != base) {
        take_base(number);
    } else {
        tiles_[v] = add_tiles(v, grids_[v], dtype, role_of(v));
        for (size_t i = 0; i < tiles_[v].size(); ++i) {
            const Dims sizes = grids_[v].sizes_of(grids_[v].segments_of(static_cast<int64_t>(i)));
            add_copy(dtype, old.tiles[i], dtype, {tiles_[v][i], 0, dense_strides(sizes)}, sizes,
                     Access::write);
        }
    }
    if (layout.numel() == 0) return;
    const OperandTiles& source = operand(data, tiling_.values[data].cuts);
    copy_pieces(grids_[v], tiles_[v], layout, source.grid, source.tiles, dtype,
                graph_.value(data).dtype, true);
}

uint32_t Lowering::write_of(uint32_t number) const {
    const graph::Node& node = graph_.nodes[number];
    const bool moves = only_moves(node.row->rule) || graph::is_element_wise(graph_, node);
    if (moves || node.host_call >= 0 || node.outputs.size() != 1 || is_output_[node.outputs[0]])
        return none;
    uint32_t next = number + 1;
    while (next < graph_.nodes.size() &&
           (!live_.nodes[next] || graph_.nodes[next].row->rule == schema::Rule::empty))
        ++next;
    if (next == graph_.nodes.size() || last_use_[node.outputs[0]] != next) return none;
    const graph::Node& write = graph_.nodes[next];
    if (write.row->rule != schema::Rule::write || graph::parts_of(write).before ||
        graph::data_of(write) != node.outputs[0] || maker_[next] != none)
        return none;
    for (uint32_t n = number + 1; n < next; ++n)
        if (live_.nodes[n] && graph_.nodes[n].outputs[0] == write.inputs[0]) return next;
    return none;
}

void Lowering::take_base(uint32_t number) {
    const uint32_t base = graph_.nodes[number].inputs[0], v = graph_.nodes[number].outputs[0];
    tiles_[v] = add_tiles(v, grids_[v], graph_.value(v).dtype, role_of(v));
    for (size_t i = 0; i < tiles_[v].size(); ++i)
        out_.tiles.tiles[tiles_[v][i]].reuses = tiles_[base][i];
}

std::optional<OperandTiles> Lowering::place_in_base(uint32_t number,
                                                    const graph::Node& made) const {
    const graph::Node& write = graph_.nodes[number];
    const uint32_t base = write.inputs[0], v = write.outputs[0], data = made.outputs[0];
    const Layout part = graph::target_of(graph_, write);
    const bool in_own_tiles =
        graph_.base_of(base) == base && cuts_of(base) == tiling_.values[v].cuts;
    if (!in_own_tiles || !dies_at(base, number)) return std::nullopt;
    if (graph_.value(data).dtype != graph_.value(v).dtype || part.numel() == 0 ||
        !is_injective(part))
        return std::nullopt;
    // It may read what it writes, element by element, or other elements
    for (uint32_t in : made.inputs) {
        if (in == graph::no_value || graph_.base_of(in) != base) continue;
        const Layout read = normal_layout(graph_.layout_of(in));
        if (read != normal_layout(part) && !never_meet(read, part)) return std::nullopt;
    }
    const Grid grid = grid_of(part.sizes, tiling_.values[data].cuts);
    const auto blocks = aligned_blocks(grids_[v], part, grid);
    if (!blocks) return std::nullopt;
    OperandTiles place{grid, {}, true};
    for (const AlignedBlock& b : *blocks) place.tiles.push_back({b.base_tile, b.offset, b.strides});
    return place;
}

}  // namespace nntile::tile
