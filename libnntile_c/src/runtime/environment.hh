// SPDX-License-Identifier: BSD-3-Clause
// What the machine and the user's environment give: cores, memory, and a quiet, file-less start of
// StarPU.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nntile::runtime {

// STARPU_NCPU, else the cores of this process's affinity mask. Processes of one machine
// (LOCAL_WORLD_SIZE) share cores and memory.
int cpu_workers();
// 90 % of physical memory, or of the control group's limit if lower; at most half of what a limit
// on the address space leaves.
int64_t memory_budget();

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

private:
    void set(const char* name, const char* value);  // nullptr: unset
    std::string folder_;
    std::vector<std::pair<std::string, std::pair<bool, std::string>>> before_;
};

}  // namespace nntile::runtime
