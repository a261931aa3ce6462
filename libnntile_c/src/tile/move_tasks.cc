// SPDX-License-Identifier: BSD-3-Clause
// Tasks of nodes without a relation: empty and bits; and of joins of partial results.
#include "base/error.hh"
#include "tile/lowering.hh"
#include "tile/program.hh"

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

void Lowering::finish_whole(uint32_t v, uint32_t tile, uint32_t node) {
    if (tiles_[v].size() > 1)
        copy_whole(grids_[v], tiles_[v], tile, graph_.value(v).dtype, false, node);
}

void Lowering::lower_bits(uint32_t number) {
    const graph::Node& node = graph_.nodes[number];
    const uint32_t from = dense_input(node.inputs[0]), to = whole_output(node.outputs[0]);
    const graph::Value& value = graph_.value(node.outputs[0]);
    // The same bytes on both sides, so a copy in the new dtype.
    add_copy(value.dtype, {from, 0, {1}}, value.dtype, {to, 0, {1}}, value.sizes, Access::write,
             number);
    finish_whole(node.outputs[0], to, number);
}

void Lowering::add_join(const schema::OpRow& op, const OperandTile& into, const OperandTile& from,
                        DType dtype, uint32_t node) {
    const int row = kernels::find_map(op.combine);
    check(row >= 0, Status::internal, op.name, ": no map row '", op.combine,
          "' joins partial results");
    Task task;
    task.kernel = kernels::find_kernel("map");
    task.program = one_instruction(row, dtype);
    task.node = node;
    const Tile& tile = out_.tiles.tiles[into.tile];
    task.sizes = {tile.bytes / size_of(dtype)};
    task.flops = static_cast<double>(task.sizes[0]);
    task.bytes = 3.0 * static_cast<double>(tile.bytes);
    for (auto [id, access] : {std::pair{into.tile, Access::read},
                              {from.tile, Access::read},
                              {into.tile, Access::write}}) {
        Operand o;
        o.tile = id;
        o.access = access;
        o.dtype = dtype;
        o.strides = {1};
        task.operands.push_back(std::move(o));
    }
    add_default_params(row, task.params);  // a + 1 * b
    push(std::move(task));
}

}  // namespace nntile::tile
