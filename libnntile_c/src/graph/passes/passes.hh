// SPDX-License-Identifier: BSD-3-Clause
// The passes: each takes a graph and leaves one that computes the same outputs, bit by bit.
// pipeline.cc lists them in order. Inputs, run-time scalars and host calls keep their numbers, for
// a caller has lists of them; values get new ones, in the order in which they are needed.
#pragma once

#include "graph/graph.hh"

namespace nntile::graph {

// What no output depends on goes.
void remove_dead(Graph& graph);
// An output owns its data: one that is a view, an input or an output twice becomes a copy.
void own_outputs(Graph& graph);
// Chains and trees of element-wise nodes become one program, whose inner values are never stored;
// NNTILE_FUSE=0: not.
void fuse_maps(Graph& graph);
// An element-wise node whose only result is put into a part of other data becomes one node with
// that write.
void fuse_writes(Graph& graph);
// A product whose result a program reads runs it as soon as it has that result: one node;
// NNTILE_FUSE=0: not.
void fuse_epilogues(Graph& graph);

// Where what is alive takes more than so many bytes, values are made again instead of being kept:
// those that one element-wise program makes from what is kept anyway. After all other passes, which
// would have fewer values to fuse. Gives the new numbers of all values, by the old ones; empty: the
// graph is as it was.
std::vector<uint32_t> recompute(Graph& graph, int64_t memory);

// Throws internal, naming the value or node, for a graph that no stage could read: after a wrong
// pass.
void verify(const Graph& graph);

}  // namespace nntile::graph
