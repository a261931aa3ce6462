// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts: a first simple version. Chosen from shapes and the rows' cost, never from the number of
// workers: results must not depend on the machine.
#pragma once

#include "tile/axes.hh"
#include "tile/relation.hh"

namespace nntile::tile {

// Adds automatic cuts to `axes` until no node has a task above the quantum, or nothing is left to cut.
// dims[v]: axis dims of value v. Leaves the axes propagated. True if it added any.
bool cut_automatically(const graph::Graph& graph, const graph::Live& live,
                       const std::vector<AxisDims>& dims, Axes& axes);

}  // namespace nntile::tile
