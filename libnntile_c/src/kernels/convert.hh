// SPDX-License-Identifier: BSD-3-Clause
// Reading elements of any dtype into a contiguous register of a compute type, and back.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

// The strided side has `stride` elements from one to the next (0: the same element n times).
using Convert = void (*)(const void* from, void* to, int64_t stride, int64_t n);
// The fastest n.
inline constexpr int64_t convert_block = 64;

struct Conversions {
    Convert load[dtype_count][compute_count];   // strided -> contiguous
    Convert store[compute_count][dtype_count];  // contiguous -> strided
    // To what a dtype has of it, of the compute type as before; both contiguous
    Convert narrow[compute_count][dtype_count];
};
NNTILE_ISA_TABLE(Conversions, conversions)

inline Convert loader(DType from, Compute to) {
    return conversions().load[static_cast<int>(from)][to];
}
inline Convert storer(Compute from, DType to) {
    return conversions().store[from][static_cast<int>(to)];
}

inline Convert narrower(Compute compute, DType to) {
    return conversions().narrow[compute][static_cast<int>(to)];
}

}  // namespace nntile::kernels
