// SPDX-License-Identifier: BSD-3-Clause
// Code for GPUs that is written and compiled while a program runs, by NVRTC, which PyTorch's CUDA
// builds bring along. A thread of its own compiles, so nobody waits: until code is there, and where
// there is no NVRTC, callers do without.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace nntile::cuda {

struct Header {
    const char *name, *text;
};
struct Source {
    std::string name;  // of its kernel, which is extern "C"
    std::string text;
    std::span<const Header> headers;  // live as long as the process
};

// The kernel of this key for the thread's device; nullptr: it is not there, or not yet. `work` is
// what the call has to do, in elements: what does little in all calls is not worth the compiler's
// time. `write` is called at most once for a key and kind of device.
cudaKernel_t kernel_of(const std::string& key, int64_t work, const std::function<Source()>& write);

int architecture_of(int device);  // its compute capability, 90 for 9.0; 0: CUDA does not say

// Its code for a GPU of this compute capability; "": there is none, for this reason.
std::string compiled(const Source& source, int architecture, std::string& reason);

// Ends the thread. What it has compiled stays.
void stop_compiler();

std::string compiler_text();  // for a line of describe()

}  // namespace nntile::cuda
