// SPDX-License-Identifier: BSD-3-Clause
// Strides of results where PyTorch's Python Meta kernel gives others than the CPU's kernel.
#pragma once

#include "shapes/shape.h"

namespace torch_nntile {

// Mends the strides that a Meta kernel gave, as the table of habits says.
void mend_strides(const c10::OperatorHandle& op, Arguments arguments, Shapes& shapes);

// Dense in the order of ChannelsLast or ChannelsLast3d, and in no other.
bool is_channels_last(const at::Tensor& t);
bool is_channels_last(const Shape& shape);

// A Meta tensor like the copy that t.to(dtype) is.
at::Tensor meta_cast(const at::Tensor& t, c10::ScalarType dtype);

// The dtype that an element-wise op casts its operands to.
c10::ScalarType promoted(const c10::OperatorHandle& op, Arguments arguments);

}  // namespace torch_nntile
