// SPDX-License-Identifier: BSD-3-Clause
// The passes: each takes a graph and leaves one that computes the same outputs, bit by bit.
// Inputs, run-time scalars and host calls keep their numbers, for a caller has lists of them;
// values get new ones, in the order in which they are needed.
#pragma once

#include <functional>

#include "graph/graph.hh"

namespace nntile::graph {

// An output owns its data: one that is a view, an input or an output twice becomes a copy.
void own_outputs(Graph& graph);
// In the order in which they run: each sees what the ones before it left. First go the nodes that
// no output depends on (remove_dead), then outputs get their own data, then come the fusions:
// * fuse_maps: chains and trees of element-wise nodes become one program, whose inner values are
//   never stored;
// * fuse_writes: an element-wise node whose only result is put into a part of other data becomes
//   one node with that write;
// * fuse_epilogues: a product whose result a program reads runs it as soon as it has that result.
struct Pass {
    const char* name;
    std::function<void(Graph&)> run;
};
const std::vector<Pass>& passes();

// Where what is alive takes more than so many bytes, values are made again instead of being kept:
// those that one element-wise program makes from what is kept anyway. After all other passes, which
// would have fewer values to fuse. Gives the new numbers of all values, by the old ones; empty: the
// graph is as it was.
std::vector<uint32_t> recompute(Graph& graph, int64_t memory);

// Throws internal, naming the value or node, for a graph that no stage could read: after a wrong
// pass.
void verify(const Graph& graph);

}  // namespace nntile::graph
