// SPDX-License-Identifier: BSD-3-Clause
// What workers of GPUs need beside StarPU: CUDA's libraries, handles of cuBLAS, and words that
// kernels write what they refuse into. Only a build with CUDA has it (cuda/devices.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/refuse.hh"
#include "runtime/memory.hh"

namespace nntile::runtime::devices {

// Loads CUDA's libraries and looks at the devices; throws what is missing, and what to do. Returns
// how many bytes tiles may take on each, for other processes may use it, too; nothing where the
// user says which GPUs have workers.
std::vector<int64_t> open(int wanted);
int architecture();         // of the GPU with the lowest compute capability (90: 9.0)
std::string versions();     // of what was loaded, for a line of describe()
void start();               // after StarPU has: from now on a device that fails is lost
void stop();                // before StarPU does
void stopped();             // after it has
memory::Pinning pinning();  // of main memory
std::string free_text();    // of the worker's device: "1 of 2 MiB are free"

// On the thread of a CUDA worker, for the task that it runs next.
bool prepared();  // false: the device has no room for what a worker needs there
const kernels::CudaPlace* begin(uint32_t math);  // kernels::GpuMath
inline constexpr int no_word = -1;
int end();  // its work is on the stream: the number of its word, if a kernel may write there
kernels::Refused refused_by(int word);  // when it has ended; the word is free then

}  // namespace nntile::runtime::devices
