// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/grid.hh"

#include "kernels/grid_taps_isa.hh"
#include "kernels/vector_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T>
struct Grid {
    template <GridMode mode, GridPadding padding>
    static void taps_of_mode(const T* places, int64_t n, T size, bool align_corners,
                             int32_t* elements, T* weights, T* slopes) {
        const GridDim<T> dim(size, align_corners);
#pragma GCC ivdep
        for (int64_t p = 0; p < n; ++p)
            grid_taps<mode, padding>(dim, places[p], elements + p, weights + p, slopes + p,
                                     grid_places);
    }
    template <GridMode mode>
    static void taps_of_padding(const T* places, int64_t n, T size, GridPadding padding,
                                bool align_corners, int32_t* elements, T* weights, T* slopes) {
        const auto run = [&](auto loop) {
            loop(places, n, size, align_corners, elements, weights, slopes);
        };
        if (padding == GridPadding::zeros) run(taps_of_mode<mode, GridPadding::zeros>);
        else if (padding == GridPadding::border) run(taps_of_mode<mode, GridPadding::border>);
        else run(taps_of_mode<mode, GridPadding::reflection>);
    }
    static void taps(const void* from, int64_t n, int64_t extent, GridMode mode,
                     GridPadding padding, bool align_corners, int32_t* elements, void* weight,
                     void* slope) {
        const T *places = static_cast<const T*>(from), size = static_cast<T>(extent);
        T *weights = static_cast<T*>(weight), *slopes = static_cast<T*>(slope);
        const auto run = [&](auto loop) {
            loop(places, n, size, padding, align_corners, elements, weights, slopes);
        };
        if (mode == GridMode::nearest) run(taps_of_padding<GridMode::nearest>);
        else if (mode == GridMode::bilinear) run(taps_of_padding<GridMode::bilinear>);
        else run(taps_of_padding<GridMode::bicubic>);
    }

    static T value(const T* x, int32_t offset) {
        const T found = x[offset < 0 ? 0 : offset];
        return offset < 0 ? T(0) : found;
    }
    static void sample(const void* from, int64_t n, int64_t count, const int32_t* offsets,
                       const void* weight, void* to) {
        const T *x = static_cast<const T*>(from), *weights = static_cast<const T*>(weight);
        T* y = static_cast<T*>(to);
        for (int64_t k = 0; k < count; ++k, offsets += grid_places, weights += grid_places) {
            if (k == 0) {
#pragma GCC ivdep
                for (int64_t p = 0; p < n; ++p) y[p] = weights[p] * value(x, offsets[p]);
            } else {
#pragma GCC ivdep
                for (int64_t p = 0; p < n; ++p) y[p] += weights[p] * value(x, offsets[p]);
            }
        }
    }
    static void sample_channels(const void* from, int64_t step, int64_t channels, int64_t n,
                                int64_t count, const int32_t* offsets, const void* weight,
                                void* to) {
        using V = typename Vector<T>::type;
        constexpr int64_t lanes = vector_bytes / sizeof(T);
        const T *x = static_cast<const T*>(from), *weights = static_cast<const T*>(weight);
        T* y = static_cast<T*>(to);
        for (int64_t p = 0; p < n; ++p, y += channels) {
            const T* pixels[most_grid_taps];
            // Of what is outside of the image, which is 0: nan of a weight nan
            T own[most_grid_taps], outside = 0;
            int64_t inside = 0;
            for (int64_t k = 0; k < count; ++k) {
                const int64_t offset = offsets[k * grid_places + p];
                const T w = weights[k * grid_places + p];
                if (offset < 0) {
                    outside += w * T(0);
                } else {
                    pixels[inside] = x + offset * step;
                    own[inside++] = w;
                }
            }
            // The first term is no sum, as in sample().
            const bool all = inside == count;
            int64_t j = 0;
            for (; j + lanes <= channels; j += lanes) {
                V total = all ? own[0] * *reinterpret_cast<const V*>(pixels[0] + j) : V{} + outside;
                for (int64_t k = all; k < inside; ++k)
                    total += own[k] * *reinterpret_cast<const V*>(pixels[k] + j);
                *reinterpret_cast<V*>(y + j) = total;
            }
            for (; j < channels; ++j) {
                T total = all ? own[0] * pixels[0][j] : outside;
                for (int64_t k = all; k < inside; ++k) total += own[k] * pixels[k][j];
                y[j] = total;
            }
        }
    }
    static void spread(const void* from, int64_t n, int64_t count, const int32_t* offsets,
                       const void* weight, void* to) {
        const T *dy = static_cast<const T*>(from), *weights = static_cast<const T*>(weight);
        T* dx = static_cast<T*>(to);
        for (int64_t k = 0; k < count; ++k, offsets += grid_places, weights += grid_places)
            for (int64_t p = 0; p < n; ++p)
                if (offsets[p] >= 0) dx[offsets[p]] += weights[p] * dy[p];
    }
    static void along(const void* from, const void* grad, int64_t n, int64_t count,
                      const int32_t* offsets, void* to) {
        const T *x = static_cast<const T*>(from), *dy = static_cast<const T*>(grad);
        T* sum = static_cast<T*>(to);
        for (int64_t k = 0; k < count; ++k, offsets += grid_places, sum += grid_places) {
#pragma GCC ivdep
            for (int64_t p = 0; p < n; ++p) sum[p] += dy[p] * value(x, offsets[p]);
        }
    }

    static constexpr GridLoops loops = {taps, sample, sample_channels, spread, along};
};

}  // namespace

constinit const GridTables grid_tables = {{Grid<float>::loops, Grid<double>::loops}};

}  // namespace nntile::kernels::NNTILE_ISA
