// SPDX-License-Identifier: BSD-3-Clause
// What leaves a GPU that is full: what residency.hh says, as for main memory and the disk. StarPU
// would take what was used longest ago, which in a step that comes again is what is used next.
//
// A task's operands stay from when the worker takes the task until it has ended. Nothing is
// followed until a device is full for the first time. Nobody here waits for the engine's mutex; it
// may be held.
#pragma once

#include <cstdint>

#include "runtime/residency.hh"

namespace nntile::runtime {

class Tile;
struct Replica;

namespace device_residency {

// is_unused: nobody owns the tile, and nobody is on the way to it; false, if that is not known now.
void start(bool (*is_unused)(const Tile& tile));
bool followed();  // a device was full

// The worker of a device has taken a task, which is there in the order of its plan.
void take(unsigned node, When at);
// An operand of it; and when the task has ended, or is another's. useless: a temporary, and what
// comes next writes all of it, or nothing comes.
void begin(const Replica& replica, unsigned node);
void end(const Tile& tile, unsigned node, Next next, bool useless);

// On the worker of a device that has no room for so many bytes. True: something has left.
bool make_room(unsigned node, int64_t bytes);
// To main memory: nobody needs it any more, so there is nothing to copy.
bool leaves_without_copy(const Tile& tile, unsigned node);
// The device has no copy of it any more.
void left(const Replica& replica, unsigned node);
void forget(const Replica& replica);  // no device has
void clear();

}  // namespace device_residency

}  // namespace nntile::runtime
