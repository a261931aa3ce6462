// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/isa.hh"

namespace nntile::kernels {
namespace {

Isa detect() {
#if defined(NNTILE_HAVE_X86_ISAS)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) return Isa::avx512;
    if (__builtin_cpu_supports("x86-64-v3")) return Isa::avx2;
#endif
    return Isa::baseline;
}

}  // namespace

Isa chosen_isa() {
    static const Isa isa = detect();
    return isa;
}

const char* isa() {
    constexpr const char* names[] = {"baseline", "avx2", "avx512"};
    return names[static_cast<int>(chosen_isa())];
}

}  // namespace nntile::kernels
