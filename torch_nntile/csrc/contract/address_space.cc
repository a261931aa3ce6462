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
    const size_t bytes = size_class(nbytes);
    std::lock_guard lock(mutex_);
    std::vector<size_t>& free = free_[bytes];
    if (!free.empty()) {
        home.range = free.back();
        free.pop_back();
    } else {
        TORCH_CHECK_WITH(OutOfMemoryError, bytes <= end - next_,
                         "nntile: no address is left for a storage of ", nbytes, " bytes");
        home.range = ranges_.size();
        ranges_.push_back({next_, nullptr});
        next_ += bytes;
    }
    home.nbytes = nbytes;
    home.address = reinterpret_cast<char*>(ranges_[home.range].address);
    ranges_[home.range].home = &home;
}

void AddressSpace::give(const Home& home) {
    std::lock_guard lock(mutex_);
    ranges_[home.range].home = nullptr;
    free_[size_class(home.nbytes)].push_back(home.range);
}

const Home* AddressSpace::find(const void* address) {
    const auto p = reinterpret_cast<uintptr_t>(address);
    std::lock_guard lock(mutex_);
    if (p >= next_) return nullptr;
    const auto behind = std::ranges::upper_bound(ranges_, p, {}, &Range::address);
    return behind == ranges_.begin() ? nullptr : std::prev(behind)->home;
}

AddressSpace& address_space() {
    static auto* space = new AddressSpace;  // storages may outlive static objects
    return *space;
}

}  // namespace torch_nntile
