// SPDX-License-Identifier: BSD-3-Clause
// Meta kernels of PyTorch's structured ops, in C++: the code that its CPU kernels begin with. At
// the key Meta are Python's, which take longer and other strides where layouts differ, and load
// sympy.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <vector>

namespace torch_nntile {

// nullptr for an op that is not structured, nor one call of an op that is.
const c10::KernelFunction* structured_meta(const c10::OperatorHandle& op);

std::vector<std::string> structured_names();  // "add.Tensor"

}  // namespace torch_nntile
