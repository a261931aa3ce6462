// SPDX-License-Identifier: BSD-3-Clause
// The tasks of one node, as a function of its cuts and of the tiles that it works on.
#pragma once

#include <optional>

#include "graph/program.hh"
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
    std::vector<OperandTile> tiles;  // row-major over grid
    bool own = false;                // the value's own tiles, in their own order
    bool copied = false;             // dense copies that nothing else holds

    bool are_dense() const;  // each is one row-major block
};

// A node with a relation, as the cuts of its values divide it.
struct NodeView {
    using Cuts = std::vector<Cut>;

    // node: number `number`, or a program that it begins with.
    NodeView(const graph::Graph& graph, const Tiling& tiling, uint32_t number,
             const graph::Node& node);

    bool is_host() const { return node.host_call >= 0; }
    // Segments of the iteration space along all labels of a kind; at() sets those of one kind.
    int64_t count(schema::LabelKind kind) const;
    void at(schema::LabelKind kind, int64_t index, Dims& segments) const;
    // Of the first task for an output tile
    Dims segments_of_chain(int64_t number) const;
    const OperandTile& tile_at(const OperandTiles& tiles, size_t operand,
                               const Dims& segments) const;
    uint32_t value_of(size_t operand) const {
        return operand < n_in ? node.inputs[operand] : node.outputs[operand - n_in];
    }
    // In so many partial results each tile of an own output is added up.
    int64_t lanes() const;

    const graph::Graph& graph;
    const graph::Node& node;
    const uint32_t number;
    const NodeSpace space;
    const graph::Parts parts;  // own and after; a program before it is a node of its own here
    const bool epilogue;
    const size_t n_in, n_out;
    const size_t own_in, own_out;  // without those of an epilogue
    const kernels::KernelRow* kernel = nullptr;
    std::shared_ptr<const kernels::Program> program;
    Grid iteration;                              // refined dims; GridDim::dim is the label
    std::vector<Cuts> cuts;                      // by operand: how the node wants it cut
    SmallVector<SmallVector<int, 6>, 4> places;  // by operand and refined dim: iteration dim, or -1

private:
    void cut_labels(const Tiling& tiling);
    void place_operand(size_t k);
    Cuts label_cuts_;
};

// What the tasks of a node work on.
struct NodeTiles {
    std::vector<const OperandTiles*> inputs;  // nullptr: absent or a number
    std::vector<OperandTiles> outputs;
    std::vector<DType> dtypes;  // of the output tiles as the tasks write them
    // For each output tile, then each own output: the partial results but the first.
    std::vector<uint32_t> lanes;
    bool unread = false;  // nothing but its epilogue reads the result of a product
    bool placed = false;  // the one output is a part of tiles that others write too
};

// `tiles` are all that exist. nullopt: the kernel can not do with the strides of an operand, of
// which one is in `misfit`, if that is known.
std::optional<std::vector<Task>> lower_node(const NodeView& view, const NodeTiles& blocks,
                                            std::span<const Tile> tiles, uint32_t& misfit);

}  // namespace nntile::tile
