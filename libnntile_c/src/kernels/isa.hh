// SPDX-License-Identifier: BSD-3-Clause
// Run-time choice among copies of the same code. Files named *_isa.cc are compiled once per
// instruction set, with NNTILE_ISA naming the copy; each defines `constinit const` tables of
// functions in its namespace.
//
// Rules for *_isa.cc and *_isa.hh: everything lives in namespace NNTILE_ISA, nothing is initialised
// at load time, and no library function that the compiler might emit out of line is called except
// libm's. Otherwise the linker could keep an AVX-512 copy of it for a machine without AVX-512.
#pragma once

#include "kernels/cuda.hh"
#include "kernels/kernel.hh"

namespace nntile::kernels {

enum class Isa : uint8_t { baseline, avx2, avx512 };
Isa chosen_isa();

// NNTILE_ISA_TABLE(Loops, loops) declares the copies; loops() is the one for this machine.
#if defined(NNTILE_HAVE_X86_ISAS)
#define NNTILE_ISA_TABLE(Type, table)                \
    namespace baseline {                             \
    extern const Type table;                         \
    }                                                \
    namespace avx2 {                                 \
    extern const Type table;                         \
    }                                                \
    namespace avx512 {                               \
    extern const Type table;                         \
    }                                                \
    inline const Type& table() {                     \
        const Isa isa = chosen_isa();                \
        return isa == Isa::avx512 ? avx512::table    \
               : isa == Isa::avx2 ? avx2::table      \
                                  : baseline::table; \
    }
#else
#define NNTILE_ISA_TABLE(Type, table) \
    namespace baseline {              \
    extern const Type table;          \
    }                                 \
    inline const Type& table() { return baseline::table; }
#endif

// Types of arithmetic, as indices of the tables.
enum Compute : uint8_t { compute_f32, compute_f64, compute_i64, compute_count };

constexpr Compute compute_of(DType dtype) {  // in which an element of this dtype is exact
    if (dtype == DType::f64) return compute_f64;
    return is_floating(dtype) ? compute_f32 : compute_i64;
}
constexpr DType dtype_of(Compute c) {
    return c == compute_f32 ? DType::f32 : c == compute_f64 ? DType::f64 : DType::i64;
}
constexpr int64_t size_of(Compute c) { return c == compute_f32 ? 4 : 8; }

}  // namespace nntile::kernels
