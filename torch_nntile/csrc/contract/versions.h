// SPDX-License-Identifier: BSD-3-Clause
// What differs between the versions of PyTorch that a stub can be built for: one stub serves one
// minor version, since PyTorch's tables of virtual functions change with each. No other file asks
// for the version; what Python must know of it stands in torch_nntile/versions.py.
#pragma once

#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 10
#error "torch_nntile needs PyTorch 2.10 or newer"
#endif

// The code in parentheses, from that minor version on.
#if TORCH_VERSION_MINOR >= 12
#define NNTILE_SINCE_2_12(...) __VA_ARGS__
#else
#define NNTILE_SINCE_2_12(...)
#endif

// Where a device's profiler registers. Before 2.12 PyTorch had no place for it; Kineto, which is in
// PyTorch's library, has one.
#if TORCH_VERSION_MINOR >= 12
#define NNTILE_PROFILER_HEADER <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define NNTILE_REGISTER_PROFILER(name) REGISTER_PRIVATEUSE1_PROFILER(name)
#else
#define NNTILE_PROFILER_HEADER <libkineto.h>
#define NNTILE_REGISTER_PROFILER(name)                                                     \
    const bool profiler_registered = [] {                                                  \
        libkineto::api().registerProfilerFactory([] { return std::make_unique<name>(); }); \
        return true;                                                                       \
    }()
#endif

// A new node of autograd's graph, with a reference that set_history() takes.
#if TORCH_VERSION_MINOR >= 13
#define NNTILE_NEW_NODE(type) c10::make_intrusive<type>()
#else
#define NNTILE_NEW_NODE(type) std::shared_ptr<type>(new type, torch::autograd::deleteNode)
#endif

namespace torch_nntile {

// Meta's logsumexp of attention is float32, also where the CPU's is float64.
inline constexpr bool meta_logsumexp_is_float32 = TORCH_VERSION_MINOR < 13;

}  // namespace torch_nntile
