// SPDX-License-Identifier: BSD-3-Clause
// The code of a program: an interpreter asks at each step which row it is and of which type; code
// for one program does not.
#pragma once

#include "base/cuda/compiler.hh"
#include "kernels/cuda/map_job.hh"

namespace nntile::kernels::cuda {

// How many places a thread of the code takes.
int pieces_of(const MapJob& job);
// Of all that the code depends on: jobs with the same key have the same code. Valid after
// make_quads().
std::string map_key(const MapJob& job);
nntile::cuda::Source map_source(const MapJob& job, const std::string& key);
MapCall map_call(const MapJob& job);

}  // namespace nntile::kernels::cuda
