// SPDX-License-Identifier: BSD-3-Clause
// From a storage to its buffer, and back: making and resizing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include "contract/operand.h"

namespace torch_nntile {

// A tensor with undefined contents.
at::Tensor make_tensor(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype);

// Whether two of its elements may be the same memory: x.unfold(0, 3, 1), x.expand(..).
bool may_overlap_itself(const at::Tensor& t);
// All elements of the storage, in one dim.
at::Tensor whole_storage(const at::Tensor& t);

// Gives a storage another size; the bytes that fit stay. `dtype` is only a hint for the copy: bytes
// that are copied as what they are need no retyping later.
void resize_storage(c10::StorageImpl& storage, size_t nbytes, c10::ScalarType dtype = c10::kByte);

// Recorded copy between two tensors of the device, with a cast if their dtypes differ.
void copy_on_device(const at::Tensor& source, const at::Tensor& target);

// Copies between a tensor of the device and dense memory of the host, of its sizes and dtype.
void read_to_host(const at::Tensor& source, void* host, size_t nbytes);
void write_from_host(const at::Tensor& target, const at::Tensor& host);

}  // namespace torch_nntile
