// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

namespace nntile {

// That this process may use.
inline int available_cores() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace nntile
