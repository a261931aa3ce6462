// SPDX-License-Identifier: BSD-3-Clause
// Plays what was noted on tensors without data, with a budget of memory and a disk. Pool, stager
// and residency are the runtime's own; blocks are addresses, transfers and tasks take time only.
#pragma once

#include "runtime/optimum.hh"
#include "runtime/simulate.hh"

namespace nntile::runtime {

struct Machine {
    int workers = 1;
    int64_t memory_bytes = 0;  // 0: as much as is asked for
    double swap_bytes_per_second = 1e9;
};
struct Holder {  // of memory: all that one call has made
    std::string op;
    Place place = 0;
    int64_t bytes = 0, tiles = 0;
};
struct Rehearsed {
    // Of the reported step
    double seconds = 0;
    Moved moved, least;  // to and from the disk; a bound of what any order of leaving moves
    // Of all steps
    int64_t peak_bytes = 0;           // held at once by tensors and runs, wherever it is
    int64_t reserved_peak_bytes = 0;  // in main memory
    int64_t swap_peak_bytes = 0;      // on the disk
    std::vector<Holder> holders;      // at the first peak, largest first
};

// invalid_argument: a machine that cannot be, or nothing was launched. out_of_memory, with op and
// line: a task whose operands and results do not fit at once.
Rehearsed rehearse(const Noted& noted, const Machine& machine);

}  // namespace nntile::runtime
