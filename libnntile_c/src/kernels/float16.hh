// SPDX-License-Identifier: BSD-3-Clause
// float16 without instructions for it. Always inlined, as bfloat16.hh.
#pragma once

#include <cstdint>

#include "kernels/cuda.hh"

namespace nntile::kernels {

[[gnu::always_inline]] NNTILE_FN inline float plain_f32_of_f16(uint16_t h) {
    // Shifted in place the exponent is 112 too small; the product repairs it and normalises
    // subnormals.
    const uint32_t magnitude = static_cast<uint32_t>(h & 0x7fff) << 13;
    const auto finite =
        __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f);
    const uint32_t bits = magnitude >= 0x0f800000 ? magnitude | 0x7f800000 : finite;  // inf, nan
    return __builtin_bit_cast(float, bits | static_cast<uint32_t>(h & 0x8000) << 16);
}

// To nearest even
[[gnu::always_inline]] NNTILE_FN inline uint16_t plain_f16_of_f32(float x) {
    const auto bits = __builtin_bit_cast(uint32_t, x);
    const uint32_t magnitude = bits & 0x7fffffff;
    // Normal results: rebias and round to nearest even by an integer addition; a carry may reach
    // infinity.
    const uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
    // Subnormal results: adding 0.5 puts the rounding where the float unit does it.
    const uint32_t subnormal =
        __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) + 0.5f) - 0x3f000000;
    uint32_t h = magnitude < 0x38800000 ? subnormal : normal;
    h = magnitude >= 0x47800000 ? 0x7c00 : h;
    h = magnitude > 0x7f800000 ? 0x7e00 : h;
    return static_cast<uint16_t>(h | (bits >> 16 & 0x8000));
}

}  // namespace nntile::kernels
