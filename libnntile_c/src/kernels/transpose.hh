// SPDX-License-Identifier: BSD-3-Clause
// Transposition of matrices whose rows lie in memory one element after the other, in squares that
// fit the registers.
#pragma once

#include <bit>

#include "kernels/isa.hh"

namespace nntile::kernels {

// y[i * y_step + j] = x[j * x_step + i] for i < m, j < n; x and y do not overlap.
using Transpose = void (*)(const void* x, int64_t x_step, void* y, int64_t y_step, int64_t m,
                           int64_t n);

struct Transposes {
    Transpose run[4];  // of elements of 1, 2, 4 and 8 bytes
};
NNTILE_ISA_TABLE(Transposes, transposes)

inline Transpose transpose_of(int64_t bytes) {
    return transposes().run[std::countr_zero(static_cast<uint64_t>(bytes))];
}

}  // namespace nntile::kernels
