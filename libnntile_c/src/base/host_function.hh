// SPDX-License-Identifier: BSD-3-Clause
// A function of the host as graphs, plans and the C ABI hand it on.
#pragma once

#include <functional>
#include <span>

#include "base/small_vector.hh"

namespace nntile {

// What one task of it has of the whole call.
struct HostPart {
    std::span<const int64_t> sizes;  // along its axes
    Dims starts;                     // of its first element, if parts are ranges
    bool accumulate;                 // add to outputs instead of writing them
};

// One of the two. data: operands in order, nullptr if absent; of a number its 8 bytes.
struct HostFunction {
    // The task ends when this returns. Not 0: it failed, with a text.
    std::function<int(const HostPart& part, void* const* data, char* error_text)> run;
    // Returns at once, and the task ends when somebody calls runtime::end_task(task, ...), in any
    // thread. data is nullptr, and so is task: something that it reads was never computed, the task
    // has ended already.
    std::function<void(void* const* data, void* task)> start;
};

}  // namespace nntile
