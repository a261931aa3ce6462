// SPDX-License-Identifier: BSD-3-Clause
// NNTILE_SENTINELS=1: after each task, what it must not write is as it was: tiles that it only
// reads, and what lies in a block of memory behind the tile. Slow; finds wrong kernels and races.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/compiled_plan.hh"

namespace nntile::runtime {

class Sentinels {
public:
    static bool wanted();
    Sentinels(const Run& run, uint32_t task, const Blocks& blocks);  // before the kernel
    const char* broken() const;                                      // after it; nullptr: none

private:
    struct Kept {
        const std::byte* from;
        bool reads;  // all of a tile, not what is behind it
        std::vector<std::byte> bytes;
    };
    std::vector<Kept> kept_;
};

}  // namespace nntile::runtime
