// SPDX-License-Identifier: BSD-3-Clause
// Compiled once and put before each source of the stub; libnntile_c/pch says more.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <unordered_map>
