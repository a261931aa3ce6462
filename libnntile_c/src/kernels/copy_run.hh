// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

namespace nntile::kernels {

// n bytes, one after the other, as memcpy() does. libc leaves some KiB and more to the string move
// of the processor, and that of AMD's Zen is ten times slower where the target begins a few bytes
// behind the source, modulo a page.
inline void copy_run(void* to, const void* from, size_t n) {
    constexpr size_t line = 64, large = 65'536;
    typedef uint64_t Vector __attribute__((vector_size(16)));
    auto* y = static_cast<std::byte*>(to);
    auto* x = static_cast<const std::byte*>(from);
    for (; n >= line && n < large; n -= line, x += line, y += line) {
        Vector held[line / sizeof(Vector)];
        for (size_t k = 0; k < std::size(held); ++k)
            std::memcpy(&held[k], x + k * sizeof(Vector), sizeof(Vector));
        for (size_t k = 0; k < std::size(held); ++k)
            std::memcpy(y + k * sizeof(Vector), &held[k], sizeof(Vector));
    }
    std::memcpy(y, x, n);
}

}  // namespace nntile::kernels
