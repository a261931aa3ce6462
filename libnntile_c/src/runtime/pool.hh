// SPDX-License-Identifier: BSD-3-Clause
// Tiles in memory: one StarPU handle each, reused by size class.
//
// A tile that nobody owns any more goes back to the pool at once, although tasks in flight may
// still use it: it keeps their references, and whoever takes it next depends on them. So runs that
// follow each other closely pace themselves through dependencies and need no second copy of
// everything.
//
// What is resident stays near the peak of what was in use: beyond it, a fresh tile takes the memory
// of tiles that have been idle for longest, whatever their size; their handles wait for other
// memory.
#pragma once

#include <starpu.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/memory.hh"
#include "runtime/run.hh"

namespace nntile::runtime {

class Physical {
public:
    starpu_data_handle_t handle = nullptr;  // nullptr: its context has been shut down
    void* block = nullptr;                  // its memory; nullptr: only the handle is kept
    uint32_t size_class = 0;
    uint64_t given = 0;  // when it came into the pool
    uint32_t runs = 0;   // runs in flight that use it as a slot
    bool owned = false;  // by a PhysicalRef; else it is in the pool
    // The task that should have written it failed, or was skipped because its own data was lost.
    std::atomic<bool> lost{false};
    TaskRef writer;  // last writer, and the readers since
    std::vector<TaskRef> readers;
    DType dtype = DType::none;  // of the value it holds, for messages
    Dims sizes;
    Physical *previous = nullptr, *next = nullptr;  // list of all
    Physical *newer = nullptr, *older = nullptr;    // list of the pool, per class

    int64_t bytes() const { return memory::class_bytes(size_class); }
    bool idle() const;
    void add_reader(const TaskRef& reader);
};

// Runs when the last owner is gone: any thread, any time, also after a shutdown or in a forked
// child. In engine.cc.
void drop(Physical* tile);

// All members need the engine's mutex; those that may make or end handles are not for workers.
class Pool {
public:
    struct Need {
        uint32_t size_class = 0;
        uint32_t same_class = 1;  // tiles of this class that the caller takes together
    };
    // Takes one tile per need, or nothing (false: over the budget, now). prefer_idle: for the host,
    // which would have to wait for the tasks that use a tile. patient: the caller can wait for
    // tasks in flight, so nothing, too, where they use much that is free already.
    bool reserve(const std::vector<Need>& needs, bool prefer_idle, bool patient,
                 std::vector<Physical*>& out);
    void give(Physical* tile);  // back into the pool
    PhysicalRef own(Physical* tile, DType dtype, const Dims& sizes);
    void disown(Physical* tile);  // back into the pool from its last owner
    void trim();                  // gives what is idle back to the system
    void end_all();               // at shutdown, when no task is left

    void count_use(Physical* tile);  // a run in flight uses it as a slot
    void count_end(Physical* tile);

    int64_t budget = 0;
    int workers = 1;
    int64_t tiles = 0, bytes = 0;            // with memory
    int64_t used_bytes = 0, peak_bytes = 0;  // owned or in use by runs
    int64_t reserved() const { return bytes + blocks_.idle(); }
    int64_t reserved_peak() { return reserved_peak_ = std::max(reserved_peak_, reserved()); }
    void reset_peaks() {
        peak_bytes = used_bytes;
        reserved_peak_ = reserved();
    }
    std::string holders() const;  // "f32 (1024, 784): 3.2 MB in 4 tiles, ..."

private:
    struct List {
        Physical *oldest = nullptr, *newest = nullptr;
        uint32_t size = 0;
    };
    uint32_t busy_limit(const Need& need, bool prefer_idle) const;
    Physical* take_idle(uint32_t size_class);
    Physical* take_oldest(uint32_t size_class);
    Physical* unlink(List& list, Physical* tile);
    void bind(Physical* tile, uint32_t size_class, void* block);
    void strip(Physical* tile);  // of its memory
    // Strips the tile of these classes that has been idle for longest; its bytes, 0: there is none.
    int64_t strip_idle(uint32_t first_class, uint32_t end_class);
    void* block_of(int64_t bytes, bool patient);  // nullptr: the system has no memory, or: not now
    Physical* make(uint32_t size_class, bool patient);  // likewise
    void end(Physical* tile);                           // and its handle
    void end_bare();
    void use(int64_t bytes);

    memory::Blocks blocks_;
    Physical* all_ = nullptr;      // with memory
    std::vector<Physical*> bare_;  // without
    List lists_[memory::class_count];
    uint64_t gives_ = 0;
    int64_t reserved_peak_ = 0;
    int64_t needed_ = 0;  // highest number of bytes in use, with those that are being reserved
};

}  // namespace nntile::runtime
