// SPDX-License-Identifier: BSD-3-Clause
// Tiling (how every value is cut) and lowering (tasks on tiles).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.hh"
#include "tile/cut.hh"
#include "tile/saved_cuts.hh"
#include "tile/tile_graph.hh"

namespace nntile::tile {

// What the user said about named axes; one that is not listed is cut automatically
using graph::AxisCuts;

struct ValueTiling {
    std::vector<Cut> cuts;  // one per dim, as tasks want it; empty for views and scalars
    // Of an input: its data stays as it is stored, and tasks read blocks of its tiles, for no cut
    // that a user has set speaks against that. Else data that is stored under other cuts takes
    // these for good.
    bool as_stored = false;
    uint64_t hints = 0;  // dims, as bits, whose cut is automatic; as Stored::hints
    // Axis group of each dim, "" for none; empty if no axis of the graph is named
    std::vector<std::string> names;
};

// One row of print_axis_groups().
struct AxisGroup {
    std::string name;  // "" for an axis without a name
    int64_t extent = 0;
    std::string cut;  // "128 whole", "128 cut (64, 64)", "4 x 6 cut (3, 3)"
    // "user"; "automatic"; "follows" from cuts of the user or of data; "" if whole
    std::string origin;
    size_t dims = 0;  // dims of values that belong to it
};

struct Tiling {
    std::vector<ValueTiling> values;  // by value id
    bool named = false;               // some axis has a name
    // What was chosen, for a later choose_tiling() of the same graph
    std::vector<SavedCut> automatic;
    // For texts only, as is what follows.
    std::vector<AxisGroup> axes;  // named axes and those that are cut
    // Links whose two sides are cut differently, with the op that reads them
    std::vector<std::string> retiles;
    // Automatic cuts in order, what each brings, and why there are no more
    std::vector<std::string> choices;
    std::string text() const;  // "axes { batch = 128 cut (64, 64) ... }"
};

// Pure: depends on the graph (with the stored cuts of its inputs), the user's cuts, the cost module
// and most_task_bytes(), on nothing else. saved: automatic cuts that are to be taken as they are;
// invalid_argument where they do not fit the graph.
Tiling choose_tiling(const graph::Graph& graph, const AxisCuts& cuts, bool with_texts = true,
                     const SavedGraph* saved = nullptr);

struct Lowered {
    TileGraph tiles;
    std::vector<uint32_t> inputs;  // value ids with tiles of role input
    // Value ids with tiles of role output: the graph's outputs, then the inputs whose data takes a
    // new grid (retiled once, kept for the next graph)
    std::vector<uint32_t> outputs;
    size_t copies = 0;  // tasks inserted because cuts or layouts did not line up
    size_t host_calls = 0;
};
Lowered lower(const graph::Graph& graph, const Tiling& tiling);

// A pass over the finished tile graph: results take the memory of operands that no later task
// reads, and outputs that of the inputs whose place they take.
void reuse_memory(const graph::Graph& graph, TileGraph& tiles);

// Another one, after it: a program and the reduction that alone reads one of its results become one
// task, which never stores that result as a whole.
void join_reductions(TileGraph& tiles);

}  // namespace nntile::tile
