// SPDX-License-Identifier: BSD-3-Clause
// Copies of tiles. Main memory is where they are at home: its blocks are ours (pool.hh). On a
// device StarPU allocates, copies to it what a task reads there, and drops what has no room; so a
// copy in main memory may be older than the one on a device.
#pragma once

#include <string>

#include "runtime/tile.hh"

namespace nntile::runtime::replicas {

void set_devices(int devices);
int devices();                   // GPUs; 0: all data is in main memory
uint64_t copies(unsigned node);  // that have begun from a device, or to it

void add(Tile& tile);                 // without a block
void place(Tile& tile, void* block);  // gives it a block
// Whatever there is on devices does not matter any more, and the block is free. Waits for copies
// that are on their way, and so not for a CUDA worker, which makes them. The tile has no block
// then.
void forget(Tile& tile);
void remove(Replica& replica);

// Main memory has the data until give_back(); the mode is that of a task. Waits for a copy: neither
// for workers, nor with the engine's mutex.
void bring_home(const Replica& replica, starpu_data_access_mode mode);
// Calls there(arg) when main memory has the data, for reading, until give_back(): now, or on the
// thread that has copied it. Waits for nothing; no task that writes it is on its way.
void bring_home(const Replica& replica, void (*there)(void*), void* arg);
void give_back(const Replica& replica);

// ---- what goes wrong with devices
//
// A copy on a device may be *at home*: StarPU takes it for one there, and its bytes are those of
// the block in main memory. So a task ends, which has not begun, and another worker takes it. That
// is what a device gives that has no room for long, though nothing runs there, and one that is
// lost.

// On the worker of a device that has no room for so many bytes: something has left, and StarPU may
// try again.
bool make_room(unsigned node, int64_t bytes);
// On the worker of a device, of a task that it has: its copy of an operand is in the device's
// memory. False: it is at home.
bool is_there(void* copy, starpu_data_access_mode mode);
// A task runs on a device from begin() to end(): until then what it needs there may get free.
void begin(unsigned node);
void end(unsigned node);
// Every call of CUDA fails for this device from now on. What only it had is lost, and is marked so
// when somebody wants it; its copies are at home. False: that is known.
bool lose(unsigned node, const std::string& why);
bool lost(unsigned node);
std::string why_lost();  // "GPU 0 has failed (unspecified launch failure)"; "": none is lost
int working();           // devices that are not lost
bool busy(unsigned node);
// A copy between two memories, of which one is lost, has ended.
void copy_failed(starpu_data_handle_t handle, unsigned from, unsigned to);

}  // namespace nntile::runtime::replicas
