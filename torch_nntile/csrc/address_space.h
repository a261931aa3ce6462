// SPDX-License-Identifier: BSD-3-Clause
// Unique addresses for storages. The ranges are reserved, never readable (PROT_NONE) and cost no
// memory: PyTorch compares and subtracts data pointers, so each live storage needs a range of its
// own.
#pragma once

#include <cstddef>
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
    nntile_buffer* buffer;
};

class AddressSpace {
public:
    // Gives the home a range for nbytes bytes. Throws c10::OutOfMemoryError.
    void take(size_t nbytes, Home& home);
    void give(const Home& home);
    // The home whose range holds an address, or nullptr.
    const Home* find(const void* address);

private:
    void reserve(size_t room);

    std::mutex mutex_;
    char *next_ = nullptr, *end_ = nullptr;
    std::unordered_map<size_t, std::vector<char*>> free_;
    std::map<const char*, const Home*> live_;
};

AddressSpace& address_space();

}  // namespace torch_nntile
