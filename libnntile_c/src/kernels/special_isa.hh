// SPDX-License-Identifier: BSD-3-Clause
// Functions that libm and SLEEF lack. Those with series that cancel, which have digits to lose, are
// computed in double. Approximations are those of Cephes (S. Moshier), as in PyTorch.
#pragma once

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/math_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

inline constexpr double pi = 3.14159265358979323846;
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double no_limit = std::numeric_limits<double>::infinity();

NNTILE_FN inline double digamma_of(double x) {
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
        constexpr double terms[] = {8.33333333333333333333e-2, -2.10927960927960927961e-2,
                                    7.57575757575757575758e-3, -4.16666666666666666667e-3,
                                    3.96825396825396825397e-3, -8.33333333333333333333e-3,
                                    8.33333333333333333333e-2};
        const double z = 1 / (x * x);
        for (double term : terms) series = series * z + term;
        series *= z;
    }
    return result + std::log(x) - 0.5 / x - series;
}

// By numbers instead of conditions: see sinh_of().
NNTILE_FN inline double trigamma_of(double x) {
    const double low = select(x < 0.5, 1.0, 0.0), mirrored = 1 - x;
    const double sine = vector_sin(pi * select(x < 0.5, x, 0.5));
    double y = select(mirrored > x, mirrored, x), result = -low * (pi * pi / (sine * sine));
    for (int i = 0; i < 6; ++i, y += 1) result += 1 / (y * y);
    const double z = 1 / (y * y);
    result += (1 + 1 / (2 * y) + z * (1.0 / 6 - z * (1.0 / 30 - z / 42))) / y;
    return (1 - 2 * low) * result;
}

