// SPDX-License-Identifier: BSD-3-Clause
// Unique addresses for storages: PyTorch compares and subtracts data pointers, so each live storage
// needs a range of its own. No process can have memory there, so nothing is reserved and a limit on
// the address space does not count them; whoever follows one gets a segmentation fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "nntile/nntile.h"

namespace torch_nntile {

// Context of a DataPtr: what one storage owns.
struct Home {
    char* address;
    size_t range;  // which of the ranges
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
        for (const Range& range : ranges_)
            if (range.home) visit(*range.home);
    }

private:
    // Where no mapping of a process can be: bit 55 is that of the kernel's half on aarch64, and
    // bits 63 to 55 are not all equal, as they are in every address on x86-64.
    static constexpr uintptr_t begin = 0x4080'0000'0000'0000, end = 0x4100'0000'0000'0000;

    struct Range {
        uintptr_t address;
        const Home* home;  // nullptr: free
    };
    std::mutex mutex_;
    uintptr_t next_ = begin;
    std::vector<Range> ranges_;  // by address: none ends, and a new one lies behind the others
    std::unordered_map<size_t, std::vector<size_t>> free_;  // by bytes
};

AddressSpace& address_space();

}  // namespace torch_nntile
