// SPDX-License-Identifier: BSD-3-Clause
// Which blocks of which tiles a node reads: a view of aligned tiles is strided blocks in place;
// where cuts do not line up, the fewest copies make dense tiles.
#include "base/error.hh"
#include "tile/cost.hh"
#include "tile/layouts.hh"
#include "tile/lowering.hh"
#include "tile/task_parts.hh"

namespace nntile::tile {

bool OperandTiles::are_dense() const {
    for (size_t i = 0; i < tiles.size(); ++i)
        if (!is_dense(grid.sizes_of(grid.segments_of(static_cast<int64_t>(i))), tiles[i].strides,
                      0))
            return false;
    return true;
}

uint32_t Lowering::add_tile(uint32_t value, uint32_t index, std::span<const int64_t> sizes,
                            DType dtype, TileRole role) {
    Tile tile;
    tile.value = value;
    tile.index = index;
    // StarPU has no empty handles
    tile.bytes = std::max<int64_t>(product(sizes), 1) * size_of(dtype);
    tile.role = role;
    out_.tiles.tiles.push_back(tile);
    return static_cast<uint32_t>(out_.tiles.tiles.size() - 1);
}

uint32_t Lowering::add_temporary_like(uint32_t like) {
    Tile tile = out_.tiles.tiles[like];
    tile.value = none;
    tile.role = TileRole::temporary;
    out_.tiles.tiles.push_back(tile);
    return static_cast<uint32_t>(out_.tiles.tiles.size() - 1);
}

std::vector<uint32_t> Lowering::add_tiles(uint32_t value, const Grid& grid, DType dtype,
                                          TileRole role) {
    std::vector<uint32_t> ids;
    ids.reserve(static_cast<size_t>(grid.tiles()));
    for (int64_t i = 0; i < grid.tiles(); ++i)
        ids.push_back(add_tile(value, static_cast<uint32_t>(i), grid.sizes_of(grid.segments_of(i)),
                               dtype, role));
    return ids;
}

void Lowering::add_copy(DType from_dtype, const OperandTile& from, DType to_dtype,
                        const OperandTile& to, std::span<const int64_t> sizes, Access access) {
    Task task;
    task.kernel = copy_;
    task.sizes = Dims(sizes);
    Operand x, y;
    x.tile = from.tile;
    x.dtype = from_dtype;
    x.offset = from.offset;
    x.strides = from.strides;
    y.tile = to.tile;
    y.access = access;
    y.dtype = to_dtype;
    y.offset = to.offset;
    y.strides = to.strides;
    task.operands = {std::move(x), std::move(y)};
    task.node = node_;
    task.bytes = static_cast<double>(product(sizes) * (size_of(from_dtype) + size_of(to_dtype)));
    const Flags all(task.sizes.size(), true), no(task.sizes.size(), false);
    coalesce_task(task, all, no);
    ++out_.copies;
    if (!join_copy(task)) out_.tiles.tasks.push_back(std::move(task));
}

uint32_t Lowering::memory_of(uint32_t tile) const {
    while (out_.tiles.tiles[tile].reuses != none) tile = out_.tiles.tiles[tile].reuses;
    return tile;
}

// The places of the parts in a row of y: no two of them meet, and neither do two rows.
static bool are_apart(const Dims& sizes, const Dims& strides,
                      std::span<const std::pair<int64_t, int64_t>> parts) {
    const int64_t step = strides.back();
    int64_t end = 0;
    for (size_t k = 0; k < parts.size(); ++k) {
        const auto [columns, at] = parts[k];
        end = std::max(end, step == 1 ? at + columns : at + 1);
        for (size_t j = 0; j < k; ++j) {
            const auto [other, from] = parts[j];
            if (step == 1 ? at < from + other && from < at + columns
                          : at == from || columns != other)
                return false;
        }
    }
    Layout rows{sizes, strides, 0};
    if (step == 1) rows.sizes.back() = end;
    else {
        if (end > step) return false;
        rows.sizes.push_back(end);
        rows.strides.push_back(1);
    }
    return is_injective(rows);
}

// Of the tiles of a task, each operand by itself.
int64_t Lowering::parts_bytes(const Task& task) const {
    int64_t bytes = 0;
    for (const Operand& o : task.operands) bytes += out_.tiles.tiles[o.tile].bytes;
    return bytes;
}

bool Lowering::join_copy(const Task& copy) {
    constexpr size_t most = 8;
    constexpr int64_t long_row = 16'384;  // bytes: nothing to gain
    if (out_.tiles.tasks.empty()) return false;
    Task& last = out_.tiles.tasks.back();
    if (last.kernel != copy_ && last.kernel != copies_) return false;
    const Operand &x = copy.operands[0], &y = copy.operands[1], &with = last.operands.back();
    const size_t parts = last.operands.size() - 1, rank = copy.sizes.size();
    const auto line = [&](uint32_t node) {
        return node == none ? Place{} : out_.tiles.places[node];
    };
    if (parts == most || rank == 0 || rank != last.sizes.size() ||
        !(line(node_) == line(last.node)))
        return false;
    if (x.dtype != y.dtype || with.dtype != y.dtype || last.operands[0].dtype != y.dtype)
        return false;
    if (with.strides != y.strides || memory_of(with.tile) != memory_of(y.tile)) return false;
    if (memory_of(x.tile) == memory_of(y.tile) ||
        memory_of(last.operands[0].tile) == memory_of(y.tile))
        return false;
    // Columns that lie apart are turned if rows do not; the kernel of one copy finds the best two
    // dims.
    for (const Operand* own : {&x, static_cast<const Operand*>(last.operands.data())})
        if (own->strides.back() != 1 && (rank == 1 || own->strides[rank - 2] != 1)) return false;
    for (size_t d = 0; d + 1 < rank; ++d)
        if (last.sizes[d] != copy.sizes[d] || y.strides[d] < y.strides.back()) return false;
    const bool runs = y.strides.back() == 1;
    if (y.strides.back() < 1 || (runs && rank == 1)) return false;
    if (runs && std::max(copy.sizes.back(), last.sizes.back()) * size_of(y.dtype) > long_row)
        return false;
    std::vector<std::pair<int64_t, int64_t>> places;  // columns of each part, and where they begin
    const int64_t begin = std::min(with.offset, y.offset);
    if (last.kernel == copy_) places.emplace_back(last.sizes.back(), with.offset - begin);
    for (size_t k = 0; last.kernel == copies_ && k < parts; ++k)
        places.emplace_back(last.params[2 * k].fixed.i,
                            last.params[2 * k + 1].fixed.i + with.offset - begin);
    places.emplace_back(copy.sizes.back(), y.offset - begin);
    if (!are_apart(copy.sizes, y.strides, places)) return false;
    if (parts_bytes(last) + out_.tiles.tiles[x.tile].bytes > most_task_bytes()) return false;
    last.kernel = copies_;
    last.params.clear();
    for (const auto& [columns, at] : places)
        for (int64_t number : {columns, at}) last.params.emplace_back().fixed.i = number;
    last.sizes.back() = std::max(last.sizes.back(), copy.sizes.back());
    last.operands.back() = y;
    last.operands.back().offset = begin;
    last.operands.back().access = Access::read_write;
    last.operands.insert(last.operands.end() - 1, x);
    last.bytes += copy.bytes;
    return true;
}

void Lowering::copy_pieces(const Grid& base_grid, std::span<const uint32_t> base_tiles,
                           const Layout& layout, const Grid& view_grid,
                           std::span<const OperandTile> view_tiles, DType base_dtype,
                           DType view_dtype, bool into_base) {
    const Pieces found = tile_pieces(base_grid, layout, view_grid);
    if (found.irregular) {  // make the base whole, then every layout is regular
        int64_t numel = 1;
        for (const GridDim& d : base_grid.dims) numel *= d.extent;
        const Grid one{{{numel, 0, {0}}}};
        const auto all = add_tiles(none, one, base_dtype, TileRole::temporary);
        copy_whole(base_grid, base_tiles, all[0], base_dtype, true);
        copy_pieces(one, all, layout, view_grid, view_tiles, base_dtype, view_dtype, into_base);
        if (into_base) copy_whole(base_grid, base_tiles, all[0], base_dtype, false);
        return;
    }
    copy_list(found.list, base_tiles, view_grid, view_tiles, base_dtype, view_dtype, into_base);
}

void Lowering::copy_list(std::span<const Piece> pieces, std::span<const uint32_t> base_tiles,
                         const Grid& view_grid, std::span<const OperandTile> view_tiles,
                         DType base_dtype, DType view_dtype, bool into_base) {
    for (const Piece& p : pieces) {
        const OperandTile& own = view_tiles[p.view_tile];
        const Dims segments = view_grid.segments_of(p.view_tile);
        const Dims sizes = view_grid.sizes_of(segments);
        const Dims dense = dense_strides(sizes);
        // The piece speaks of a dense view tile; the real one may itself be a strided block.
        OperandTile view{own.tile, own.offset, {}};
        int64_t rest = p.view_offset;
        for (size_t d = 0; d < sizes.size(); ++d) {
            view.offset += rest / dense[d] * own.strides[d];
            rest %= dense[d];
        }
        for (size_t a = 0; a < p.dims.size(); ++a) {
            const size_t d = p.dims[a];
            view.strides.push_back(p.view_strides[a] / dense[d] * own.strides[d]);
        }
        const OperandTile base{base_tiles[p.base_tile], p.base_offset, p.base_strides};
        const OperandTile& to = into_base ? base : view;
        const int64_t covered = p.numel() * size_of(into_base ? base_dtype : view_dtype);
        const bool full = covered == out_.tiles.tiles[to.tile].bytes;
        add_copy(into_base ? view_dtype : base_dtype, into_base ? view : base,
                 into_base ? base_dtype : view_dtype, to, p.sizes,
                 full ? Access::write : Access::read_write);
    }
}

std::vector<OperandTile> dense_tiles(const Grid& grid, std::span<const uint32_t> ids) {
    std::vector<OperandTile> tiles;
    tiles.reserve(ids.size());
    for (size_t i = 0; i < ids.size(); ++i)
        tiles.push_back(
            {ids[i], 0, dense_strides(grid.sizes_of(grid.segments_of(static_cast<int64_t>(i))))});
    return tiles;
}

void Lowering::copy_whole(const Grid& grid, std::span<const uint32_t> tiles, uint32_t all,
                          DType dtype, bool into_whole) {
    Dims extents;
    for (const GridDim& d : grid.dims) extents.push_back(d.extent);
    const Dims strides = dense_strides(extents);
    for (size_t i = 0; i < tiles.size(); ++i) {
        const Dims segments = grid.segments_of(static_cast<int64_t>(i));
        const Dims sizes = grid.sizes_of(segments);
        OperandTile block{all, 0, strides};
        for (size_t d = 0; d < sizes.size(); ++d)
            block.offset += grid.dims[d].starts[segments[d]] * strides[d];
        const OperandTile own{tiles[i], 0, dense_strides(sizes)};
        const bool part = into_whole && tiles.size() > 1;
        add_copy(dtype, into_whole ? own : block, dtype, into_whole ? block : own, sizes,
                 part ? Access::read_write : Access::write);
    }
}

uint32_t Lowering::whole_tile(uint32_t base) {
    if (tiles_[base].size() == 1) return tiles_[base][0];
    auto [at, fresh] = whole_.try_emplace(base, none);
    if (fresh) {
        const graph::Value& value = graph_.value(base);
        at->second = add_tiles(none, grid_of(value.sizes, {}), value.dtype, TileRole::temporary)[0];
        copy_whole(grids_[base], tiles_[base], at->second, value.dtype, true);
    }
    return at->second;
}

// A view whose tiles are not all blocks in place: those that are stay where they are, unless the
// kernel wants dense ones; the others are put together.
OperandTiles Lowering::gather(uint32_t v, const Grid& grid, bool dense) {
    const uint32_t base = graph_.base_of(v);
    const graph::Value& value = graph_.value(base);
    const Layout layout = graph_.layout_of(v);
    if (layout.numel() == 0)
        return {grid, dense_tiles(grid, add_tiles(none, grid, value.dtype, TileRole::temporary))};
    const Grid *from_grid = &grids_[base], one{{{product(value.sizes), 0, {0}}}};
    std::vector<uint32_t> from = tiles_[base];
    Pieces found = tile_pieces(*from_grid, layout, grid);
    // One tile with all of the base makes every layout regular. It is also better where the view
    // needs all of it in one tile: one copy for each tile of the base, and later views need none.
    const bool scattered = grid.tiles() == 1 && found.list.size() > from.size() &&
                           layout.numel() >= product(value.sizes);
    if (found.irregular || scattered) {
        from_grid = &one;
        from = {whole_tile(base)};
        found = tile_pieces(one, layout, grid);
    }
    OperandTiles made{grid, {}};
    std::vector<Piece> moved;
    int64_t copies = 0;
    for (uint32_t t = 0; t < grid.tiles(); ++t) {
        const Dims sizes = grid.sizes_of(grid.segments_of(t));
        const auto of_tile = found.of_tile(t);
        if (auto block = dense ? std::nullopt : aligned_block(of_tile, sizes)) {
            made.tiles.push_back(
                {from[block->base_tile], block->offset, std::move(block->strides)});
            continue;
        }
        made.tiles.push_back(
            {add_tile(none, t, sizes, value.dtype, TileRole::temporary), 0, dense_strides(sizes)});
        ++copies;
        moved.insert(moved.end(), of_tile.begin(), of_tile.end());
    }
    copy_list(moved, from, grid, made.tiles, value.dtype, value.dtype, false);
    made.copied = copies == grid.tiles();
    return made;
}

const OperandTiles& Lowering::operand(uint32_t v, const Cuts& cuts, bool dense) {
    for (const auto& seen : seen_[v])
        if (seen->dense == dense && seen->cuts == cuts && !seen->given) return seen->tiles;
    seen_[v].push_back(std::make_unique<Seen>(Seen{cuts, dense, {}}));
    OperandTiles& result = seen_[v].back()->tiles;
    const uint32_t base = graph_.base_of(v);
    const Layout layout = graph_.layout_of(v);
    const Grid grid = grid_of(layout.sizes, cuts);
    if (v == base && cuts == cuts_of(v)) {
        result = {grid, dense_tiles(grid, tiles_[v]), true};
        return result;
    }
    if (!dense) {
        if (auto blocks = aligned_blocks(grids_[base], layout, grid)) {
            result.grid = grid;
            for (AlignedBlock& b : *blocks)
                result.tiles.push_back({tiles_[base][b.base_tile], b.offset, std::move(b.strides)});
            return result;
        }
        // Diagonals and overlapping windows of one whole tile need no copy, even where no cut lines
        // up.
        if (tiles_[base].size() == 1 && grid.tiles() == 1) {
            result = {grid, {{tiles_[base][0], layout.offset, layout.strides}}};
            return result;
        }
    }
    result = gather(v, grid, dense);
    return result;
}

void Lowering::spread(uint32_t v, const Grid& from, std::span<const OperandTile> tiles,
                      DType dtype) {
    const graph::Value& value = graph_.value(v);
    if (value.sizes.empty() || product(value.sizes) > 0)
        copy_pieces(grids_[v], tiles_[v], Layout::dense(value.sizes), from, tiles, value.dtype,
                    dtype, true);
}

}  // namespace nntile::tile
