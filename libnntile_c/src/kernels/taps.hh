// SPDX-License-Identifier: BSD-3-Clause
// Loops of a linear map along one dim with few inputs, taps, for each output.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

// Of output o the taps ends[o - 1] to ends[o]; weights in the type of the elements, for integers
// all are 1.
struct TapList {
    const int64_t *ends, *inputs;
    const void* weights;
    int64_t outputs;
    // If every output has so many taps: those of all outputs, first ones first. 0: they have not.
    int64_t each;
    const int32_t* places;
    const void* place_weights;
    // Of a tap and of so many outputs that fill 64 bytes, as picks[tap][block]: two vectors of
    // inputs, from `first` and from `second` on, and which of their elements each output takes. The
    // last outputs are taken as late as they end. Null: they do not lie so.
    struct Pick {
        int32_t first, second, from[16];
    };
    const Pick* picks;
    int64_t inputs_in_row;
};

struct TapLoops {
    // One output of n rows beside each other: y[j] = sum of weight * x[input * step + j] over
    // `count` taps.
    void (*of_rows)(const void* x, int64_t step, const int64_t* inputs, const void* weights,
                    int64_t count, int64_t n, void* y);
    // The same of all outputs, each n beside each other.
    void (*of_pixels)(const void* x, int64_t step, const TapList& taps, int64_t n, void* y);
    // All outputs of one row whose elements lie beside each other.
    void (*of_row)(const void* x, const TapList& taps, void* y);
};
struct TapTables {
    TapLoops table[compute_count];
    TapLoops of_short;  // two bytes that are only moved
};
NNTILE_ISA_TABLE(TapTables, tap_tables)

}  // namespace nntile::kernels
