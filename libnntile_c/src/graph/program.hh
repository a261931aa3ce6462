// SPDX-License-Identifier: BSD-3-Clause
// Nodes that are a program of element-wise primitives: several map nodes in one. Its inputs and outputs have one
// iteration space, that of the outputs; its attributes are those of its instructions, one after the other.
#pragma once

#include "graph/graph.hh"

namespace nntile::graph {

const OpRow& program_row();

// The op row of a primitive: its attributes are named there.
const OpRow& row_of(const kernels::Instruction& instruction);
// The type in which values of a dtype are computed: f32, f64 or i64.
DType compute_class(DType dtype);
// How many attributes of a map node its kernel gets: all but the sizes.
size_t param_count(const OpRow& row);

// Throws invalid_argument for a program that reads a register never written, writes an input, leaves an output
// unwritten or of another dtype, is too long for a task, or has inputs that do not broadcast to its outputs.
void check_program(const Graph& graph, const Node& node);

// Of a point of the iteration space, for the cost module.
double flops_of(const Node& node);

}  // namespace nntile::graph
