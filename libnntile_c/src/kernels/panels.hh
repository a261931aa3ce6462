// SPDX-License-Identifier: BSD-3-Clause
// Loops over rows that lie beside each other, one element of each: what rows of classes need where
// the classes are not the last dim. Sums are double; classes are int32.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

// Elements of a row that are added up before the sum becomes a double: to convert each takes most
// of the time.
constexpr int64_t panel_terms = 4;

struct PanelLoops {
    void (*max)(const void* x, int64_t n, void* max);  // max = the larger one; nan wins
    // sum += exp(x - max), and picked = x - max where `own` is the class
    void (*exp_sum)(const void* x, int64_t n, const void* max, const int32_t* own, int32_t of_class,
                    double* sum, double* picked);
    // sum += weight * (x - max)
    void (*shifted_sum)(const void* x, int64_t n, const void* max, double weight, double* sum);
    void (*log)(int64_t n, double* x);
    // dx = exp(x - log_sum) * all - share, less `target` where `own` is the class; 0 where `own` is
    // below 0. log_sum in two parts: of large logits one would be a coarse number.
    void (*cross_entropy_backward)(const void* x, int64_t n, const void* log_sum, const void* rest,
                                   const void* all, const void* share, double weight,
                                   const int32_t* own, int32_t of_class, const void* target,
                                   void* dx);
    // Of softmax: y = exp(x - max), if there is a y, and sum += that; of some elements of each row,
    // at most `panel_terms`, so far apart
    void (*exp_shift)(const void* x, int64_t x_step, int64_t some, int64_t n, const void* max,
                      void* y, int64_t y_step, double* sum);
    void (*scale)(int64_t n, const void* factor, void* y);
    void (*shift)(const void* x, int64_t n, const void* max, const void* log_sum, void* y);
    // Likewise; b: 1 if null
    void (*dot)(const void* a, int64_t a_step, const void* b, int64_t b_step, int64_t some,
                int64_t n, double* sum);
    void (*softmax_backward)(const void* dy, const void* y, int64_t n, const void* dot, void* dx);
    void (*log_softmax_backward)(const void* dy, const void* y, int64_t n, const void* sum,
                                 void* dx);
    // y = p * a + q * (b - s) + r; without b: p * a + r. each: p, q, s and r have an element for
    // each, else one for all. An element has the same bits wherever it is among the n.
    void (*blend)(const void* a, const void* b, int64_t n, bool each, const void* p, const void* q,
                  const void* s, const void* r, void* y);
};
struct PanelTables {
    PanelLoops table[2];  // compute_f32, compute_f64
};
NNTILE_ISA_TABLE(PanelTables, panel_tables)

}  // namespace nntile::kernels
