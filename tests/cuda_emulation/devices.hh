// SPDX-License-Identifier: BSD-3-Clause
// Devices, their memory, and errors.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "blocks.hh"
#include "streams.hh"

namespace emulation {

struct Device {
    struct Block {
        size_t bytes = 0, pages = 0;  // pages: bytes of them
        uintptr_t first_page = 0;
    };
    int number = 0;
    uintptr_t address = 0;
    std::byte* alias = nullptr;  // where the host's process reaches its memory
    Control* control = nullptr;
    pid_t process = 0;
    std::atomic<int> libraries{0};  // of kernels that were loaded later, and that the process knows
    std::mutex process_mutex;
    std::mutex memory_mutex;
    std::map<uintptr_t, Block> blocks;
    std::map<uintptr_t, size_t> holes;
    std::deque<std::pair<uintptr_t, size_t>> quarantine;  // freed: taken again late
    int64_t used = 0;
    QueueRef standard;
    std::mutex queues_mutex;
    std::vector<std::weak_ptr<Queue>> queues;
    std::atomic<int> broken{0};  // a cudaError_t that all later calls give

    std::byte* alias_of(uintptr_t at) const { return alias + (at - address); }
};

Device& current_device();
Device* device_of(const void* pointer);  // nullptr: the address is none of a device
std::vector<QueueRef> queues_of(Device& device);
// Where the host reaches so many bytes of live memory of a device; nullptr: there is none.
std::byte* view_of(const void* pointer, size_t bytes);
void protect(Device& device, uintptr_t address, size_t bytes, int protection);
// Its process knows all kernels that the host's knows by now.
void know_kernels(Device& device);
void break_device(Device& device, cudaError_t error, const char* why);

enum Counter {
    launches,
    copies_to,
    copies_from,
    copies_between,
    bytes_to,
    bytes_from,
    bytes_between,
    pageable,
    live_bytes,
    peak_bytes,
    counter_count
};
void count(Counter counter, long long more = 1);

extern std::atomic<int> libraries;  // of kernels that were loaded since the start

// ---- errors
cudaError_t failed(cudaError_t error);     // remembers it for cudaGetLastError()
cudaError_t wished(const char* function);  // what emulation_fail() asks for; at most once
cudaError_t sticky_error();                // of the current device

// At the begin of functions of the runtime.
#define EMULATION_ENTER                                                                           \
    if (const cudaError_t wish = ::emulation::wished(__func__)) return ::emulation::failed(wish); \
    if (const cudaError_t broken = ::emulation::sticky_error()) return ::emulation::failed(broken)

}  // namespace emulation
