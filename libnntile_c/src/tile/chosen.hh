// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts of a graph, and what they were chosen for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tile/cut.hh"

namespace nntile::tile {

// Axes of one extent that a trial cut alike.
struct Tried {
    int dim;  // of the first
    size_t axes;
    int64_t segments;
    double seconds;  // estimated, of the graph
};
// One automatic cut and what it was chosen for; times are those on `workers` workers.
struct Choice {
    Tried taken;
    std::optional<Tried> next;  // the best of the other axes
    int workers;
    double before;
    int64_t tasks_before, tasks_after;
    double copied;  // bytes that tasks copy after it
};
// One that was made, or made finer, for tasks that were too large.
struct Fitted {
    Tried taken;
    double before, after;  // bytes that the largest task needs, without these cuts and with all
};
struct Chosen {
    std::vector<Choice> choices;
    std::vector<Fitted> fitted;
    std::vector<std::pair<int, Cut>> cuts;  // dim and cut, for each axis
    std::string end;                        // why nothing more was cut
    std::optional<Tried> refused;           // the best of what was left
};

}  // namespace nntile::tile
