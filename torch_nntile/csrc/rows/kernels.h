// SPDX-License-Identifier: BSD-3-Clause
// Ops made from kernels that the user compiled (torch_nntile/kernels/).
#pragma once

#include <cstdint>

namespace torch_nntile {

// name: "namespace::op", defined, with an overload "plan" that says what a call is. keyed: bits of
// arguments that are integers of which the plan depends.
void register_kernel(const char* name, uint64_t keyed);

}  // namespace torch_nntile
