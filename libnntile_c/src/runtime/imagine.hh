// SPDX-License-Identifier: BSD-3-Clause
// Tensors without data: their tiles have sizes and origins, launches note what they would use, and
// no task runs. So a step that no machine here could hold can be recorded, and played (rehearse.hh).
#pragma once

#include <map>
#include <span>

#include "runtime/story.hh"
#include "runtime/tile.hh"

namespace nntile::runtime {

// All of them: engine's mutex.
Tile* imagine_tile(uint32_t size_class, DType dtype, const Dims& sizes, std::string op,
                   Place place);
bool is_imagined(const Tile& tile);
void forget_imagined(const Tile& tile);  // nobody owns it any more
const Origin& origin_of(const Tile& tile);
const std::map<uint64_t, Origin>& imagined_tiles();  // those that are owned, in order

}  // namespace nntile::runtime
