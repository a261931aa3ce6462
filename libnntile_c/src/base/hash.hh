// SPDX-License-Identifier: BSD-3-Clause
// A 128-bit running hash of 64-bit words: plans are found by it, so that two structures meet by
// chance about never (two independent multiply-xorshift lanes).
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace nntile {

struct Hash {
    uint64_t a = 0x243f6a8885a308d3, b = 0x13198a2e03707344;

    Hash& add(uint64_t word) {
        a = (a ^ word) * 0x9e3779b97f4a7c15;
        a ^= a >> 32;
        b = (b + word) * 0xc2b2ae3d27d4eb4f;
        b ^= b >> 29;
        return *this;
    }
    Hash& add(std::string_view text) {
        add(text.size());
        for (char c : text) add(static_cast<uint8_t>(c));
        return *this;
    }
    template <class Range>
    Hash& add_all(const Range& words) {
        add(words.size());
        for (auto w : words) add(static_cast<uint64_t>(w));
        return *this;
    }
    friend bool operator==(const Hash&, const Hash&) = default;
};

}  // namespace nntile

template <>
struct std::hash<nntile::Hash> {
    size_t operator()(const nntile::Hash& h) const noexcept { return h.a; }
};
