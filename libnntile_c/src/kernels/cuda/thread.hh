// SPDX-License-Identifier: BSD-3-Clause
// What a thread of a device needs beside formulas. Includes nothing of the host's side, so that
// code that is made at run time has it, too.
#pragma once

#include "kernels/cuda.hh"
#include "kernels/refuse.hh"

namespace nntile::kernels::cuda {

// The first thread that finds something wrong says it.
__device__ inline void refuse_at(Refused* at, const Refused& refused) {
    auto* word = reinterpret_cast<int32_t*>(&at->what);
    if (atomicCAS(word, int32_t{0}, static_cast<int32_t>(refused.what)) != 0) return;
    at->place = refused.place;
    at->end = refused.end;
    at->value = refused.value;
    at->least = refused.least;
}

// Elements side by side, which are read and written at once.
template <class T, int n>
struct alignas(sizeof(T) * n < 16 ? sizeof(T) * n : 16) Several {
    T v[n];
};

// The place along the innermost of the dims that are left: takes it off `rest`.
NNTILE_FN inline int64_t take_place(int64_t& rest, int64_t size) {
    if (rest >> 32 == 0 && size >> 32 == 0) {  // a division of 64 bits takes many times as long
        const auto r = static_cast<uint32_t>(rest), n = static_cast<uint32_t>(size);
        rest = r / n;
        return r % n;
    }
    const int64_t at = rest % size;
    rest /= size;
    return at;
}

}  // namespace nntile::kernels::cuda
