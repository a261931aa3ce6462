// SPDX-License-Identifier: BSD-3-Clause
// What the environment says; README.md has the table.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace emulation {

inline constexpr int max_devices = 8;

struct Settings {
    int devices = static_cast<int>(number("DEVICES", 1));
    int architecture = static_cast<int>(number("ARCHITECTURE", 90));
    int64_t memory_bytes = number("MEMORY_MB", 256) << 20;
    long delay_us = number("DELAY_US", 0);
    uint64_t seed = static_cast<uint64_t>(number("SEED", 1));
    bool shuffle = number("SHUFFLE", 1) != 0;
    // 2: a device sees nothing of the host's memory; 1: what was there when it was made; 0: there
    // are no processes, for debuggers and sanitizers, and nothing is protected.
    long isolate = number("ISOLATE", 2);
    bool report = number("REPORT", 0) != 0;
    const char* fail = std::getenv("EMULATION_FAIL");
    const char* kernels = std::getenv("EMULATION_KERNELS");

    static long number(const char* name, long initial) {
        char full[64] = "EMULATION_";
        for (size_t i = 0, at = 10; name[i]; ++i, ++at) full[at] = name[i];
        const char* text = std::getenv(full);
        return text && *text ? std::strtol(text, nullptr, 0) : initial;
    }
};
const Settings& settings();

// A generator of numbers (Steele, Lea and Flood: SplitMix).
inline uint64_t draw(uint64_t& state) {
    state += 0x9e3779b97f4a7c15;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

}  // namespace emulation
