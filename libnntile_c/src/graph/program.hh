// SPDX-License-Identifier: BSD-3-Clause
// Nodes that are a program of element-wise primitives: several map nodes in one. Its inputs and
// outputs have one iteration space, that of the outputs; its attributes are those of its
// instructions, one after the other.
#pragma once

#include <map>

#include "graph/graph.hh"

namespace nntile::graph {

const OpRow& program_row();

// A part of a node: its own row's, or that of a program. Borrowed from the node.
struct Part {
    std::span<const uint32_t> inputs, outputs;
    std::span<const Attr> attrs;
    const kernels::Program* program = nullptr;
    explicit operator bool() const { return program != nullptr; }
};
// own: what the row says; all of a node of the program row, whose program it is.
// before: a program that makes the operand that the row has as `prologue`, which own.inputs lacks;
// its one output is that operand, which nobody else reads.
// after: a program that runs on the result of a row with `epilogue`, its last input register.
struct Parts {
    Part own, before, after;
    const Part& program() const { return before ? before : after ? after : own; }
};
Parts parts_of(const Node& node);
// The program gets its part of the node, behind what is there; the outputs are the caller's.
void append_program(Node& node, Code code);
// parts.before as a node of its own.
Node prologue_of(const Node& node);

// The op row of a primitive: its attributes are named there.
const OpRow& row_of(const kernels::Instruction& instruction);
// The type in which values of a dtype are computed: f32, f64 or i64.
DType compute_class(DType dtype);
// In which it computes a map node, or a copy, which may convert.
DType compute_class(const Graph& graph, const Node& node);
// How many attributes of a map node its kernel gets: all but the sizes.
size_t param_count(const OpRow& row);

// Each element of its results comes from the elements in the same place, and code_of() can say how:
// a program, a map or a copy.
bool is_element_wise(const Graph& graph, const Node& node);
Code code_of(const Graph& graph, const Node& node);
// Whether a node may be an instruction of a program with others: a map that cannot fail, or a cast.
bool may_be_instruction(const Graph& graph, const Node& node);
// The node as an instruction, whose parameters are put at the end of attrs. registers: of its
// inputs and outputs.
kernels::Instruction instruction_of(const Graph& graph, const Node& node,
                                    const std::map<uint32_t, uint8_t>& registers,
                                    std::vector<Attr>& attrs);

// Throws invalid_argument for a program that reads a register never written, writes an input,
// leaves an output unwritten or of another dtype, is too long for a task, or has inputs that do not
// broadcast to its outputs.
void check_program(const Graph& graph, const Node& node);

// Of a point of the iteration space, for the cost module; without an epilogue or a prologue.
double flops_of(const Node& node);
double flops_of(const kernels::Program& program);

}  // namespace nntile::graph
