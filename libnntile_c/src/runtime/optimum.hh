// SPDX-License-Identifier: BSD-3-Clause
// The least that a sequence of tasks must move between memory and disk: pure, of the operands
// alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nntile::runtime {

struct Trace {
    struct Use {
        uint32_t tile;
        bool fresh;   // what was there before does not matter
        bool writes;  // what is on the disk is old afterwards
    };
    struct Drop {
        size_t before;  // this task
        uint32_t tile;
    };
    std::vector<Use> uses;       // task after task; a tile appears once in a task
    std::vector<size_t> first;   // by task, into `uses`
    std::vector<int64_t> bytes;  // by tile
    std::vector<Drop> drops;     // in order; until then a tile is held, in memory or on the disk
    size_t tasks() const { return first.size(); }
};
struct Moved {
    int64_t read = 0, written = 0;
};

// A lower bound of what tasks [begin, end) of the trace move in `room` bytes, one task after the
// other: what they read, and writes of what they have made. Of reads it is the least: Belady's
// choice is best where each byte may leave alone. Of writes too, where a version of a tile leaves
// in its longest pause. Both cannot always be had at once, and a tile leaves as a whole.
Moved least_moved(const Trace& trace, size_t begin, size_t end, int64_t room);

}  // namespace nntile::runtime
