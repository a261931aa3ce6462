// SPDX-License-Identifier: BSD-3-Clause
// The state of one lowering; inside of tile/ only. operands.cc finds the blocks that a node reads,
// write_tasks.cc makes the tasks of writes, move_tasks.cc those of other moves, lowering.cc drives.
#pragma once

#include <map>

#include "tile/cuts.hh"
#include "tile/lower.hh"
#include "tile/node_tasks.hh"

namespace nntile::tile {

class Lowering {
public:
    Lowering(const graph::Graph& graph, const Tiling& tiling);
    Lowered run();

private:
    using Cuts = std::vector<Cut>;

    // ---- tiles of values
    uint32_t add_tile(uint32_t value, uint32_t index, std::span<const int64_t> sizes, DType dtype,
                      TileRole role);
    uint32_t add_temporary_like(uint32_t tile);
    std::vector<uint32_t> add_tiles(uint32_t value, const Grid& grid, DType dtype, TileRole role);
    void bind_input(const graph::Input& input);
    // How the tiles of a value are, which for stored data need not be how tasks want it.
    const Cuts& cuts_of(uint32_t value) const { return own_cuts_[value]; }
    TileRole role_of(uint32_t value) const {
        return is_output_[value] ? TileRole::output : TileRole::temporary;
    }

    // ---- operands.cc
    const OperandTiles& operand(uint32_t value, const Cuts& cuts, bool dense = false);
    OperandTiles gather(uint32_t value, const Grid& grid, bool dense);
    uint32_t whole_tile(uint32_t base);  // one dense tile with all of a value
    // Tiles of a grid to or from one dense tile with all of their value.
    void copy_whole(const Grid& grid, std::span<const uint32_t> tiles, uint32_t all, DType dtype,
                    bool into_whole);
    // Pieces of one value go to or come from dense tiles of a view of it.
    void copy_pieces(const Grid& base_grid, std::span<const uint32_t> base_tiles,
                     const Layout& layout, const Grid& view_grid,
                     std::span<const OperandTile> view_tiles, DType base_dtype, DType view_dtype,
                     bool into_base);
    void copy_list(std::span<const Piece> pieces, std::span<const uint32_t> base_tiles,
                   const Grid& view_grid, std::span<const OperandTile> view_tiles, DType base_dtype,
                   DType view_dtype, bool into_base);
    void add_copy(DType from_dtype, const OperandTile& from, DType to_dtype, const OperandTile& to,
                  std::span<const int64_t> sizes, Access access);
    // Makes a copy a part of the last task, which copies into other parts of the same rows. False:
    // it is none of it.
    bool join_copy(const Task& copy);
    int64_t parts_bytes(const Task& task) const;
    uint32_t memory_of(uint32_t tile) const;

    // ---- nodes with a relation
    // node: number `number`, or the program that it begins with. place: where its one result goes
    // instead of tiles of its own.
    void add_tasks_of(uint32_t number, const graph::Node& node,
                      const OperandTiles* place = nullptr);
    // Whether the node's tasks can make their result there.
    bool fits_place(uint32_t number, const graph::Node& node, const OperandTiles& place);
    NodeTiles bind_operands(const NodeView& view, const OperandTiles* place);
    void bind_operand(const NodeView& view, size_t k, bool dense, NodeTiles& blocks);
    void make_output(const NodeView& view, size_t k, NodeTiles& blocks);
    void add_lanes(const NodeView& view, NodeTiles& blocks);
    // The result of a product that nothing but its epilogue reads.
    bool is_unread(const NodeView& view, size_t output) const;

    // ---- move_tasks.cc
    void lower_empty(uint32_t number);
    void lower_bits(uint32_t number);
    Grid ranges_of_bits(uint32_t value, uint32_t bytes) const;
    OperandTiles flat(uint32_t value, const Grid& ranges);  // of one dim
    uint32_t dense_input(uint32_t value);  // a tile with nothing but the value, row-major
    // One dense tile for a result that an op makes whole; finish_whole() spreads it if the value is
    // cut.
    uint32_t whole_output(uint32_t value);
    void finish_whole(uint32_t value, uint32_t tile);
    // Dense tiles of another grid to the value's own tiles.
    void spread(uint32_t value, const Grid& from, std::span<const OperandTile> tiles, DType dtype);
    // The value's data may be overwritten after node `number`: nobody reads it later.
    bool dies_at(uint32_t value, uint32_t number) const;

    // ---- write_tasks.cc
    void lower_write(uint32_t number);
    // The write that is all that becomes of the node's one result: of data that is new, with
    // nothing else in between. Then the node is lowered with it. none: there is none.
    uint32_t write_of(uint32_t number) const;
    // The blocks of the base that the maker of the data of write `number` may write instead of
    // tiles of its result; they are the base's. nullopt: it has to make that.
    std::optional<OperandTiles> place_in_base(uint32_t number, const graph::Node& made) const;
    // Tiles of the result of write `number` in the memory of the base's.
    void take_base(uint32_t number);

    const graph::Graph& graph_;
    const Tiling& tiling_;
    graph::Live live_;
    std::vector<Cuts> own_cuts_;                // by value
    std::vector<Grid> grids_;                   // by value; of views too
    std::vector<std::vector<uint32_t>> tiles_;  // by value; empty until it is made
    std::vector<uint32_t> last_use_;            // by base value: last live node that reads it
    std::vector<bool> is_output_, overwritable_;
    struct Seen {  // an operand as some node has wanted it
        Cuts cuts;
        bool dense;
        OperandTiles tiles;
        bool given = false;  // overwritten: the next node makes its own
    };
    std::vector<std::vector<std::unique_ptr<Seen>>> seen_;  // by value; few ways each
    std::map<uint32_t, uint32_t> whole_;
    const kernels::KernelRow *copy_, *copies_;
    std::vector<uint32_t> maker_;  // by write: the node that is lowered with it, or none
    uint32_t node_ = none;         // being lowered; tasks carry it; none: stored data is retiled
    Lowered out_;
};

std::vector<OperandTile> dense_tiles(const Grid& grid, std::span<const uint32_t> ids);

}  // namespace nntile::tile
