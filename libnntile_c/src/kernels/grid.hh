// SPDX-License-Identifier: BSD-3-Clause
// Loops of grid_sample over some places: which elements of an image each takes along a dim, and
// their sums.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

// So many at most; arrays of taps are [tap][grid_places]
inline constexpr int64_t grid_places = 128;

enum class GridMode : int64_t { bilinear, nearest, bicubic };
enum class GridPadding : int64_t { zeros, border, reflection };
inline constexpr int64_t most_grid_taps = 64;  // 4 along each of three dims
constexpr int64_t taps_of(GridMode mode) {
    return mode == GridMode::nearest ? 1 : mode == GridMode::bilinear ? 2 : 4;
}

struct GridLoops {
    // Of places in [-1, 1] along a dim: elements (-1: none), weights, and slopes of the weights.
    void (*taps)(const void* places, int64_t n, int64_t size, GridMode mode, GridPadding padding,
                 bool align_corners, int32_t* elements, void* weights, void* slopes);
    // y[p] = sum over taps of weights * x[offsets], of which -1 is 0
    void (*sample)(const void* x, int64_t n, int64_t count, const int32_t* offsets,
                   const void* weights, void* y);
    // The same of images whose channels lie beside each other, pixels `step` elements apart: y[p *
    // channels + channel].
    void (*sample_channels)(const void* x, int64_t step, int64_t channels, int64_t n, int64_t count,
                            const int32_t* offsets, const void* weights, void* y);
    // dx[offsets] += weights * dy[p]: the transpose of sample
    void (*spread)(const void* dy, int64_t n, int64_t count, const int32_t* offsets,
                   const void* weights, void* dx);
    // along[tap][p] += dy[p] * x[offsets]
    void (*along)(const void* x, const void* dy, int64_t n, int64_t count, const int32_t* offsets,
                  void* along);
};
struct GridTables {
    GridLoops table[2];  // compute_f32, compute_f64
};
NNTILE_ISA_TABLE(GridTables, grid_tables)

}  // namespace nntile::kernels
