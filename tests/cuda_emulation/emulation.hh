// SPDX-License-Identifier: BSD-3-Clause
// Between the emulated runtime (libcudart), the emulated cuBLAS and kernels that g++ has compiled
// (on_cpu.hh).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace emulation {

// A __global__ function for the CPU. `name` is its mangled name, which is what nvcc gives it too.
struct Kernel {
    const char* name;
    size_t arguments_bytes;
    void (*pack)(void** arguments, void* storage);  // copies what a launch copies
    void (*invoke)(void* storage);                  // one thread
};

// What a running thread of a kernel sees.
struct Thread {
    uint3 thread, block;
    dim3 block_dim, grid_dim;
    std::byte* shared;   // of its block
    uint64_t* exchange;  // a place for each lane of its warp
    uint32_t lane;
};

struct Counts {
    long long launches, copies_to, copies_from, copies_between, bytes_to, bytes_from, bytes_between,
        pageable, live_bytes, peak_bytes;
};

extern "C" {
void emulation_add_kernel(const Kernel* kernel);
cudaError_t emulation_launch(const Kernel* kernel, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream);
// It may share so many bytes from now on, if a device has them.
cudaError_t emulation_allow_shared(const Kernel* kernel, size_t bytes);
// Of the kernel that runs: a device's process runs one thread of one kernel at a time.
extern Thread* emulation_thread;
void emulation_barrier();                    // __syncthreads()
void emulation_warp_barrier(uint32_t mask);  // __syncwarp()
// A part of the emulation that runs on a stream, in the host's process.
void emulation_enqueue(cudaStream_t stream, void (*function)(void*), void* argument);
// Where such a part reaches memory of a device; ends the process if that is none.
void* emulation_view(const void* device, size_t bytes, const char* who);
// The call of `function` after so many others gives this error, once.
void emulation_fail(const char* function, int after, cudaError_t error);
// Another process takes so much more of its memory; less than 0: it gives some back.
void emulation_take(int device, long long bytes);
// All later calls give this error.
void emulation_lose(int device, int error);
Counts emulation_counts();
}

}  // namespace emulation
