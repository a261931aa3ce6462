// SPDX-License-Identifier: BSD-3-Clause
// What the machine and the user's environment give: cores, memory, a folder on a disk, and a quiet,
// file-less start of StarPU.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/runtime.hh"

namespace nntile::runtime {

// STARPU_NCPU, else the cores of this process's affinity mask. Processes of one machine
// (LOCAL_WORLD_SIZE) share cores and memory.
int cpu_workers();
// Physical memory, or the control group's limit if that is lower.
int64_t memory_of_machine();
// NNTILE_MEMORY, else 90 % of memory_of_machine(), at most half of what a limit on the address
// space leaves.
int64_t memory_budget();

// Where tiles go that memory has no room for.
struct Swap {
    std::string folder;  // without links; "": there is no disk
    int64_t bytes = 0;   // how many it takes at most
};
// What the config says, else the environment. Without a size: this process's share of what is free
// in the folder, at most of 8 times the memory of the machine. invalid_argument: no file can be
// made in the folder, nothing is free there, or a size is given without a folder.
Swap swap_of(const Config& config);

// Environment variables that StarPU reads at its start, set for the lifetime of the object:
// - no banners, no binding of workers to cores (a neighbour's load then moves them), unless the
// user says so;
// - a private, empty folder for the bus model, which StarPU otherwise keeps in the user's home: it
// aborts if
//   that cannot be written and reads half-written files if two processes start at once.
class StartEnvironment {
public:
    explicit StartEnvironment(bool verbose);
    ~StartEnvironment();
    StartEnvironment(const StartEnvironment&) = delete;

    // Bytes that StarPU may take of each device, unless the user says how many.
    void limit_devices(const std::vector<int64_t>& bytes);

private:
    void set(const char* name, const char* value);  // nullptr: unset
    std::string folder_;
    std::vector<std::pair<std::string, std::pair<bool, std::string>>> before_;
};

}  // namespace nntile::runtime
