// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts that make tasks small: where a task would need more than most_task_bytes(), axes
// that may be cut automatically are cut finer.
#pragma once

#include "tile/chosen.hh"
#include "tile/estimate.hh"

namespace nntile::tile {

// Adds to the cuts in `chosen`, or makes them finer, those that are cheapest by the cost module
// first, until each task fits or nothing more helps. `uncut`: the axes without the cuts in
// `chosen`.
void fit(const Related& related, Axes& axes, const Axes::Mark& uncut, const Estimator& estimate,
         Chosen& chosen);
// By value: stored data that has to take the cuts of this graph for good, so that tasks fit; empty:
// none.
std::vector<bool> taken_over(const Related& related, const Axes& axes);

}  // namespace nntile::tile
