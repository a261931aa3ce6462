// SPDX-License-Identifier: BSD-3-Clause
// What kernels over images share: places are ints, for a division of 64 bits takes many times as
// long, and spatial dims are three, of which missing ones come first.
#pragma once

#include <climits>
#include <cstdlib>

#include "kernels/cuda/element.hh"
#include "kernels/cuda/launch.hh"

namespace nntile::kernels::cuda {

constexpr int most_axes = 3;

inline bool is_short(int64_t x) { return x >= -INT_MAX && x <= INT_MAX; }
// Whether all operands lie on the device, and their places are ints.
inline bool is_short(const Args& args) {
    if (args.numbers != 0) return false;
    for (const Block& b : args.blocks) {
        int64_t reach = 0;
        for (size_t d = 0; b.data && d < args.sizes.size(); ++d) {
            if (!is_short(b.strides[d]) || !is_short(args.sizes[d])) return false;
            reach += std::abs(b.strides[d]) * args.sizes[d];
        }
        if (!is_short(reach)) return false;
    }
    return true;
}
inline int short_of(int64_t x) { return static_cast<int>(x); }

// The place along the innermost of the dims that are left: takes it off `rest`.
NNTILE_FN inline int take_digit(int& rest, int size) {
    const auto r = static_cast<unsigned>(rest), n = static_cast<unsigned>(size);
    rest = static_cast<int>(r / n);
    return static_cast<int>(r % n);
}

// Whether an image has its channels beside each other, not the pixels of a row.
inline bool lies_last(int channel, int pixel, int pixels) {
    return channel != 0 && (pixels == 1 || std::abs(channel) < std::abs(pixel));
}

// Of a floating dtype.
template <class T>
__device__ T real_at(const void* data, DType dtype, int64_t at) {
    if (dtype == DType::f16) return number_at<DType::f16, T>(data, at);
    if (dtype == DType::bf16) return number_at<DType::bf16, T>(data, at);
    return dtype == DType::f64 ? number_at<DType::f64, T>(data, at)
                               : number_at<DType::f32, T>(data, at);
}
template <class T>
__device__ void set_real(void* data, DType dtype, int64_t at, T x) {
    if (dtype == DType::f16) static_cast<uint16_t*>(data)[at] = f16_of_f32(static_cast<float>(x));
    else if (dtype == DType::bf16)
        static_cast<uint16_t*>(data)[at] = bf16_of_f32(static_cast<float>(x));
    else if (dtype == DType::f64) static_cast<double*>(data)[at] = x;
    else static_cast<float*>(data)[at] = static_cast<float>(x);
}

}  // namespace nntile::kernels::cuda
