// SPDX-License-Identifier: BSD-3-Clause
// Cuts as a text that a person can edit: of named axes, and the automatic ones of graphs, which are
// known again by the hash of what was recorded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hh"
#include "graph/graph.hh"

namespace nntile::tile {

// One axis of a graph, named by a dim that belongs to it.
struct SavedCut {
    uint32_t value, dim;
    std::vector<int64_t> segments;
    int line = 0;  // of the text it was read from
};
struct SavedGraph {
    Hash hash;
    size_t nodes;
    std::vector<SavedCut> cuts;
};
inline constexpr int64_t whole_segment = INT64_MAX;
struct SavedCuts {
    graph::AxisCuts axes;              // segments of INT64_MAX: whole
    std::map<std::string, int> lines;  // of the axes, in the text they were read from
    std::vector<SavedGraph> graphs;
};

// "cuts 1", then lines "axis NAME = 16 16" (or "= whole") and blocks "graph 0x.. 0x.. of 872 nodes"
// of lines
// "%12 dim 0 = 256 256", and a line "end". Throws invalid_argument with the line.
SavedCuts parse_cuts(std::string_view text);
std::string print(const SavedCuts& cuts);

}  // namespace nntile::tile
