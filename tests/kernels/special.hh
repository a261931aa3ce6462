// SPDX-License-Identifier: BSD-3-Clause
// Functions that models call seldom, by formulas of their own: series, bisection, the standard
// library's.
#pragma once

#include <cmath>

namespace nntile::test {

inline double erfinv(double y) {
    double low = -6, high = 6;
    for (int i = 0; i < 80; ++i) {
        const double middle = (low + high) / 2;
        (std::erf(middle) < y ? low : high) = middle;
    }
    return low;
}

// Derivatives of log(gamma(x)), x > 0: recurrences up to where the asymptotic series is exact.
inline double digamma(double x) {
    long double result = 0, at = x;
    for (; at < 40; at += 1) result -= 1 / at;
    const long double z = 1 / (at * at);
    return static_cast<double>(result + std::log(at) - 1 / (2 * at) -
                               z * (1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z / 240))));
}
inline double trigamma(double x) {
    long double result = 0, at = x;
    for (; at < 40; at += 1) result += 1 / (at * at);
    const long double z = 1 / (at * at);
    return static_cast<double>(result +
                               (1 + 1 / (2 * at) + z * (1.0L / 6 - z * (1.0L / 30 - z / 42))) / at);
}

// Sum of (q + k) ** -x for k = 0, 1, ..: terms, and what an integral and half a term make of the
// rest.
inline double zeta(double x, double q) {
    const long double power = -x;
    long double result = 0, at = q;
    for (int k = 0; k < 2000; ++k, at += 1) result += std::pow(at, power);
    const long double last = std::pow(at, power);
    return static_cast<double>(result + last * at / (x - 1) + last / 2 + x * last / (12 * at));
}

inline double bessel_i(double order, double x) {
    const double value = std::cyl_bessel_i(order, std::fabs(x));
    return order == 1 && x < 0 ? -value : value;
}

}  // namespace nntile::test
