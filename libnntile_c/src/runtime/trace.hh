// SPDX-License-Identifier: BSD-3-Clause
// Tells a profiler of each task, while there is one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "base/place.hh"

namespace nntile::runtime {

struct TracedTask {
    const char* op;
    int worker;
    Mark mark;
    int64_t begin_ns, end_ns;
    const char* kernel;
    Place place;
    int64_t run, node, task, bytes, flops;
};
using TraceFunction = void (*)(const TracedTask& task);

inline std::atomic<TraceFunction> trace_function{nullptr};

inline int64_t trace_clock() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace nntile::runtime
