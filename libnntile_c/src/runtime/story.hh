// SPDX-License-Identifier: BSD-3-Clause
// What a program did with memory, in its order, so that it can be played: launches, and data that
// came from the host or that nobody owns any more. Tiles are numbers here.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/dtype.hh"
#include "base/place.hh"
#include "base/shape.hh"

namespace nntile::runtime {

class CompiledPlan;

struct Happened {
    enum class Kind : uint8_t { launch, allocate, write, drop, step };
    Kind kind;
    std::vector<uint64_t> tiles = {};              // of a launch: by memory that is no slot
    std::shared_ptr<CompiledPlan> plan = nullptr;  // of a launch
    std::vector<Place> places = {};                // likewise; empty: those of the plan
};
struct Origin {  // of a tile: which call made it
    uint32_t size_class = 0;
    std::string op;
    Place place = 0;
};
struct Story {
    std::vector<Happened> events;
    std::unordered_map<uint64_t, Origin> origins;  // of all tiles
    std::vector<uint64_t> before;                  // tiles that were there when it began
};

}  // namespace nntile::runtime
