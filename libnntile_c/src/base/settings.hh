// SPDX-License-Identifier: BSD-3-Clause
// What the environment says: all of it is read and checked here, when the device is used for the
// first time, and again when a runtime starts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nntile {

// When kernels for GPUs are written and compiled for one program of element-wise ops.
enum class GpuCode : uint8_t { none, behind, first };

struct Settings {
    int ncpu = -1, ncuda = -1;  // STARPU_NCPU, STARPU_NCUDA; -1: not set
    // LOCAL_WORLD_SIZE and LOCAL_RANK, as torchrun sets them: processes that share this machine
    int local_processes = 1, local_rank = 0;
    int64_t memory_bytes = 0;            // NNTILE_MEMORY; 0: not set
    std::string swap;                    // NNTILE_SWAP, a folder; "": not set
    int64_t swap_bytes = 0;              // NNTILE_SWAP_SIZE; 0: not set
    bool graph_mode = false;             // NNTILE_RUNTIME_MODE
    bool cpu_fallback = true;            // NNTILE_CPU_FALLBACK, which torch_nntile applies
    bool blocking = false;               // NNTILE_BLOCKING, likewise
    bool automatic_cuts = true;          // NNTILE_AUTOMATIC_CUTS
    bool fuse = true;                    // NNTILE_FUSE
    bool windows = true;                 // NNTILE_WINDOWS
    int small_calls = 32;                // NNTILE_SMALL_CALLS
    GpuCode gpu_code = GpuCode::behind;  // NNTILE_GPU_CODE
    bool print_passes = false;           // NNTILE_PRINT
    bool sentinels = false;              // NNTILE_SENTINELS
    std::string cost;                    // NNTILE_COST, a file
    std::string data_dir;                // NNTILE_DATA_DIR, a folder: of torch_nntile.train_mnist
    friend bool operator==(const Settings&, const Settings&) = default;
};

// The bytes that a user means by "8GiB", "1.5 GB" or "4194304": the one rule for arguments and for
// the environment. `what` says who gives the text. invalid_argument: it is no size, or is less than
// 1 MiB or more than 2^62 bytes.
int64_t size_of(std::string_view what, std::string_view text);

// invalid_argument: a variable has a value that it cannot have.
const Settings& settings();
const Settings& read_settings();  // anew

// Variables that begin with NNTILE_ and mean nothing, "A, B"; likely a name is misspelt.
std::string unknown_settings();

}  // namespace nntile
