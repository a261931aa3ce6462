// SPDX-License-Identifier: BSD-3-Clause
// A simulated depth-first run on some workers: who lives when, so which temporaries share memory,
// and how long it takes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tile/tile_graph.hh"

namespace nntile::runtime {

// First and last accesses to one memory, in the order of the tasks: what other runs, or the next
// tenant of a slot, must wait for.
struct Accesses {
    std::vector<uint32_t> heads;  // read before the first write
    uint32_t first_writer = tile::none;
    uint32_t last_writer = tile::none;
    std::vector<uint32_t> tails;  // read after the last write
    uint32_t count = 0;           // tasks that touch it
};

struct Workload {
    size_t tasks = 0;
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // sorted by second
    std::vector<float> seconds;                        // by task
    std::vector<std::vector<uint32_t>> touches;        // by task: memories, each once
    std::vector<Accesses> accesses;                    // by memory
    std::vector<bool> temporary;                       // by memory
    std::vector<uint32_t> size_class;                  // by memory
    double steal_seconds = 0;  // price of a task that comes from another worker
};

struct Schedule {
    std::vector<uint32_t> order;          // tasks by simulated start
    std::vector<uint32_t> slot;           // by memory; none: not a temporary
    std::vector<uint32_t> slot_class;     // by slot
    std::vector<Accesses> slot_accesses;  // by slot: first tenant's first, last tenant's last
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // a tenant waits for the one before
    int64_t bytes = 0;
    double seconds = 0;  // until the last task has ended
};

Schedule make_schedule(const Workload& work, int workers);

}  // namespace nntile::runtime
