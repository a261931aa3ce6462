// SPDX-License-Identifier: BSD-3-Clause
// How scatter joins what an element has and what comes to it, for both sides.
#pragma once

#include <limits>

#include "kernels/cuda.hh"
#include "kernels/kernel.hh"

namespace nntile::kernels {

enum { put, put_add, put_mul, put_amin, put_amax };

template <int mode, class T>
NNTILE_FN T joined(T y, T x, T alpha) {
    if constexpr (mode == put_add) return y + alpha * x;
    else if constexpr (mode == put_mul) return y * x;
    else if constexpr (mode == put_amin) return y != y || y < x ? y : x;
    else if constexpr (mode == put_amax) return y != y || y > x ? y : x;
    else return x;
}

// What joined() leaves as it is.
template <class T>
T neutral(int mode, DType dtype) {
    if (mode == put_mul) return 1;
    if (mode == put_add || mode == put) return 0;
    if (std::numeric_limits<T>::has_infinity)
        return mode == put_amin ? std::numeric_limits<T>::infinity()
                                : -std::numeric_limits<T>::infinity();
    const int bits = static_cast<int>(size_of(dtype)) * 8;
    if (dtype == DType::boolean) return mode == put_amin;
    if (dtype == DType::u8) return mode == put_amin ? 255 : 0;
    const int64_t high = static_cast<int64_t>(~uint64_t{0} >> (65 - bits));
    return static_cast<T>(mode == put_amin ? high : -high - 1);
}

}  // namespace nntile::kernels
