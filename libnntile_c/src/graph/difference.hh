// SPDX-License-Identifier: BSD-3-Clause
// Why a graph is not the one that was there before, in words for a user.
#pragma once

#include <span>
#include <string>

#include "graph/graph.hh"

namespace nntile::graph {

// The first op that makes the hashes differ, with its line: "op 3 is relu (train.py:14), it was
// gelu (train.py:12)". inputs_first: other shapes of what is read say it all, where there are no
// others.
std::string difference(const Graph& before, const Graph& now, bool inputs_first = true);

// The op that uses a run-time number, with its line: "mul (train.py:14) with alpha = 3, it was 2".
std::string number_difference(const Graph& before, const Graph& now, uint32_t scalar);

// The first op that reads a value, with its line; "" if none does.
std::string reader_of(const Graph& graph, uint32_t value);

}  // namespace nntile::graph
