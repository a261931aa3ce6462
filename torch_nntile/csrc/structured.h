// SPDX-License-Identifier: BSD-3-Clause
// Meta kernels of PyTorch's structured ops, in C++: the code that its CPU kernels begin with. At the
// key Meta are Python's, which take longer and other strides where layouts differ, and load sympy.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace torch_nntile {

// nullptr for an op that is not structured.
const c10::KernelFunction* structured_meta(const c10::OperatorHandle& op);

// Those without a kernel of the device run on the host as they are called. PyTorch's kernel for all
// devices would call their out= form with a result like the operands before they are cast.
void register_structured_on_host();

}  // namespace torch_nntile
