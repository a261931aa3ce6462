// SPDX-License-Identifier: BSD-3-Clause
// The functions of vectors.def one by one.
#include <cmath>

extern "C" {
#define NNTILE_FUNCTION(name, accuracy)                               \
    float nntile_##name##f(float x) noexcept { return std::name(x); } \
    double nntile_##name(double x) noexcept { return std::name(x); }
#define NNTILE_FUNCTION_OF_TWO(name, accuracy)                                    \
    float nntile_##name##f(float a, float b) noexcept { return std::name(a, b); } \
    double nntile_##name(double a, double b) noexcept { return std::name(a, b); }
#include "kernels/vectors.def"
}
