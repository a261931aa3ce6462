// SPDX-License-Identifier: BSD-3-Clause
// A graph as text, and back: parse(print(g)) prints the same and has the same hash. The form is
// shown in docs/concepts/data_way.md.
#pragma once

#include <map>
#include <string>

#include "graph/graph.hh"

namespace nntile::graph {

// The user's cuts by the name of the axis, printed after the values.
using NamedCuts = std::map<std::string, AxisCut>;

std::string print(const Graph& graph, const NamedCuts& cuts = {});
// Error invalid_argument with the line that is wrong; an op that refuses its operands throws its
// own error. cuts: where to put the cuts, if wanted.
Graph parse(std::string_view text, NamedCuts* cuts = nullptr);

}  // namespace nntile::graph
