// SPDX-License-Identifier: BSD-3-Clause
// Copies of tiles. Main memory is where they are at home: its blocks are ours (pool.hh). On a
// device StarPU allocates, copies to it what a task reads there, and drops what has no room; so a
// copy in main memory may be older than the one on a device.
#pragma once

#include "runtime/tile.hh"

namespace nntile::runtime::replicas {

void set_devices(int devices);
int devices();  // GPUs; 0: all data is in main memory

void add(Replica& replica, int64_t bytes);                 // without a block
void place(Replica& replica, void* block, int64_t bytes);  // gives it a block
// Whatever there is on devices does not matter any more, and the block is free. Waits for copies
// that are on their way, and so not for a CUDA worker, which makes them. The replica has no block
// then.
void forget(Replica& replica, int64_t bytes);
void remove(Replica& replica);

// Main memory has the data until give_back(); the mode is that of a task. Waits for a copy: neither
// for workers, nor with the engine's mutex.
void bring_home(const Replica& replica, starpu_data_access_mode mode);
// Calls there(arg) when main memory has the data, for reading, until give_back(): now, or on the
// thread that has copied it. Waits for nothing; no task that writes it is on its way.
void bring_home(const Replica& replica, void (*there)(void*), void* arg);
void give_back(const Replica& replica);

}  // namespace nntile::runtime::replicas
