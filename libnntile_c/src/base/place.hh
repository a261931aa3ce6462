// SPDX-License-Identifier: BSD-3-Clause
// Places in the user's program: numbers, so that to record one costs nothing. They belong to a run
// and not to a plan: equal graphs that were recorded from different lines share one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nntile {

using Place = uint64_t;  // 0: unknown

// Writes a text with its final zero, cut to `size` bytes; returns its length.
using PlaceText = size_t (*)(Place place, char* out, size_t size);
inline std::atomic<PlaceText> place_text{nullptr};  // of whoever sets the places of its calls
inline thread_local Place current_place = 0;        // of what this thread records

// A number of a profiler's for what this thread records, or replays; 0: none.
using Mark = int64_t;
inline thread_local Mark current_mark = 0;

Place place_of(std::string_view text);   // kept for ever; 0 for an empty one
std::string text_of_place(Place place);  // one line; "" for 0, and where nobody knows

}  // namespace nntile
