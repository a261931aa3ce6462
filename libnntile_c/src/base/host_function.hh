// SPDX-License-Identifier: BSD-3-Clause
// A function of the host as graphs, plans and the C ABI hand it on.
#pragma once

#include <functional>
#include <span>

#include "base/small_vector.hh"

namespace nntile {

// What one task of it has of the whole call.
struct HostPart {
    std::span<const int64_t> sizes;  // of its axes; of a batched function: the rows of the batch
    Dims starts;      // index of its first element along each axis; of a batched function: nothing
    bool accumulate;  // add to outputs instead of writing them
};

// data: operands in order, nullptr if absent; of a number its 8 bytes. Not 0: it failed, with a
// text.
using HostFunction = std::function<int(const HostPart& part, void* const* data, char* error_text)>;

}  // namespace nntile
