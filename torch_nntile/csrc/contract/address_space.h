// SPDX-License-Identifier: BSD-3-Clause
// Unique addresses for storages: PyTorch compares and subtracts data pointers, so each live storage
// needs a range of its own. No process can have memory there, so nothing is reserved and a limit on
// the address space does not count them; whoever follows one gets a segmentation fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "nntile/nntile.h"

namespace torch_nntile {

// Context of a DataPtr: what one storage owns.
struct Home {
    char* address;
    size_t room;  // bytes of the range, a size class
    size_t nbytes;
    nntile_buffer* buffer;
};

class AddressSpace {
public:
    // Gives the home a range for nbytes bytes. Throws c10::OutOfMemoryError.
    void take(size_t nbytes, Home& home);
    void give(const Home& home);
    // The home whose range holds an address, or nullptr.
    const Home* find(const void* address);
    template <class Visit>
    void each(Visit&& visit) {
        std::lock_guard lock(mutex_);
        for (const auto& [address, home] : live_) visit(*home);
    }

private:
    // Where no mapping of a process can be: bit 55 is that of the kernel's half on aarch64, and
    // bits 63 to 55 are not all equal, as they are in every address on x86-64.
    static constexpr uintptr_t begin = 0x4080'0000'0000'0000, end = 0x4100'0000'0000'0000;

    std::mutex mutex_;
    uintptr_t next_ = begin;
    std::unordered_map<size_t, std::vector<char*>> free_;
    std::map<const char*, const Home*> live_;
};

AddressSpace& address_space();

}  // namespace torch_nntile
