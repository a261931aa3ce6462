// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts: try one, estimate the whole graph with the cost module, undo it if it does not
// pay. Chosen from shapes and constants, never from the number of workers that run: results must
// not depend on it.
#pragma once

#include <optional>
#include <string>

#include "tile/estimate.hh"

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
struct Chosen {
    std::vector<Choice> choices;
    std::vector<std::pair<int, Cut>> cuts;  // dim and cut, for each axis
    std::string end;                        // why nothing more was cut
    std::optional<Tried> refused;           // the best of what was left
};

bool automatic_cuts();  // false: NNTILE_AUTOMATIC_CUTS=0
// Adds automatic cuts to `axes` where they pay, and leaves the axes propagated.
Chosen choose_cuts(const Related& related, Axes& axes);

}  // namespace nntile::tile
