// SPDX-License-Identifier: BSD-3-Clause
// Tensors without data: their tiles have sizes and origins, launches note what they would use, and
// no task runs. So a step that no machine here could hold can be recorded, and played
// (rehearse.hh).
#pragma once

#include "runtime/story.hh"
#include "runtime/tile.hh"

namespace nntile::runtime {

// All of them: engine's mutex.
TileRef imagine_tile(uint32_t size_class, DType dtype, const Dims& sizes, std::string op,
                     Place place);
const Origin& origin_of(const Tile& tile);
void begin_story();  // what happens from now on is noted; of tiles, those that are there too
Story end_story();
void note(Happened event);  // no-op if nobody wants to know

}  // namespace nntile::runtime
