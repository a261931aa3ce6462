// SPDX-License-Identifier: BSD-3-Clause
// bfloat16 is the upper half of a float. Always inlined: what several instruction sets share has no
// copy that one of them could lend to another.
#pragma once

#include <cstdint>

#include "kernels/cuda.hh"

namespace nntile::kernels {

[[gnu::always_inline]] NNTILE_FN inline float f32_of_bf16(uint16_t b) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(b) << 16);
}
// To the nearest, of two the even one.
[[gnu::always_inline]] NNTILE_FN inline uint16_t bf16_of_f32(float x) {
    const auto bits = __builtin_bit_cast(uint32_t, x);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
}

}  // namespace nntile::kernels
