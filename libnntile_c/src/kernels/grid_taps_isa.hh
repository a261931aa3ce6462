// SPDX-License-Identifier: BSD-3-Clause
// Which elements of an image a place takes along a dim, for cores and devices.
#pragma once

#include "kernels/elementary_isa.hh"
#include "kernels/grid.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class T>
struct GridDim {
    T size, scale;  // scale: pixels for a step of 1 of a place
    bool align_corners;
    NNTILE_FN GridDim(T n, bool align)
        : size(n), scale(align ? (n - T(1)) / T(2) : n / T(2)), align_corners(align) {}
    NNTILE_FN T pixel_of(T place) const {
        return align_corners ? (place + T(1)) * scale : ((place + T(1)) * size - T(1)) / T(2);
    }
    NNTILE_FN int32_t element(T x) const {  // -1: none
        const bool there = (x >= T(0)) & (x < size);
        return there ? static_cast<int32_t>(there ? x : T(0)) : -1;
    }
};

// A place that is in the image, if the padding says so, and its slope.
template <class T>
struct GridPlace {
    T at, slope;
};
template <GridPadding padding, class T>
[[gnu::always_inline]] NNTILE_FN inline GridPlace<T> padded_place(const GridDim<T>& dim, T x) {
    T slope = 1;
    if constexpr (padding == GridPadding::zeros) return {x, slope};
    if constexpr (padding == GridPadding::reflection) {
        const T low = dim.align_corners ? T(0) : T(-0.5),
                span = dim.align_corners ? dim.size - T(1) : dim.size;
        const T beyond = std::fabs(x - low), flips = std::floor(beyond / span),
                extra = beyond - flips * span;
        const T half = flips * T(0.5);
        const bool odd = half != std::floor(half), before = x < low;
        slope = select(odd != before, T(-1), T(1));
        x = select(odd, span - extra, extra) + low;
        const bool point = span == T(0);
        x = select(point, T(0), x);
        slope = select(point, T(0), slope);
    }
    slope = select((x > T(0)) & (x < dim.size - T(1)), slope, T(0));
    return {between(x, T(0), dim.size - T(1)), slope};
}

// A place in [-1, 1]: its elements (-1: none), weights, and slopes of the weights, `next` apart.
// Inlined, for a core's loop over places is vectorised.
template <GridMode mode, GridPadding padding, class T>
[[gnu::always_inline]] NNTILE_FN inline void grid_taps(const GridDim<T>& dim, T place,
                                                       int32_t* elements, T* weights, T* slopes,
                                                       int64_t next) {
    const T x = dim.pixel_of(place);
    if constexpr (mode == GridMode::bicubic) {  // its taps are padded one by one
        constexpr T a = T(-0.75);
        const T below = std::floor(x), t = x - below;
        for (int64_t k = 0; k < 4; ++k) {
            const T tap = padded_place<padding>(dim, below + static_cast<T>(k - 1)).at;
            elements[k * next] = dim.element(tap);
            const T d = k == 0 ? T(1) + t : k == 1 ? t : k == 2 ? T(1) - t : T(2) - t;
            const bool outer = k == 0 || k == 3;
            const T weight = outer ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                                   : ((a + 2) * d - (a + 3)) * d * d + T(1);
            const T slope =
                outer ? (3 * a * d - 10 * a) * d + 8 * a : (3 * (a + 2) * d - 2 * (a + 3)) * d;
            weights[k * next] = weight;
            slopes[k * next] = (k < 2 ? slope : -slope) * dim.scale;
        }
    } else {
        const GridPlace<T> own = padded_place<padding>(dim, x);
        if constexpr (mode == GridMode::nearest) {
            elements[0] = dim.element(std::rint(own.at));
            weights[0] = 1;
            slopes[0] = 0;
        } else {
            const T below = std::floor(own.at), slope = own.slope * dim.scale;
            elements[0] = dim.element(below);
            elements[next] = dim.element(below + T(1));
            weights[0] = below + T(1) - own.at;
            weights[next] = own.at - below;
            slopes[0] = -slope;
            slopes[next] = slope;
        }
    }
}

}  // namespace nntile::kernels::NNTILE_ISA
