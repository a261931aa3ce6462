// SPDX-License-Identifier: BSD-3-Clause
// A tile: a part of a value. What it is, who wrote it and who reads it, and where its copies are.
// A copy may come and go while the tile stays the same.
#pragma once

#include <starpu.h>

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "runtime/disk.hh"
#include "runtime/memory.hh"
#include "runtime/residency.hh"
#include "runtime/run.hh"

namespace nntile::runtime {

class Stager;
class Tile;

// The copy in main memory. StarPU knows it by the handle, which stays when the block is another
// one.
struct Replica {
    starpu_data_handle_t handle = nullptr;  // nullptr: its context has been shut down
    void* block = nullptr;                  // nullptr: no copy here
    uint32_t pins = 0;     // staged tasks and threads that use the block, or wait for its data
    bool loading = false;  // being read from the disk
    bool writing = false;  // being written to the disk
    bool current() const { return block && !loading; }
};

// The copy on the disk: there is none, or it is what main memory holds.
struct Spilled {
    Transfer transfer;  // between the two
    Tile* of = nullptr;
    Stager* by = nullptr;  // who moves it
    int64_t at = -1;
    int64_t began = 0;      // the transfer, by trace_clock()
    bool new_here = false;  // written after it was last read
    bool there() const { return at >= 0; }
};

class Tile : public Resident {
public:
    Tile() { disk.of = this; }
    Tile(const Tile&) = delete;
    // ---- what it is
    DType dtype = DType::none;  // of the value it holds, for messages
    Dims sizes;
    uint32_t size_class = 0;
    bool owned = false;     // by a TileRef
    uint64_t identity = 0;  // of the value: the object is used again
    uint32_t runs = 0;      // runs in flight that use it as a slot
    uint32_t holds = 0;     // runs in flight that it must not be taken from
    // Of its block: as many as the program or a task in place has written, or all. Copies move no
    // more.
    std::atomic<int64_t> data_bytes{INT64_MAX};
    // ---- order
    // The task that should have written it failed, or was skipped because its own data was lost.
    std::atomic<bool> lost{false};
    TaskRef writer;  // last writer, and the readers since
    std::vector<TaskRef> readers;
    // ---- copies
    Replica ram;
    Spilled disk;
    // Runs that are staged task by task and use it, by launch: with the plan's number of its memory
    std::vector<std::pair<Run*, uint32_t>> uses;
    std::vector<RunTask*> waiting;  // staged, for a transfer of this tile
    uint32_t wanted = 0;            // by threads of the program
    Next expected;                  // where no run that waits uses it
    // ---- lists of the pool
    uint64_t given = 0;  // when it came into the pool
    Tile *previous = nullptr, *next_of_all = nullptr;
    Tile *newer = nullptr, *older = nullptr;  // of its class

    int64_t block_bytes() const { return memory::class_bytes(size_class); }
    bool idle() const;
    void add_reader(const TaskRef& reader);
};

// Runs when the last owner is gone: any thread, any time, also after a shutdown or in a forked
// child. In engine.cc.
void drop(Tile* tile);

}  // namespace nntile::runtime
