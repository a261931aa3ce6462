// SPDX-License-Identifier: BSD-3-Clause
// A run gets its tiles, and waits for the tasks of earlier runs: in a launch, and where one is
// played.
#pragma once

#include "runtime/stager.hh"

namespace nntile::runtime {

// A task that cannot have all that it needs at once is found before anything has happened.
// out_of_memory, with `line`.
void check_largest(const CompiledPlan& plan, int64_t budget, const std::string& line = "");
// Whether all that it uses can be in main memory from now to its end; then its outputs and slots
// get their tiles. Its inputs have theirs.
bool bind_at_once(Pool& pool, Stager& stager, bool patient, Run& run, const CompiledPlan& plan);
void bind_bare(Pool& pool, Run& run, const CompiledPlan& plan);  // else: without memory yet
// managed: it will be staged.
void prepare(Run& run, std::shared_ptr<CompiledPlan> plan, int64_t number, bool managed);
void link(Run& run, const CompiledPlan& plan);
void remember(Run& run, const CompiledPlan& plan);  // what later runs have to wait for

}  // namespace nntile::runtime
