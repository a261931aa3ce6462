// SPDX-License-Identifier: BSD-3-Clause
// Vectors as the compiler has them, as wide as a register.
#pragma once

#include <cstdint>

#include "kernels/isa.hh"

namespace nntile::kernels::NNTILE_ISA {

#if defined(__AVX512F__)
constexpr int64_t vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int64_t vector_bytes = 32;
#else
constexpr int64_t vector_bytes = 16;
#endif
template <class T>
struct Vector {
    typedef T type __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};

}  // namespace nntile::kernels::NNTILE_ISA
