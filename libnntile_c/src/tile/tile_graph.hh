// SPDX-License-Identifier: BSD-3-Clause
// The lowered graph: tiles and the tasks on them, in an order that respects all dependencies.
// Made by tile/lowering.cc, printed by tile/print.cc, turned into a plan by runtime/plan.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/place.hh"
#include "kernels/kernel.hh"

namespace nntile::tile {

inline constexpr uint32_t none = 0xffffffff;

enum class Access : uint8_t { read = 1, write = 2, read_write = 3 };

// One dense piece of a value. `value` and `index` say which; temporaries made by lowering (retiles,
// partial sums) have value == none.
enum class TileRole : uint8_t {
    temporary,  // lives within one run
    input,      // a tile of a stored value; exists before the run
    output,     // created by the run and kept after it
};
struct Tile {
    uint32_t value = none;  // graph value id
    uint32_t index = 0;     // row-major in the value's grid
    int64_t bytes = 0;
    TileRole role = TileRole::temporary;
    // An output or temporary that overwrites another tile in place: all earlier uses of `reuses`
    // are over when this tile is first written (tasks are in such an order). The plan gives both
    // the same memory.
    uint32_t reuses = none;
    // An output in the memory of the input whose place it takes, which a failed task leaves
    bool updates = false;
};

struct Operand {
    uint32_t tile = none;  // none: optional operand absent, or a scalar operand
    Access access = Access::read;
    DType dtype = DType::none;
    int64_t offset = 0;  // elements into the tile
    Dims strides;        // one per iteration dim of the task
    // A number: index into the run's scalars, read as one element of dtype f64 or i64; all strides
    // are 0.
    uint32_t scalar = none;
};

// A parameter is either fixed by the structure or read from the run's scalars at launch.
struct ParamRef {
    kernels::Param fixed{};  // unless it is a scalar
    uint32_t scalar = none;  // index into the graph's scalars
    bool is_fixed() const { return scalar == none; }
};

struct Task {
    const kernels::KernelRow* kernel = nullptr;
    Dims sizes;                     // iteration space
    std::vector<Operand> operands;  // inputs, then outputs
    std::vector<ParamRef> params;
    std::shared_ptr<const kernels::Program> program;  // map
    // Host function: index of the run's host call; kernel == nullptr then, sizes are the rows of
    // its part of the batch, or its part of each axis, which begins at index_offset; params[0] says
    // whether it adds to its outputs.
    int32_t host_call = -1;
    bool effect = false;  // others wait for it: a function of the host that runs for its effect
    int64_t index_offset = 0;
    Dims index_strides;
    uint32_t node = none;  // graph node it comes from, for messages
    double flops = 0, bytes = 0;
};

struct TileGraph {
    std::vector<Tile> tiles;
    std::vector<Task> tasks;
    std::vector<std::string> op_names;  // by graph node: "gelu", for messages and traces
    std::vector<Place> places;          // by graph node: user's line
    std::vector<uint32_t> recorded;     // by graph node: the one that was recorded; empty: itself

    // By tile: the first tile of its chain of `reuses`; tiles of one chain live in the same memory.
    std::vector<uint32_t> memories() const;

    // Edges (from, to) that follow from the order of the tasks and their accesses, transitively
    // reduced as far as one pass over the tasks can; from < to.
    std::vector<std::pair<uint32_t, uint32_t>> edges() const;
};

}  // namespace nntile::tile
