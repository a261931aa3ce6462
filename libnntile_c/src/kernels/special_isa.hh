// SPDX-License-Identifier: BSD-3-Clause
// Functions that libm and SLEEF lack. All are computed in double: series that cancel have digits to lose.
// Approximations are those of Cephes (S. Moshier), as in PyTorch.
#pragma once

#include <cmath>
#include <limits>

namespace nntile::kernels::NNTILE_ISA {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double no_limit = std::numeric_limits<double>::infinity();

inline double digamma_of(double x) {
    if (x == 0) return std::copysign(no_limit, -x);
    double result = 0;
    if (x < 0) {
        double whole;
        if (x == std::trunc(x)) return no_number;
        result = -pi / std::tan(pi * std::modf(x, &whole));
        x = 1 - x;
    }
    for (; x < 10; x += 1) result -= 1 / x;
    double series = 0;
    if (x < 1e17) {
        constexpr double terms[] = {8.33333333333333333333e-2, -2.10927960927960927961e-2, 7.57575757575757575758e-3,
                                    -4.16666666666666666667e-3, 3.96825396825396825397e-3, -8.33333333333333333333e-3,
                                    8.33333333333333333333e-2};
        const double z = 1 / (x * x);
        for (double term : terms) series = series * z + term;
        series *= z;
    }
    return result + std::log(x) - 0.5 / x - series;
}

inline double trigamma_of(double x) {
    double sign = 1, result = 0;
    if (x < 0.5) {
        sign = -1;
        const double sine = std::sin(pi * x);
        result -= pi * pi / (sine * sine);
        x = 1 - x;
    }
    for (int i = 0; i < 6; ++i, x += 1) result += 1 / (x * x);
    const double z = 1 / (x * x);
    result += (1 + 1 / (2 * x) + z * (1.0 / 6 - z * (1.0 / 30 - z / 42))) / x;
    return sign * result;
}

// Sum of (q + k) ** -x for k = 0, 1, ..: terms, then the formula of Euler and Maclaurin.
inline double zeta_of(double x, double q) {
    constexpr double rounding = 1.11022302462515654042e-16;
    constexpr double coefficients[] = {
        12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10,
        -2.950130727918164224e12, 1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17,
        -7.1661652561756670113e18};
    if (x == 1) return no_limit;
    if (!(x > 1)) return no_number;
    if (q <= 0) {
        if (q == std::floor(q)) return no_limit;
        if (x != std::floor(x)) return no_number;
    }
    double sum = std::pow(q, -x), a = q, b = 0;
    for (int i = 0; i < 9 || a <= 9; ++i) {
        a += 1;
        b = std::pow(a, -x);
        sum += b;
        if (std::abs(b) < rounding * std::abs(sum)) return sum;
    }
    const double w = a;
    sum += b * w / (x - 1) - 0.5 * b;
    a = 1;
    double k = 0;
    for (double c : coefficients) {
        a *= x + k;
        b /= w;
        const double t = a * b / c;
        sum += t;
        if (std::abs(t / sum) < rounding) return sum;
        k += 1;
        a *= x + k;
        b /= w;
        k += 1;
    }
    return sum;
}

// exp(-|x|) * I_n(x) for n = 0 or 1: a series of positive terms, and for large x the asymptotic one.
inline double bessel_i_scaled(double n, double x) {
    const double size = std::abs(x), sign = n == 1 && x < 0 ? -1 : 1;
    double term = 1, sum = 1;
    if (size <= 30) {
        const double z = size * size / 4;
        for (double k = 1; term > sum * 1e-17; ++k) sum += term *= z / (k * (k + n));
        return sign * sum * (n == 1 ? size / 2 : 1) * std::exp(-size);
    }
    for (double k = 1; std::abs(term) > 1e-17 && k < 40; ++k)
        sum += term *= -(4 * n * n - (2 * k - 1) * (2 * k - 1)) / (k * 8 * size);
    return sign * sum / std::sqrt(2 * pi * size);
}
inline double bessel_i(double n, double x) {
    const double half = std::exp(std::abs(x) / 2);      // the whole may be too large where the product is not
    return bessel_i_scaled(n, x) * half * half;
}

// A rational approximation, and two steps of Newton.
inline double erfinv_of(double y) {
    const double size = std::abs(y);
    if (!(size <= 1)) return no_number;
    if (size == 1) return std::copysign(no_limit, y);
    double x;
    if (size <= 0.7) {
        const double z = y * y;
        x = y * (((-0.140543331 * z + 0.914624893) * z - 1.645349621) * z + 0.886226899) /
            ((((0.012229801 * z - 0.329097515) * z + 1.442710462) * z - 2.118377725) * z + 1);
    } else {
        const double z = std::sqrt(-std::log((1 - size) / 2));
        x = std::copysign((((1.641345311 * z + 3.429567803) * z - 1.624906493) * z - 1.970840454) /
                              ((1.637067800 * z + 3.543889200) * z + 1), y);
    }
    for (int i = 0; i < 2; ++i) x -= (std::erf(x) - y) / (2 / std::sqrt(pi) * std::exp(-x * x));
    return x;
}

}  // namespace nntile::kernels::NNTILE_ISA
