// SPDX-License-Identifier: BSD-3-Clause
// Why a graph is not the one that was there before, in words for a user.
#pragma once

#include <string>

#include "graph/graph.hh"

namespace nntile::graph {

// The first thing that makes the hashes differ: "input 0 has shape (3, 4), it had (2, 4)".
std::string difference(const Graph& before, const Graph& now);

}  // namespace nntile::graph
