// SPDX-License-Identifier: BSD-3-Clause
// Which line of the user's program asks for an op: a number, which becomes a text only when
// somebody wants to read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace torch_nntile {

// Bits 0 to 30: the line; 31: it is the backward pass of what stands there; 32 to 62: the module.
using PlaceNumber = uint64_t;
inline constexpr PlaceNumber line_mask = (PlaceNumber{1} << 31) - 1;
inline constexpr PlaceNumber backward_bit = PlaceNumber{1} << 31;
inline constexpr int module_shift = 32;

// Of this thread now: the innermost Python line that is neither PyTorch's nor ours; in a thread of
// autograd, that of the forward op. Remembers it for the backward pass of the op.
PlaceNumber place_now();

// "model.py:14"; "" for 0.
std::string line_of(PlaceNumber place);
// "layers.3.attn"; "" where no hook of modules says it.
std::string module_of(PlaceNumber place);
// Both, as errors show them.
std::string text_of(PlaceNumber place);

// How Python's frames are found. fast: without its lock, by the layout of the frames of this
// version of Python, which is tried first: false where it is another one, and Python's functions
// find them. folders: lines apart by '\n'; files in them are not the user's, but for those that
// come after a '+'; what comes after a '=' is left out of names. fast 0: by Python's functions.
// Called with frames on the stack.
bool start_places(const char* folders, int fast);

uint32_t module_number(const char* name);  // the same for the same name; 0 for an empty one
void enter_module(uint32_t module);        // what this thread is in from now on

}  // namespace torch_nntile
