// SPDX-License-Identifier: BSD-3-Clause
// What leaves a GPU that is full: what residency.hh says, as for main memory and the disk. StarPU
// would take what was used longest ago, which in a step that comes again is what is used next.
//
// A task's operands stay from when the worker takes the task until it has ended. Nothing is
// followed until a device is full for the first time. Nobody here waits for the engine's mutex; it
// may be held.
#pragma once

#include <cstdint>

namespace nntile::runtime {

class Tile;
struct Replica;
struct RunTask;

namespace device_residency {

// is_unused: nobody owns the tile, and nobody is on the way to it; false, if that is not known now.
void start(bool (*is_unused)(const Tile& tile));
bool followed();  // a device was full

// On the worker of a device, which has taken the task; and when it has ended, or is another's.
void begin(const RunTask& task, unsigned node);
void end(const RunTask& task, unsigned node);

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
