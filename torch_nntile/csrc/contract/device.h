// SPDX-License-Identifier: BSD-3-Clause
// The one device. StarPU places tasks on cores and GPUs, so PyTorch sees a single device
// "nntile:0".
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

#include "nntile/nntile.h"

namespace torch_nntile {

inline constexpr auto device_type = c10::DeviceType::PrivateUse1;
// How many indices name the one device of this process: as many as processes share the machine
// (LOCAL_WORLD_SIZE), for programs that call it by their local rank.
c10::DeviceIndex device_count();
inline constexpr c10::DispatchKeySet device_keys(c10::DispatchKey::PrivateUse1);

inline c10::Device device() { return {device_type, 0}; }
inline bool ours(const at::TensorBase& t) { return t.is_privateuseone(); }

// Fails as PyTorch does for an index that does not exist; -1 means the current device.
void check_index(c10::DeviceIndex index);

// The recorder of all tensors; made at the first use, never ended.
nntile_record* record();

// Throws in a forked child. To be called before a lock of ours is taken: a thread of the parent,
// which the child does not have, may hold it.
void check_not_forked();

// Waits for all that was recorded (in graph mode: submitted); throws the first error of a task.
void synchronize();

// 1 while a task is pending or running.
bool busy();
bool tasks_in_flight();  // of those that were submitted

c10::DeviceAllocator& allocator();
const at::Generator& default_generator();
at::Generator new_generator();

}  // namespace torch_nntile
