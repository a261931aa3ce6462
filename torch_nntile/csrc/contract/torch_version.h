// SPDX-License-Identifier: BSD-3-Clause
// What differs between the PyTorch versions that the stub can be built for (2.9 to 2.14). One
// binary serves one minor version: the tables of virtual functions below change with each.
#pragma once

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/csrc/api/include/torch/version.h>
#endif

#define NNTILE_TORCH_AT_LEAST(minor) (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= (minor))

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 9
#error "torch_nntile needs PyTorch 2.9 or newer"
#endif

// c10::DeviceAllocator::getMemoryInfo, DeviceGuardImplInterface::getDeviceCapability.
#define NNTILE_TORCH_HAS_MEMORY_INFO NNTILE_TORCH_AT_LEAST(10)
#define NNTILE_TORCH_HAS_CAPABILITY __has_include(<c10/core/DeviceCapability.h>)