// Sum of (q + k) ** -x for k = 0, 1, ..: terms, then the formula of Euler and Maclaurin.
NNTILE_FN inline double zeta_of(double x, double q) {
    constexpr double rounding = 1.11022302462515654042e-16;
    constexpr double coefficients[] = {12.0,
                                       -720.0,
                                       30240.0,
                                       -1209600.0,
                                       47900160.0,
                                       -1.8924375803183791606e9,
                                       7.47242496e10,
                                       -2.950130727918164224e12,
                                       1.1646782814350067249e14,
                                       -4.5979787224074726105e15,
                                       1.8152105401943546773e17,
                                       -7.1661652561756670113e18};
    if (x == 1) return no_limit;
    if (x < 1) return no_number;
    if (q <= 0) {  // before nan, as the CPU's
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

// Chebyshev series of exp(-x) * I_0(x) and exp(-x) * I_1(x) / x in x / 2 - 2, for x to 8, and of
// those times sqrt(x), without the division, in 32 / x - 2 beyond.
inline constexpr double i0_small[] = {
    -4.41534164647933937950e-18, 3.33079451882223809783e-17,  -2.43127984654795469359e-16,
    1.71539128555513303061e-15,  -1.16853328779934516808e-14, 7.67618549860493561688e-14,
    -4.85644678311192946090e-13, 2.95505266312963983461e-12,  -1.72682629144155570723e-11,
    9.67580903537323691224e-11,  -5.18979560163526290666e-10, 2.65982372468238665035e-9,
    -1.30002500998624804212e-8,  6.04699502254191894932e-8,   -2.67079385394061173391e-7,
    1.11738753912010371815e-6,   -4.41673835845875056359e-6,  1.64484480707288970893e-5,
    -5.75419501008210370398e-5,  1.88502885095841655729e-4,   -5.76375574538582365885e-4,
    1.63947561694133579842e-3,   -4.32430999505057594430e-3,  1.05464603945949983183e-2,
    -2.37374148058994688156e-2,  4.93052842396707084878e-2,   -9.49010970480476444210e-2,
    1.71620901522208775349e-1,   -3.04682672343198398683e-1,  6.76795274409476084995e-1};
inline constexpr double i0_large[] = {
    -7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17,
    3.46122286769746109310e-17,  -2.82762398051658348494e-16, -3.42548561967721913462e-16,
    1.77256013305652638360e-15,  3.81168066935262242075e-15,  -9.55484669882830764870e-15,
    -4.15056934728722208663e-14, 1.54008621752140982691e-14,  3.85277838274214270114e-13,
    7.18012445138366623367e-13,  -1.79417853150680611778e-12, -1.32158118404477131188e-11,
    -3.14991652796324136454e-11, 1.18891471078464383424e-11,  4.94060238822496958910e-10,
    3.39623202570838634515e-9,   2.26666899049817806459e-8,   2.04891858946906374183e-7,
    2.89137052083475648297e-6,   6.88975834691682398426e-5,   3.36911647825569408990e-3,
    8.04490411014108831608e-1};
inline constexpr double i1_small[] = {
    2.77791411276104639959e-18,  -2.11142121435816608115e-17, 1.55363195773620046921e-16,
    -1.10559694773538630805e-15, 7.60068429473540693410e-15,  -5.04218550472791168711e-14,
    3.22379336594557470981e-13,  -1.98397439776494371520e-12, 1.17361862988909016308e-11,
    -6.66348972350202774223e-11, 3.62559028155211703701e-10,  -1.88724975172282928790e-9,
    9.38153738649577178388e-9,   -4.44505912879632808065e-8,  2.00329475355213526229e-7,
    -8.56872026469545474066e-7,  3.47025130813767847674e-6,   -1.32731636560394358279e-5,
    4.78156510755005422638e-5,   -1.61760815825896745588e-4,  5.12285956168575772895e-4,
    -1.51357245063125314899e-3,  4.15642294431288815669e-3,   -1.05640848946261981558e-2,
    2.47264490306265168283e-2,   -5.29459812080949914269e-2,  1.02643658689847095384e-1,
    -1.76416518357834055153e-1,  2.52587186443633654823e-1};
inline constexpr double i1_large[] = {
    7.51729631084210481353e-18,  4.41434832307170791151e-18,  -4.65030536848935832153e-17,
    -3.20952592199342395980e-17, 2.96262899764595013876e-16,  3.30820231092092828324e-16,
    -1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14,
    4.27244001671195135429e-14,  -2.10154184277266431302e-14, -4.08355111109219731823e-13,
    -7.19855177624590851209e-13, 2.03562854414708950722e-12,  1.41258074366137813316e-11,
    3.25260358301548823856e-11,  -1.89749581235054123450e-11, -5.58974346219658380687e-10,
    -3.83538038596423702205e-9,  -2.63146884688951950684e-8,  -2.51223623787020892529e-7,
    -3.88256480887769039346e-6,  -1.10588938762623716291e-4,  -9.76109749136146840777e-3,
    7.78576235018280120474e-1};

// The sum of a series from term `first` on. No loop, and inline as those that use it: else the loop
// over elements would be no vector code. Its terms are numbers, for a device sees no array of the
// host.
template <double term>
inline constexpr double number = term;
template <const auto& terms, size_t first, class T, size_t... k>
[[gnu::always_inline]] NNTILE_FN inline T series_from(T x, std::index_sequence<k...>) {
    T now = static_cast<T>(number<terms[first]>), before = 0, last = 0;
    ((last = before, before = now,
      now = x * before - last + static_cast<T>(number<terms[first + 1 + k]>)),
     ...);
    return T(0.5) * (now - last);
}
template <const auto& terms, size_t tiny, class T>  // floats have no use for so many terms
[[gnu::always_inline]] NNTILE_FN inline T series_of(T x) {
    constexpr size_t first = sizeof(T) == 4 ? tiny : 0;
    return series_from<terms, first>(x, std::make_index_sequence<std::size(terms) - first - 1>());
}
// exp(-|x|) * I_n(x), n = 0 or 1
template <size_t n, class T>
[[gnu::always_inline]] NNTILE_FN inline T bessel_i_scaled(T x) {
    const T size = std::fabs(x), near = size * T(0.5) - T(2), far = T(32) / size - T(2),
            root = std::sqrt(size);
    if constexpr (n == 0) {
        return select(size <= T(8), series_of<i0_small, 12>(near),
                      series_of<i0_large, 18>(far) / root);
    } else {
        const T small = series_of<i1_small, 12>(near) * size,
                large = series_of<i1_large, 18>(far) / root;
        const T value = select(size <= T(8), small, large);
        return select(x < 0, -value, value);
    }
}
template <size_t n, class T>  // in two factors: the first may be too large where the product is not
[[gnu::always_inline]] NNTILE_FN inline T bessel_i(T x) {
    constexpr T most = sizeof(T) == 4 ? T(80) : T(700);
    const T size = std::fabs(x), part = select(size > most, most, size);
    return bessel_i_scaled<n>(x) * exp_of(part) * exp_of(size - part);
}

// A rational approximation, and two steps of Newton.
NNTILE_FN inline double erfinv_of(double y) {
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
                              ((1.637067800 * z + 3.543889200) * z + 1),
                          y);
    }
    for (int i = 0; i < 2; ++i) x -= (std::erf(x) - y) / (2 / std::sqrt(pi) * std::exp(-x * x));
    return x;
}
// x times a polynomial of w = -log(1 - x * x), or of its root where x is near 1.
NNTILE_FN inline float erfinv_of(float x) {
    const float w = -log_of((1.0f - x) * (1.0f + x)), z = w - 2.5f, r = std::sqrt(w) - 3.0f;
    float p = -8.791183435e-9f;
    p = p * z + 2.323271077e-8f;
    p = p * z + 4.661724164e-7f;
    p = p * z - 3.462705575e-6f;
    p = p * z - 4.963355866e-6f;
    p = p * z + 2.183444425e-4f;
    p = p * z - 1.252741865e-3f;
    p = p * z - 4.177386785e-3f;
    p = p * z + 2.466402861e-1f;
    p = p * z + 1.501409359f;
    float q = 1.259236811e-4f;
    q = q * r - 3.170218099e-4f;
    q = q * r - 7.202796628e-5f;
    q = q * r + 1.493932829e-3f;
    q = q * r - 3.589381215e-3f;
    q = q * r + 5.683815803e-3f;
    q = q * r - 7.638935747e-3f;
    q = q * r + 9.445621961e-3f;
    q = q * r + 1.001675061f;
    q = q * r + 2.832976796f;
    const float value = x * select(w < 5.0f, p, q);
    return select(std::fabs(x) == 1.0f, std::copysign(infinity<float>, x), value);
}

}  // namespace nntile::kernels::NNTILE_ISA
