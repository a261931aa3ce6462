// SPDX-License-Identifier: BSD-3-Clause
// What a primitive gets from the map engine: contiguous registers of its compute type.
#pragma once

#include "kernels/convert.hh"
#include "kernels/isa.hh"

namespace nntile::kernels {

inline constexpr int64_t most_indices = 1024;  // of a chunk

// How an operand lies where a loop reads or writes it.
struct Stored {
    Convert convert = nullptr;  // nullptr: one after the other, as the loop computes
    int64_t bytes = 0;          // from one element to the next
    int64_t stride = 1;         // the same, in elements
    int64_t row = 0;            // bytes from one row to the next
};
struct Loop {
    int64_t n;     // elements of a row
    int64_t rows;  // loops that are not by_blocks get one; several have whole blocks
    const void* const* in;
    // An input whose elements are all equal: only the first `map_block` are there
    const bool* uniform;
    void* const* out;      // may equal inputs
    const Stored* stored;  // inputs, then outputs; only loops that are by_blocks convert
    const Param* params;
    const int64_t* index;  // of each element, at most most_indices; only if the row uses it
    DType result;          // dtype of the first output
};
// Rows of map.def that are one expression go through elements in blocks of so many.
inline constexpr int64_t map_block = convert_block;
using MapLoop = void (*)(const Loop& loop);

enum : size_t {
#define MAP(name, ...) number_of_##name,
#define MAP_LOOP(name, ...) number_of_##name,
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP
    map_row_count
};

struct MapLoops {
    MapLoop loop[map_row_count][compute_count];  // nullptr: the row does not take these types
};
NNTILE_ISA_TABLE(MapLoops, map_loops)

}  // namespace nntile::kernels
