// SPDX-License-Identifier: BSD-3-Clause
// Which blocks of which base tiles make up the tiles of a view. Both sides are cut by grids of
// refined dims (tile/cut.hh), so factored cuts need no care here.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tile/access_map.hh"
#include "tile/cut.hh"

namespace nntile::tile {

// One strided block of one base tile that is also one strided block of one (dense) view tile.
// Entry a of dims, sizes and strides belongs to refined view dim dims[a]; a dim may have several.
struct Piece {
    uint32_t view_tile = 0;   // row-major in the view's grid
    uint32_t base_tile = 0;   // row-major in the base's grid
    int64_t view_offset = 0;  // elements into the view tile
    int64_t base_offset = 0;  // elements into the base tile
    SmallVector<uint8_t, 6> dims;
    Dims sizes;
    Dims view_strides;
    Dims base_strides;

    int64_t numel() const { return product(sizes); }
};

struct Pieces {
    std::vector<Piece> list;  // by view tile
    // The view cannot be served in blocks, or needs more than the limit: make the refined base dims
    // in `carry` whole (one gather) first.
    bool irregular = false;
    uint64_t carry = 0;

    std::span<const Piece> of_tile(uint32_t view_tile) const;
};

// A base whose whole dims are merged into the dim before them and whose size-1 dims are dropped:
// its tiles keep their bytes and their row-major numbers. Without it most flat views would carry.
struct Coalesced {
    Dims shape;
    SmallVector<GridDim, 4> dims;
    std::vector<uint32_t> lead;  // first original dim of each merged one
};
Coalesced coalesce(const Grid& grid);

// The same layout, over the refined dims of the view.
Layout refined_layout(const Layout& layout, const Grid& view);

// Reads every view tile; a write into the view is the same list with source and target exchanged.
// `layout` has the refined dims of the view. O(pieces * rank^2).
Pieces pieces(const Grid& base, const Layout& layout, const Grid& view, size_t limit = SIZE_MAX);

// What a write through the layout touches. Not for layouts that overlap themselves.
struct Touched {
    uint32_t base_tile;
    bool full;  // access W; else the tile keeps some elements: RW
};
struct Coverage {
    std::vector<Touched> tiles;  // by base tile
    bool irregular = false;
    uint64_t carry = 0;
};
Coverage coverage(const Grid& base, const Layout& layout);

// A view tile that is one block of one base tile, with one base stride per refined view dim (0 for
// broadcast and for size 1).
struct AlignedBlock {
    uint32_t base_tile = 0;
    int64_t offset = 0;
    Dims strides;
};

// From the pieces of one view tile with these refined sizes. nullopt: several pieces, or a refined
// dim that needs two strides ("folded"). An empty tile is a block of nothing.
std::optional<AlignedBlock> aligned_block(std::span<const Piece> of_tile,
                                          std::span<const int64_t> sizes);

// The blocks of all view tiles, row-major, if every one is aligned. Says the same as pieces() and
// aligned_block() but searches nothing: lowering asks this first, for every operand.
std::optional<std::vector<AlignedBlock>> aligned_blocks(const Grid& base, const Layout& layout,
                                                        const Grid& view);

}  // namespace nntile::tile
