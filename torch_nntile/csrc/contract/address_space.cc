// SPDX-License-Identifier: BSD-3-Clause
#include "contract/address_space.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>

namespace torch_nntile {
namespace {

constexpr size_t largest = size_t{1} << 44;

// Eight size classes for each doubling, so that freed ranges fit again.
size_t size_class(size_t nbytes) {
    if (nbytes <= 64) return 64;
    const size_t step = std::max<size_t>(std::bit_floor(nbytes) >> 3, 64);
    return (nbytes + step - 1) / step * step;
}

}  // namespace

void AddressSpace::take(size_t nbytes, Home& home) {
    TORCH_CHECK_WITH(OutOfMemoryError, nbytes <= largest, "nntile: a storage of ", nbytes,
                     " bytes is larger than any memory");
    home.room = size_class(nbytes);
    home.nbytes = nbytes;
    std::lock_guard lock(mutex_);
    if (auto it = free_.find(home.room); it != free_.end() && !it->second.empty()) {
        home.address = it->second.back();
        it->second.pop_back();
    } else {
        TORCH_CHECK_WITH(OutOfMemoryError, home.room <= end - next_,
                         "nntile: no address is left for a storage of ", nbytes, " bytes");
        home.address = reinterpret_cast<char*>(next_);
        next_ += home.room;
    }
    live_[home.address] = &home;
}

void AddressSpace::give(const Home& home) {
    std::lock_guard lock(mutex_);
    live_.erase(home.address);
    free_[home.room].push_back(home.address);
}

const Home* AddressSpace::find(const void* address) {
    const auto* p = static_cast<const char*>(address);
    std::lock_guard lock(mutex_);
    auto it = live_.upper_bound(p);
    if (it == live_.begin()) return nullptr;
    --it;
    return p < it->first + it->second->room ? it->second : nullptr;
}

AddressSpace& address_space() {
    static auto* space = new AddressSpace;  // storages may outlive static objects
    return *space;
}

}  // namespace torch_nntile
