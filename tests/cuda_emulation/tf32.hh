// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bit>
#include <cstdint>

namespace emulation {

// A factor as TF32 has it: 10 bits of the fraction, the nearest.
inline float tf32_of(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x;
    return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

}  // namespace emulation
