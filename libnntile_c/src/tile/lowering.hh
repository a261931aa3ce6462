// SPDX-License-Identifier: BSD-3-Clause
// The state of one lowering; inside of tile/ only. operands.cc finds the blocks that a node reads,
// node_tasks.cc makes the tasks of a node with a relation, move_tasks.cc those of moves, write_through.cc
// says which of those need none, lower.cc drives.
#pragma once

#include <map>
#include <optional>

#include "tile/cuts.hh"
#include "tile/lower.hh"
#include "tile/relation.hh"

namespace nntile::tile {

// One tile of an operand, as the kernel will see it: strides over the operand's refined dims.
struct OperandTile {
    uint32_t tile = none;
    int64_t offset = 0;
    Dims strides;
};
// An operand cut as a node wants it.
struct OperandTiles {
    Grid grid;
    std::vector<OperandTile> tiles;     // row-major over grid
    bool own = false;                   // the value's own tiles, in their own order: may be reused in place

    bool are_dense() const;             // each is one row-major block
};

class NodeTasks;

class Lowering {
public:
    Lowering(const graph::Graph& graph, const Tiling& tiling);
    Lowered run();

private:
    friend class NodeTasks;
    using Cuts = std::vector<Cut>;

    // ---- tiles of values
    uint32_t add_tile(uint32_t value, uint32_t index, std::span<const int64_t> sizes, DType dtype, TileRole role);
    std::vector<uint32_t> add_tiles(uint32_t value, const Grid& grid, DType dtype, TileRole role);
    void bind_input(const graph::Input& input);
    // How the tiles of a value are, which for stored data need not be how tasks want it.
    const Cuts& cuts_of(uint32_t value) const { return own_cuts_[value]; }
    TileRole role_of(uint32_t value) const { return is_output_[value] ? TileRole::output : TileRole::temporary; }

    // ---- operands.cc
    const OperandTiles& operand(uint32_t value, const Cuts& cuts, bool dense = false);
    OperandTiles gather(uint32_t value, const Grid& grid, bool dense);
    uint32_t whole_tile(uint32_t base);     // one dense tile with all of a value
    // Tiles of a grid to or from one dense tile with all of their value.
    void copy_whole(const Grid& grid, std::span<const uint32_t> tiles, uint32_t all, DType dtype, bool into_whole,
                    uint32_t node);
    // Pieces of one value go to or come from dense tiles of a view of it.
    void copy_pieces(const Grid& base_grid, std::span<const uint32_t> base_tiles, const Layout& layout,
                     const Grid& view_grid, std::span<const OperandTile> view_tiles, DType base_dtype, DType view_dtype,
                     bool into_base, uint32_t node);
    void copy_list(std::span<const Piece> pieces, std::span<const uint32_t> base_tiles, const Grid& view_grid,
                   std::span<const OperandTile> view_tiles, DType base_dtype, DType view_dtype, bool into_base,
                   uint32_t node);
    void add_copy(DType from_dtype, const OperandTile& from, DType to_dtype, const OperandTile& to,
                  std::span<const int64_t> sizes, Access access, uint32_t node);

    // ---- node_tasks.cc
    void lower_node(uint32_t number);

    // ---- move_tasks.cc
    // into = into joined with from, two partial results of an op.
    void add_join(const schema::OpRow& op, const OperandTile& into, const OperandTile& from, DType dtype,
                  uint32_t node);
    void lower_empty(uint32_t number);
    void lower_write(uint32_t number);
    void lower_bits(uint32_t number);
    uint32_t dense_input(uint32_t value);   // a tile with nothing but the value, row-major
    // One dense tile for a result that an op makes whole; finish_whole() spreads it if the value is cut.
    uint32_t whole_output(uint32_t value);
    void finish_whole(uint32_t value, uint32_t tile, uint32_t node);
    // Dense tiles of another grid to the value's own tiles.
    void spread(uint32_t value, const Grid& from, std::span<const OperandTile> tiles, DType dtype, uint32_t node);
    // The value's data may be overwritten after node `number`: nobody reads it later.
    bool dies_at(uint32_t value, uint32_t number) const;

    // ---- write_through.cc
    // Live nodes in the order in which they are lowered: that of the recording, but an element-wise node whose result
    // only goes into a part of other data comes just before that write, so that it can write there itself.
    std::vector<uint32_t> order() const;
    // The node may come as late as `write`: others copy no data for it, and no more memory is kept, or not for long.
    bool may_wait(uint32_t number, uint32_t write, std::span<const uint32_t> last_use) const;
    bool writes_part(uint32_t write, uint32_t data) const;
    // The blocks that a node may write instead of tiles of its result, which the next node only puts into a part of
    // data that nobody else needs: y[:, 1:3].mul_(2) changes y in place. nullopt: it has to make its result.
    std::optional<OperandTiles> write_through(uint32_t number, const Cuts& cuts);

    void push(Task task);

    const graph::Graph& graph_;
    const Tiling& tiling_;
    graph::Live live_;
    std::vector<uint32_t> order_;       // of nodes
    size_t at_ = 0;                     // in order_
    std::vector<Cuts> own_cuts_;        // by value
    std::vector<Grid> grids_;           // by value; of views too
    std::vector<std::vector<uint32_t>> tiles_;  // by value; empty until it is made
    std::vector<uint32_t> last_use_;    // by base value: last live node that reads it
    std::vector<bool> is_output_, overwritable_;
    struct Seen {                       // an operand as some node has wanted it
        Cuts cuts;
        bool dense;
        OperandTiles tiles;
    };
    std::vector<std::vector<std::unique_ptr<Seen>>> seen_;  // by value; few ways each
    std::map<uint32_t, uint32_t> whole_;
    const kernels::KernelRow* copy_;
    uint32_t node_ = none;              // being lowered; tasks carry it; none: stored data is retiled
    Lowered out_;
};

// Merges neighbouring dims of a task where every operand allows it, and drops dims of size 1.
// may_merge[i]: dim i may join dim i + 1; keep[i]: dim i stays alone, even if its size is 1. Gives the first of
// the old dims of every dim that is left.
using Flags = SmallVector<bool, 8>;
SmallVector<size_t, 8> coalesce_task(Task& task, const Flags& may_merge, const Flags& keep);

}  // namespace nntile::tile
