// SPDX-License-Identifier: BSD-3-Clause
// How long launched work would take on a machine that is not here: notes every launch while it is
// asked to, then plays the tasks, with the seconds that the cost module gave them, on any number of
// virtual workers.
//
// What it plays has memory for everything: a tile fresh from the pool waits for nobody, and neither
// does a temporary for the one whose slot it has. Both would be otherwise where there are more
// workers.
#pragma once

#include <atomic>
#include <memory>

#include "runtime/schedule.hh"
#include "runtime/story.hh"

namespace nntile::runtime {

class Tile;

// What was launched between begin_estimate() and end_estimate(). Entries of the workload with 0
// seconds stand for waits of the host: what was launched after such a wait does not begin before
// it.
struct Work {
    Workload work;
    int64_t launches = 0, tasks = 0;
};
// Of several steps the last but one counts: those before it warm up, and it keeps data for the one
// after it.
inline size_t reported_step(size_t steps) { return steps > 1 ? steps - 2 : 0; }
struct Noted : Work {
    Story story;  // empty unless tensors have no data
};
struct Played {
    double seconds = 0;           // until the last task has ended
    double work_seconds = 0;      // of all tasks
    double critical_seconds = 0;  // of the longest chain of tasks
};

inline constexpr int most_workers = 1 << 16;

// invalid_state if one has begun already. Of the whole process: a backward pass runs on threads of
// its own.
void begin_estimate();
void end_step();  // what was launched since the last one is one
// invalid_state if none has begun. Nothing is noted afterwards.
std::unique_ptr<Noted> end_estimate();
// invalid_argument for a number of workers outside [1, 65536], or if nothing was launched.
Played play(const Noted& noted, int workers);

// ---- called by launches and waits; the engine's mutex is held, but by `noting`
inline std::atomic<bool> noting{false};
void note_launch(const CompiledPlan& plan, const std::vector<Tile*>& memory);
void note_wait(const Tile* tile);  // the host has waited for the task that writes it
void note_wait_for_all();

}  // namespace nntile::runtime
