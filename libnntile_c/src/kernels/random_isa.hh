// SPDX-License-Identifier: BSD-3-Clause
// Philox-4x32-10: 128 random bits that depend on (seed, offset, element) only, so cuts never
// matter.
#pragma once

#include "kernels/math_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

struct Random {
    uint32_t word[4];
    NNTILE_FN uint64_t low() const { return word[0] | static_cast<uint64_t>(word[1]) << 32; }
    NNTILE_FN uint64_t high() const { return word[2] | static_cast<uint64_t>(word[3]) << 32; }
};

NNTILE_FN inline Random philox(uint64_t seed, uint64_t offset, uint64_t element) {
    uint32_t c0 = static_cast<uint32_t>(element), c1 = static_cast<uint32_t>(element >> 32);
    uint32_t c2 = static_cast<uint32_t>(offset), c3 = static_cast<uint32_t>(offset >> 32);
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
        const uint64_t p0 = static_cast<uint64_t>(c0) * 0xd2511f53u;
        const uint64_t p1 = static_cast<uint64_t>(c2) * 0xcd9e8d57u;
        const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c1 = static_cast<uint32_t>(p1);
        c3 = static_cast<uint32_t>(p0);
        c0 = n0;
        c2 = n2;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return {{c0, c1, c2, c3}};
}

// Words of n elements that follow each other: word e % 4 of block e / 4. `room` holds n + 8 words.
NNTILE_FN inline const uint32_t* words_in_order(uint64_t seed, uint64_t offset, int64_t from,
                                                int64_t n, uint32_t* room) {
    const uint64_t first = static_cast<uint64_t>(from) / 4;
    const int64_t skip = from & 3, blocks = (skip + n + 3) / 4;
    for (int64_t b = 0; b < blocks; ++b) {
        const Random r = philox(seed, offset, first + b);
        for (int w = 0; w < 4; ++w) room[4 * b + w] = r.word[w];
    }
    return room + skip;
}

// One word per element, four elements from one block of Philox. `room` holds n + 8 words.
NNTILE_FN inline const uint32_t* random_words(uint64_t seed, uint64_t offset, const int64_t* index,
                                              int64_t n, uint32_t* room) {
    const auto run_from = [&](int64_t i) {
        int64_t run = 1;
        while (i + run < n && index[i + run] == index[i] + run) ++run;
        return run;
    };
    if (run_from(0) == n) return words_in_order(seed, offset, index[0], n, room);
    constexpr int64_t most = 64;
    uint32_t part[most + 8];
    for (int64_t i = 0, count; i < n; i += count) {
        count = std::min(run_from(i), most);
        const uint32_t* words = words_in_order(seed, offset, index[i], count, part);
        std::copy_n(words, count, room + i);
    }
    return room;
}

// Random bits of a uniform number: what is drawn in 16 bits is computed in 32.
template <class T>
inline constexpr int uniform_bits = sizeof(T) == 4 ? 24 : 53;

// The number of the dtype before `high`, which the dtype may round, too: what is drawn from
// [low, high) must not become high when it is rounded.
template <class T>
NNTILE_FN T below(T high, DType dtype) {
    using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
    const Bits fine = dtype == DType::bf16 ? 0xffff : dtype == DType::f16 ? 0x1fff : 0;
    const Bits step = fine + 1, sign = Bits{1} << (8 * sizeof(T) - 1);
    const Bits rounded = (__builtin_bit_cast(Bits, high) + step / 2) & ~fine;
    const Bits found = high > T(0) ? rounded - step : (rounded + step) | sign;
    return high == T(0) ? T(dtype == DType::f16 ? -0x1p-24 : -0x1p-126)
                        : __builtin_bit_cast(T, found);
}

// cos(2 pi u) for u in [0, 1).
template <class T>
NNTILE_FN T cos_turns(T u) {
    const T a = (std::fabs(u - T(0.5)) - T(0.25)) * T(6.28318530717958647693);  // in [-pi/2, pi/2]
    if constexpr (std::is_same_v<T, double>) return std::sin(a);
    const T z = a * a;
    T p = T(-2.5052108e-8);
    p = p * z + T(2.7557319e-6);
    p = p * z - T(1.9841270e-4);
    p = p * z + T(8.3333333e-3);
    p = p * z - T(1.6666667e-1);
    return p * z * a + a;
}

}  // namespace nntile::kernels::NNTILE_ISA
