// SPDX-License-Identifier: BSD-3-Clause
// What the environment says: all of it is read and checked here, when the device is used for the
// first time, and again when a runtime starts.
#pragma once

#include <string>

namespace nntile {

struct Settings {
    int ncpu = -1, ncuda = -1;  // STARPU_NCPU, STARPU_NCUDA; -1: not set
    // LOCAL_WORLD_SIZE and LOCAL_RANK, as torchrun sets them: processes that share this machine
    int local_processes = 1, local_rank = 0;
    bool graph_mode = false;     // NNTILE_RUNTIME_MODE
    bool cpu_fallback = true;    // NNTILE_CPU_FALLBACK, which torch_nntile looks at
    bool blocking = false;       // NNTILE_BLOCKING, likewise
    bool automatic_cuts = true;  // NNTILE_AUTOMATIC_CUTS
    bool fuse = true;            // NNTILE_FUSE
    bool windows = true;         // NNTILE_WINDOWS
    bool print_passes = false;   // NNTILE_PRINT
    bool sentinels = false;      // NNTILE_SENTINELS
    std::string cost;            // NNTILE_COST, a file
    friend bool operator==(const Settings&, const Settings&) = default;
};

// invalid_argument: a variable has a value that it cannot have.
const Settings& settings();
const Settings& read_settings();  // anew

// Variables that begin with NNTILE_ and mean nothing, "A, B"; likely a name is misspelt.
std::string unknown_settings();

}  // namespace nntile
