// SPDX-License-Identifier: BSD-3-Clause
// Main memory for tiles: the only account of it, and blocks that are reused by size class.
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

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/tile.hh"

namespace nntile::runtime {

// All members need the engine's mutex; those that may make or end handles are not for workers.
class Pool {
public:
    // Imagined: of an estimate. Its tiles have neither memory nor handles.
    explicit Pool(bool imagined = false) : blocks_(imagined), imagined_(imagined) {}
    struct Need {
        uint32_t size_class = 0;
        uint32_t same_class = 1;  // tiles of this class that the caller takes together
    };
    // A tile without memory, for the thread of a program.
    Tile* bare(uint32_t size_class);
    // Gives it memory: of an idle tile, or fresh. False: over the budget, or the system has none;
    // or, as reserve(), patient: tasks in flight use much that is free already.
    bool attach(Tile* tile, bool patient = false);
    void detach(Tile* tile);  // takes its memory
    // Its memory has the data, whatever devices have: see replicas::bring_home().
    void bring_home(const Tile& tile, void (*there)(void*), void* arg) const;
    void give_back(const Tile& tile) const;
    void recycle(Tile* tile);  // nobody owns it, and no run counts on it
    // A few numbers may go over the budget, so that a full memory can still be looked at.
    int64_t most(int64_t need) const;
    bool make_room(int64_t more);  // strips idle tiles; false: the budget does not allow so many

    // Takes one tile per need, or nothing (false: over the budget, now). prefer_idle: for the host,
    // which would have to wait for the tasks that use a tile. patient: the caller can wait for
    // tasks in flight, so nothing, too, where they use much that is free already.
    bool reserve(const std::vector<Need>& needs, bool prefer_idle, bool patient,
                 std::vector<Tile*>& out);
    void give(Tile* tile);                                   // back into the pool
    void adopt(Tile* tile, DType dtype, const Dims& sizes);  // it has an owner now
    TileRef own(Tile* tile, DType dtype, const Dims& sizes);
    void disown(Tile* tile);  // back into the pool from its last owner
    void trim();              // gives what is idle back to the system
    void end_all();           // at shutdown, when no task is left

    void count_use(Tile* tile);  // a run in flight uses it as a slot
    void count_end(Tile* tile);

    int64_t budget = 0;
    int workers = 1;
    int64_t tiles = 0, bytes = 0;                            // with memory
    int64_t used_bytes = 0, peak_bytes = 0;                  // owned or in use by runs
    int64_t owned_bytes = 0;                                 // in memory or on the disk
    int64_t reserved() const { return blocks_.resident(); }  // as the system counts it
    void set_page(int64_t bytes) { blocks_.set_page(bytes); }
    void set_pinning(memory::Pinning pinning) { blocks_.set_pinning(pinning); }
    int64_t reserved_peak() { return reserved_peak_ = std::max(reserved_peak_, reserved()); }
    void reset_peaks() {
        peak_bytes = used_bytes;
        reserved_peak_ = reserved();
    }
    std::string holders() const;  // "f32 (1024, 784): 3.2 MB in 4 tiles, ..."

private:
    struct List {
        Tile *oldest = nullptr, *newest = nullptr;
        uint32_t size = 0;
    };
    uint32_t busy_limit(const Need& need, bool prefer_idle) const;
    Tile* take_idle(uint32_t size_class);
    Tile* take_oldest(uint32_t size_class);
    Tile* unlink(List& list, Tile* tile);
    void register_handle(Tile* tile);
    void bind(Tile* tile, void* block);
    void* take_block(Tile* tile);
    // Strips the tile of these classes that has been idle for longest; its bytes, 0: there is none.
    int64_t strip_idle(uint32_t first_class, uint32_t end_class);
    void* block_of(int64_t bytes, bool patient);  // nullptr: the system has no memory, or: not now
    Tile* make(uint32_t size_class, bool patient);  // likewise
    void end(Tile* tile);                           // and its handle
    void end_bare(size_t kept);
    void use(int64_t bytes);

    memory::Blocks blocks_;
    const bool imagined_;
    Tile* all_ = nullptr;      // with a handle
    std::vector<Tile*> bare_;  // without memory, to be used again
    List lists_[memory::class_count];
    uint64_t gives_ = 0;
    int64_t reserved_peak_ = 0;
    int64_t needed_ = 0;  // highest number of bytes in use, with those that are being reserved
};

}  // namespace nntile::runtime
