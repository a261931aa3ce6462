// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <cstring>

namespace nntile::kernels {

// n bytes, one after the other, as memcpy() does. libc leaves some KiB and more to the string move of the processor,
// and that of AMD's Zen is ten times slower where the target begins a few bytes behind the source, modulo a page:
// there it gets pieces that it moves by vectors.
inline void copy_run(void* to, const void* from, size_t n) {
    constexpr size_t page = 4096, line = 64, piece = 1024;
    const size_t behind = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % page;
    size_t at = 0;
    if (behind - 1 < line - 1)
        for (; n - at > piece; at += piece)
            std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, piece);
    std::memcpy(static_cast<std::byte*>(to) + at, static_cast<const std::byte*>(from) + at, n - at);
}

}  // namespace nntile::kernels
