// SPDX-License-Identifier: BSD-3-Clause
// What of a task follows from its node and its place in the node's iteration space alone.
#pragma once

#include "tile/cuts.hh"
#include "tile/relation.hh"
#include "tile/tile_graph.hh"

namespace nntile::tile {

// Parameters of the kernel of a node's row; `accumulate`: a later partial of a sum.
void add_params(Task& task, const graph::Node& node, const NodeSpace& space, bool accumulate);
// Those of the program that runs on its result.
void add_program_params(Task& task, const graph::Node& node);

// The index that the task's program reads, if it does: over the unrefined output, so that random
// numbers do not depend on cuts. Or the one that its kernel reads: the place along one label.
void set_index(Task& task, const NodeSpace& space, const Grid& iteration, const Dims& segments);

// All that a function of the host is told: its part of the batch or of its axes, and whether it
// adds to its outputs. The part begins at index_offset, an index over all axes.
void make_host_call(Task& task, const graph::Graph& graph, const graph::Node& node,
                    const NodeSpace& space, const Grid& iteration, const Dims& segments,
                    bool accumulate);

// The kernel wants exactly one dim for each of the last kernel_dims labels and for whole labels;
// the others may be merged with each other. False: an operand has to be made dense first, this one
// if it is known which, else `misfit` is none.
bool fit_kernel(Task& task, const schema::OpRow& row, const schema::Relation& relation,
                const Grid& iteration, uint32_t& misfit);

// Merges neighbouring dims of a task where every operand allows it, and drops dims of size 1.
// may_merge[i]: dim i may join dim i + 1; keep[i]: dim i stays alone, even if its size is 1. Gives
// the first of the old dims of every dim that is left.
using Flags = SmallVector<bool, 8>;
SmallVector<size_t, 8> coalesce_task(Task& task, const Flags& may_merge, const Flags& keep);

}  // namespace nntile::tile
