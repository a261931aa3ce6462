// SPDX-License-Identifier: BSD-3-Clause
// Programs of element-wise tasks.
#pragma once

#include <memory>

#include "graph/graph.hh"
#include "tile/tile_graph.hh"

namespace nntile::tile {

// A program that only copies a tensor to one of its dtype, which has a kernel of its own.
bool is_plain_copy(const graph::Graph& graph, const graph::Node& node);

// The program that is one map row.
std::shared_ptr<const kernels::Program> one_instruction(int map_row, DType compute);

// A program that first makes its last input itself: combined with a further input, another part of
// it, or just cast to `result`, as it would be stored. The parameters of the new instruction come
// last.
std::shared_ptr<const kernels::Program> behind_join(const kernels::Program& program, int map_row,
                                                    DType compute, DType result, size_t params);

void add_default_params(int map_row, std::vector<ParamRef>& params);

}  // namespace nntile::tile
