// SPDX-License-Identifier: BSD-3-Clause
// Runs a kernel: its blocks one after the other, in any order, each thread a fiber. A warp goes on
// as far as it can before another one moves, and which one is next is drawn after each barrier: so
// what lacks a barrier is seen.
#pragma once

#include <atomic>

#include "emulation.hh"

namespace emulation {

inline constexpr size_t page = 4096, stack_bytes = size_t{256} << 10, max_threads = 1024,
                        storage_bytes = 32764, max_shared = size_t{227} << 10;

enum class State : uint8_t { ready, barrier, warp, done };
struct Fiber {
    void* stack_pointer;
    Thread view;
    State state;
    uint32_t mask;  // lanes that it waits for
};

// All that a device's process writes beside the device's memory. It is mapped there and in the
// host's process.
struct Control {
    // A request and its answer: the number of the last one of each.
    std::atomic<uint32_t> asked, answered;
    enum Request : uint32_t { launch, protect, end } request;
    const Kernel* kernel;
    dim3 grid, block;
    size_t shared;
    uint64_t seed;
    uintptr_t address;  // to protect
    size_t bytes;
    int protection;
    uint32_t status;  // a cudaError_t
    char text[512];   // why
    // Of the kernel that runs
    Fiber fibers[max_threads];
    uint64_t exchange[max_threads];
    void* main_stack_pointer;
    uint32_t running, threads;
    alignas(64) std::byte storage[storage_bytes + 4];
    alignas(64) std::byte shared_bytes[max_shared + page];
};

void make_stacks();  // once, before the first device
const std::byte* stacks();
void set_engine(Control* control);  // whose kernel this process runs
Control* engine();
void run_kernel(Control& control);
[[gnu::format(printf, 2, 3)]] void set_text(Control& control, const char* format, ...);

}  // namespace emulation
