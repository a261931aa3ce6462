// SPDX-License-Identifier: BSD-3-Clause
// Loops of pooling over channels that lie beside each other: all channels of one window.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

// The pixels of a window: how many along each dim, how far apart in memory, in elements, and in the
// plane.
struct Window {
    int64_t counts[3], steps[3];
    // Of the first pixel; nothing else of a plane is longer than an int32
    int64_t place, place_steps[3];
};

inline constexpr int64_t long_row = 16;  // elements, at least a vector

struct WindowLoops {
    // x: the first pixel; nan wins, and of equals the first.
    void (*max)(const void* x, const Window& window, int64_t n, void* y, int64_t* places);
    // The same of one channel whose elements lie beside each other along the last dim, at least
    // long_row of them.
    void (*max_of_rows)(const void* x, const Window& window, void* y, int64_t* place);
    void (*average)(const void* x, const Window& window, int64_t n, double divisor, void* y);
    // Dx += dy / divisor
    void (*spread)(const void* dy, const Window& window, int64_t n, double divisor, void* dx);
    // dx[offsets[places[j]] + j] += dy[j]; how many, up to a place that is none of the pixels.
    int64_t (*add_at)(const void* dy, const int64_t* places, const int64_t* offsets, int64_t pixels,
                      int64_t n, void* dx);
};
struct WindowTables {
    WindowLoops table[2];  // compute_f32, compute_f64
};
NNTILE_ISA_TABLE(WindowTables, window_tables)

}  // namespace nntile::kernels
