// SPDX-License-Identifier: BSD-3-Clause
// Automatic cuts: try one, estimate the whole graph with the cost module, undo it if it does not
// pay. Chosen from shapes and constants, never from the number of workers that run: results must
// not depend on it. Those that make tasks small enough for the memory are fit.hh's.
#pragma once

#include "tile/chosen.hh"
#include "tile/estimate.hh"

namespace nntile::tile {

bool automatic_cuts();  // false: NNTILE_AUTOMATIC_CUTS=0
// Adds automatic cuts to `axes` where they pay, and leaves the axes propagated.
Chosen choose_cuts(const Related& related, Axes& axes);

}  // namespace nntile::tile
