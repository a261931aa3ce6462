// SPDX-License-Identifier: BSD-3-Clause
// Folding many elements into one: the loops behind reduce, argmax and argmin.
#pragma once

#include <iterator>

#include "kernels/isa.hh"

namespace nntile::kernels {

enum class Fold : uint8_t {
#define FOLD(name, formula, combine, result) name,
#include "kernels/fold.def"
#undef FOLD
};
inline constexpr const char* fold_names[] = {
#define FOLD(name, formula, combine, result) #name,
#include "kernels/fold.def"
#undef FOLD
};
inline constexpr size_t fold_count = std::size(fold_names);

// Runs are folded in pieces of so many elements: one that is cut where they end has the same bits.
inline constexpr int64_t run_piece = 2048;

// Wider than the elements, so that partial results lose nothing: `f` for f32 and f64, else `i`.
union Total {
    double f;
    int64_t i;
};

struct Folds {
    struct Op {
        // *total = fold of *total and n contiguous elements.
        void (*run)(const void* x, int64_t n, Total* total);
        // *total = fold of *total and all elements of so many rows of 1 to 2,048, `step` elements
        // apart.
        void (*plane)(const void* x, int64_t step, int64_t rows, int64_t n, Total* total);
        // total[i] = fold of total[i] and row i of so many, `step` elements apart.
        void (*rows)(const void* x, int64_t step, int64_t rows, int64_t n, Total* total);
        // total[j] = fold of total[j] and element j of each of so many rows.
        void (*columns)(const void* x, int64_t step, int64_t rows, int64_t n, Total* total);
        // y[j] = fold of element j of each of so few rows, 1 or more, in their own type.
        void (*few)(const void* x, int64_t step, int64_t rows, int64_t n, void* y);
        // total[j] = fold of total[j] and other[j], both totals (sumsq adds).
        void (*join)(const Total* other, int64_t n, Total* total);
        // total[j] = fold of so many totals that are total[j] each, 1 or more.
        void (*repeat)(int64_t times, int64_t n, Total* total);
        Total identity;
    };
    Op op[fold_count][compute_count];
    // First element equal to the value, or first nan if the value is nan; n if there is none.
    int64_t (*find[compute_count])(const void* x, int64_t n, Total value);
};
NNTILE_ISA_TABLE(Folds, folds)

constexpr Compute total_compute(Compute c) { return c == compute_i64 ? compute_i64 : compute_f64; }

}  // namespace nntile::kernels
