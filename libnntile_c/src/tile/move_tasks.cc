// SPDX-License-Identifier: BSD-3-Clause
// Tasks of nodes without a relation: empty and bits.
#include <algorithm>

#include "base/error.hh"
#include "tile/layouts.hh"
#include "tile/lowering.hh"

namespace nntile::tile {

void Lowering::lower_empty(uint32_t number) {
    const uint32_t v = graph_.nodes[number].outputs[0];
    tiles_[v] = add_tiles(v, grids_[v], graph_.value(v).dtype, role_of(v));
}

uint32_t Lowering::dense_input(uint32_t v) {
    if (graph_.base_of(v) == v) return whole_tile(v);
    std::vector<Cut> uncut;
    for (int64_t n : graph_.value(v).sizes) uncut.push_back(whole(n));
    const OperandTile& tile = operand(v, uncut).tiles[0];
    const Layout own{graph_.value(v).sizes, tile.strides, tile.offset};
    return is_dense(own) ? tile.tile : operand(v, uncut, true).tiles[0].tile;
}

uint32_t Lowering::whole_output(uint32_t v) {
    const graph::Value& value = graph_.value(v);
    tiles_[v] = add_tiles(v, grids_[v], value.dtype, role_of(v));
    if (tiles_[v].size() == 1) return tiles_[v][0];
    return add_tiles(none, grid_of(value.sizes, {}), value.dtype, TileRole::temporary)[0];
}

void Lowering::finish_whole(uint32_t v, uint32_t tile) {
    if (tiles_[v].size() > 1) copy_whole(grids_[v], tiles_[v], tile, graph_.value(v).dtype, false);
}

// The same bytes on both sides, so copies in the new dtype: of the whole, or range by range.
void Lowering::lower_bits(uint32_t number) {
    const graph::Node& node = graph_.nodes[number];
    const uint32_t v = node.inputs[0], made = node.outputs[0];
    const DType dtype = graph_.value(made).dtype;
    const int64_t size = size_of(dtype), from_size = size_of(graph_.value(v).dtype);
    if (!is_dense(graph_.layout_of(v)) || grids_[made].tiles() == 1) {
        const uint32_t from = dense_input(v), to = whole_output(made);
        add_copy(dtype, {from, 0, {1}}, dtype, {to, 0, {1}}, graph_.value(made).sizes,
                 Access::write);
        finish_whole(made, to);
        return;
    }
    const Grid ranges = ranges_of_bits(v, made);
    Grid of_data = ranges;
    of_data.dims[0].extent = ranges.dims[0].extent * size / from_size;
    for (int64_t& start : of_data.dims[0].starts) start = start * size / from_size;
    const OperandTiles from = flat(v, of_data);
    tiles_[made] = add_tiles(made, grids_[made], dtype, role_of(made));
    const auto merged = tile::coalesce(grids_[made]).dims;
    const bool in_place = merged.size() == 1 && merged[0].starts == ranges.dims[0].starts;
    const auto ids = in_place ? tiles_[made] : add_tiles(none, ranges, dtype, TileRole::temporary);
    std::vector<OperandTile> to;
    for (size_t t = 0; t < ids.size(); ++t) {
        OperandTile block = from.tiles[t];
        block.offset = block.offset * from_size / size;
        to.push_back({ids[t], 0, {1}});
        add_copy(dtype, block, dtype, to.back(),
                 ranges.sizes_of(ranges.segments_of(static_cast<int64_t>(t))), Access::write);
    }
    if (!in_place)
        copy_pieces(grids_[made], tiles_[made], Layout::dense(graph_.value(made).sizes), ranges, to,
                    dtype, dtype, true);
}

// Ranges of the bytes of v, none of which ends within an element: the tiles of `bytes`, if they are
// that, else as many.
Grid Lowering::ranges_of_bits(uint32_t v, uint32_t bytes) const {
    const graph::Value& made = graph_.value(bytes);
    const int64_t from = size_of(graph_.value(v).dtype), to = size_of(made.dtype);
    const int64_t unit = std::max<int64_t>(from / to, 1);  // elements of the result
    const auto merged = tile::coalesce(grids_[bytes]).dims;
    Grid ranges;
    if (merged.size() == 1) ranges.dims = {merged[0]};
    else ranges.dims = {{made.sizes[0], 0, {}}};
    auto& starts = ranges.dims[0].starts;
    const bool apart =
        std::any_of(starts.begin(), starts.end(), [&](int64_t start) { return start % unit != 0; });
    if (!starts.empty() && !apart) return ranges;
    const int64_t units = made.sizes[0] / unit, count = std::min(grids_[bytes].tiles(), units);
    starts.clear();
    for (int64_t k = 0; k < count; ++k) starts.push_back(units * k / count * unit);
    return ranges;
}

OperandTiles Lowering::flat(uint32_t v, const Grid& ranges) {
    const uint32_t base = graph_.base_of(v);
    const DType dtype = graph_.value(v).dtype;
    const Layout layout{{ranges.dims[0].extent}, {1}, graph_.layout_of(v).offset};
    OperandTiles found{ranges, {}};
    const auto blocks = aligned_blocks(grids_[base], layout, ranges);
    const bool fits = blocks && std::all_of(blocks->begin(), blocks->end(),
                                            [&](const auto& b) { return b.strides == Dims{1}; });
    for (uint32_t t = 0; t < ranges.tiles(); ++t) {
        const Dims sizes = ranges.sizes_of(ranges.segments_of(t));
        if (fits) found.tiles.push_back({(*blocks)[t].base_tile, (*blocks)[t].offset, {1}});
        else found.tiles.push_back({add_tile(none, t, sizes, dtype, TileRole::temporary), 0, {1}});
    }
    if (fits)
        for (OperandTile& tile : found.tiles) tile.tile = tiles_[base][tile.tile];
    else copy_pieces(grids_[base], tiles_[base], layout, ranges, found.tiles, dtype, dtype, false);
    return found;
}

}  // namespace nntile::tile
