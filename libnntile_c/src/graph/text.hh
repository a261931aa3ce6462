// SPDX-License-Identifier: BSD-3-Clause
// A graph as text, and back: parse(print(g)) prints the same. The form is shown in docs/concepts/data_way.md.
#pragma once

#include <string>

#include "graph/graph.hh"

namespace nntile::graph {

std::string print(const Graph& graph);
Graph parse(std::string_view text);     // Error invalid_argument with the line that is wrong

}  // namespace nntile::graph
