// SPDX-License-Identifier: BSD-3-Clause
// Elementary functions that loops vectorise, within a few ulp. Infinities, nan, zeros and
// subnormals behave as in libm; every choice is a select, never a branch.
#pragma once

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/element_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class T>
inline constexpr bool is_real = std::is_floating_point_v<T>;
template <class T>
inline constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
inline constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();

template <class T>
NNTILE_FN T select(bool condition, T yes, T no) {
    return condition ? yes : no;
}

// ---- rounding and signs; integers pass through
template <class T>
NNTILE_FN T floor_of(T x) {
    if constexpr (is_real<T>) return std::floor(x);
    return x;
}
template <class T>
NNTILE_FN T ceil_of(T x) {
    if constexpr (is_real<T>) return std::ceil(x);
    return x;
}
template <class T>
NNTILE_FN T trunc_of(T x) {
    if constexpr (is_real<T>) return std::trunc(x);
    return x;
}
template <class T>
NNTILE_FN T round_of(T x) {  // half to even
    if constexpr (is_real<T>) return std::rint(x);
    return x;
}
template <class T>
NNTILE_FN T abs_of(T x) {
    if constexpr (is_real<T>) return std::fabs(x);
    else return x < 0 ? -x : x;
}
template <class T>
// Of two choices the compiler makes no branch, of one with two conditions it may
NNTILE_FN T nan_or_max(T a, T b) {
    const T larger = a > b ? a : b;
    return a != a ? a : larger;
}
template <class T>
NNTILE_FN T nan_or_min(T a, T b) {
    const T smaller = a < b ? a : b;
    return a != a ? a : smaller;
}

// nan_or_min(nan_or_max(x, low), high), of whose four choices the compiler would make twenty
// instructions.
template <class T>
NNTILE_FN T between(T x, T low, T high) {
    const T larger = x > low ? x : low, y = larger < high ? larger : high;
    return select(x != x, x, select(low != low, low, y));
}

// ---- exp and its relatives (polynomials: Cephes, S. Moshier)
NNTILE_FN inline float round_to_int(float x, int32_t& n) {  // |x| < 2^22
    const float shifted = x + 0x1.8p23f;
    n = static_cast<int32_t>(bits_of(shifted) - bits_of(0x1.8p23f));
    return shifted - 0x1.8p23f;
}
NNTILE_FN inline float power_of_2(int32_t n) {
    return float_of(static_cast<uint32_t>(n + 127) << 23);
}

// e^r for |r| <= ln2 / 2
NNTILE_FN inline float exp_small(float r) {
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    return p * (r * r) + r + 1.0f;
}
// 2^n e^r; in two factors, so that subnormal results and 2^128 are reached.
NNTILE_FN inline float scaled_exp(float r, int32_t n) {
    const int32_t half = n >> 1;
    return exp_small(r) * power_of_2(half) * power_of_2(n - half);
}
NNTILE_FN inline float exp_of(float x) {
    x = x < -105.0f ? -105.0f : x;
    x = x > 89.0f ? 89.0f : x;
    int32_t n;
    const float k = round_to_int(x * 1.44269504088896341f, n);
    return scaled_exp(x - k * 0.693359375f - k * -2.12194440e-4f, n);
}

// The same in double. bits of 2^52 + n hold n; the sum rounds half to even.
NNTILE_FN inline uint64_t bits_of(double x) { return __builtin_bit_cast(uint64_t, x); }
NNTILE_FN inline double double_of(uint64_t bits) { return __builtin_bit_cast(double, bits); }
NNTILE_FN inline double round_to_int(double x, int64_t& n) {  // |x| < 2^51
    const double shifted = x + 0x1.8p52;
    n = static_cast<int64_t>(bits_of(shifted) - bits_of(0x1.8p52));
    return shifted - 0x1.8p52;
}
NNTILE_FN inline double power_of_2(int64_t n) {
    return double_of(static_cast<uint64_t>(n + 1023) << 52);
}

// e^r - 1 - r for |r| <= ln2 / 2 in double, Taylor's up to r^13, of which the terms that matter
// least go side by side.
NNTILE_FN inline double exp_rest(double r) {
    const double z = r * r, v = z * z;
    const double low = (r * (1.0 / 6) + 0.5) + z * (r * (1.0 / 120) + 1.0 / 24);
    const double middle = (r * (1.0 / 5040) + 1.0 / 720) + z * (r * (1.0 / 362880) + 1.0 / 40320);
    const double high =
        (r * (1.0 / 39916800) + 1.0 / 3628800) + z * (r * (1.0 / 6227020800) + 1.0 / 479001600);
    return z * (low + v * (middle + v * high));
}
NNTILE_FN inline double scaled_exp(double r, int64_t n) {
    // n >> 1 of 64 bits is no instruction of AVX2: |n| < 2^11.
    const int64_t half = static_cast<int64_t>(static_cast<uint64_t>(n + 4096) >> 1) - 2048;
    return (exp_rest(r) + r + 1) * power_of_2(half) * power_of_2(n - half);
}
NNTILE_FN inline double exp_of(double x) {
    x = x < -746.0 ? -746.0 : x;
    x = x > 710.0 ? 710.0 : x;
    int64_t n;
    const double k = round_to_int(x * 1.4426950408889634074, n);
    return scaled_exp(x - k * 6.93145751953125e-1 - k * 1.42860682030941723212e-6, n);
}

NNTILE_FN inline float exp2_of(float x) {
    x = x < -151.0f ? -151.0f : x;
    x = x > 128.0f ? 128.0f : x;
    int32_t n;
    const float k = round_to_int(x, n);
    return scaled_exp((x - k) * 0.693147180559945f, n);
}
NNTILE_FN inline double exp2_of(double x) {
    x = x < -1076.0 ? -1076.0 : x;
    x = x > 1024.0 ? 1024.0 : x;
    int64_t n;
    const double k = round_to_int(x, n);
    return scaled_exp((x - k) * 0.69314718055994530942, n);
}

NNTILE_FN inline float expm1_of(float x) {
    float p = 2.4801587e-5f;  // Taylor: enough for |x| < 0.5
    p = p * x + 1.9841270e-4f;
    p = p * x + 1.3888889e-3f;
    p = p * x + 8.3333333e-3f;
    p = p * x + 4.1666667e-2f;
    p = p * x + 1.6666667e-1f;
    p = p * x + 0.5f;
    const float small = p * (x * x) + x;
    return select(std::fabs(x) < 0.5f, small, exp_of(x) - 1.0f);
}
NNTILE_FN inline double expm1_of(double x) {  // 2^n (e^r - 1 + 1 - 2^-n)
    double y = x < -40.0 ? -40.0 : x;
    y = y > 710.0 ? 710.0 : y;
    int64_t n;
    const double k = round_to_int(y * 1.4426950408889634074, n);
    const double r = y - k * 6.93145751953125e-1 - k * 1.42860682030941723212e-6;
    const int64_t half = static_cast<int64_t>(static_cast<uint64_t>(n + 4096) >> 1) - 2048;
    const double lacks = 1 - power_of_2(n < 1000 ? -n : -1000);
    return std::copysign((exp_rest(r) + r + lacks) * power_of_2(half) * power_of_2(n - half), x);
}

template <class T>
NNTILE_FN T sigmoid_of(T x) {
    return T(1) / (T(1) + exp_of(-x));
}

NNTILE_FN inline float tanh_of(float x) {
    const float a = std::fabs(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = p * z * x + x;
    const float large = std::copysign(1.0f - 2.0f / (exp_of(a + a) + 1.0f), x);
    return a < 0.625f ? small : select(x == x, large, x);
}
NNTILE_FN inline double tanh_of(double x) {  // one division for both ranges
    const double a = std::fabs(x), z = x * x, e = exp_of(a + a);
    double p = -9.64399179425052238628e-1, q = z + 1.12811678491632931402e2;
    p = p * z - 9.92877231001918586564e1;
    p = p * z - 1.61468768441708447952e3;
    q = q * z + 2.23548839060100448583e3;
    q = q * z + 4.84406305325125486048e3;
    const bool small = a < 0.625;
    const double part = select(small, p * z, -2.0) / select(small, q, e + 1);
    return std::copysign(select(small, part * a + a, 1 + part), x);
}

// ---- logarithms
// log(x) = log_of_mantissa + exponent * ln2, mantissa in [sqrt(1/2), sqrt(2))
struct LogParts {
    float log, exponent;
};
NNTILE_FN inline LogParts log_parts(float x) {
    const bool subnormal = x < 0x1p-126f;
    x = subnormal ? x * 0x1p23f : x;
    const int32_t bits = static_cast<int32_t>(bits_of(x) - 0x3f3504f3);
    const float e = static_cast<float>(bits >> 23) - (subnormal ? 23.0f : 0.0f);
    const float m = float_of(static_cast<uint32_t>((bits & 0x7fffff) + 0x3f3504f3)) - 1.0f;
    const float z = m * m;
    float p = 7.0376836292e-2f;
    p = p * m - 1.1514610310e-1f;
    p = p * m + 1.1676998740e-1f;
    p = p * m - 1.2420140846e-1f;
    p = p * m + 1.4249322787e-1f;
    p = p * m - 1.6668057665e-1f;
    p = p * m + 2.0000714765e-1f;
    p = p * m - 2.4999993993e-1f;
    p = p * m + 3.3333331174e-1f;
    return {p * m * z - 0.5f * z + m, e};
}
NNTILE_FN inline float log_limits(float x, float log) {  // where the polynomial does not hold
    const float positive = x == infinity<float> ? x : log;
    const float zero_or_nan = x == 0.0f ? -infinity<float> : quiet_nan<float>;
    return x > 0.0f ? positive : zero_or_nan;
}
NNTILE_FN inline float log_of(float x) {
    const LogParts l = log_parts(x);
    return log_limits(x, l.log + l.exponent * -2.12194440e-4f + l.exponent * 0.693359375f);
}

// In double (FreeBSD's msun, Sun Microsystems): log(1 + m) = m - m^2 / 2 + rest.
struct DoubleLogParts {
    double m, square, rest, exponent;
};
NNTILE_FN inline DoubleLogParts log_parts(double x) {
    const bool subnormal = x < 0x1p-1022;
    x = subnormal ? x * 0x1p54 : x;
    const uint64_t bits = bits_of(x) - 0x3fe6a09e00000000;  // of sqrt(1/2)
    // The exponent is the integer of the high bits: 2^52 + it, as bits, less 2^52. Below 0 it is as
    // large as 4095.
    const double field = double_of((bits >> 52) | 0x4330000000000000) - 0x1p52;
    const double e = field - (field > 2047 ? 4096.0 : 0.0) - (subnormal ? 54.0 : 0.0);
    const double m = double_of((bits & 0xfffffffffffff) + 0x3fe6a09e00000000) - 1;
    const double s = m / (2 + m), z = s * s, w = z * z, square = 0.5 * m * m;
    double even = 1.531383769920937332e-1, odd = 1.479819860511658591e-1;
    even = even * w + 2.222219843214978396e-1;
    even = even * w + 3.999999999940941908e-1;
    odd = odd * w + 1.818357216161805012e-1;
    odd = odd * w + 2.857142874366239149e-1;
    odd = odd * w + 6.666666666666735130e-1;
    return {m, square, s * (square + even * w + odd * z), e};
}
NNTILE_FN inline double log_limits(double x, double log) {
    const double positive = x == infinity<double> ? x : log;
    const double zero_or_nan = x == 0 ? -infinity<double> : quiet_nan<double>;
    return x > 0 ? positive : zero_or_nan;
}
NNTILE_FN inline double log_of(double x) {
    const DoubleLogParts l = log_parts(x);
    const double low = l.rest + l.exponent * 1.90821492927058770002e-10;
    return log_limits(x, l.exponent * 6.93147180369123816490e-1 - ((l.square - low) - l.m));
}
NNTILE_FN inline float log2_of(float x) {
    const LogParts l = log_parts(x);
    return log_limits(x, l.log * 1.44269504088896341f + l.exponent);
}
NNTILE_FN inline double log2_of(double x) {
    const DoubleLogParts l = log_parts(x);
    return log_limits(x, (l.m - (l.square - l.rest)) * 1.4426950408889634074 + l.exponent);
}
NNTILE_FN inline float log1p_of(float x) {  // Kahan: the rounding of 1 + x cancels in the quotient
    const float u = 1.0f + x;
    const float d = u - 1.0f;
    const float log = log_of(u);
    const float corrected = d == 0.0f ? x : log * (x / d);
    return x < 0x1p24f ? corrected : log;
}
NNTILE_FN inline double log1p_of(double x) {
    const double u = 1 + x;
    const double d = u - 1;
    const double log = log_of(u);
    const double corrected = d == 0 ? x : log * (x / d);
    return x < 0x1p53 ? corrected : log;
}

// ---- erf (N. Juffa)
NNTILE_FN inline float erf_of(float x) {
    const float a = std::fabs(x), z = x * x;
    float p = -1.72853470e-5f * a + 3.83197126e-4f;
    const float q = -3.88396438e-3f * a + 2.42546219e-2f;
    p = p * z + q;
    p = p * a - 1.06777877e-1f;
    p = p * a - 6.34846687e-1f;
    p = p * a - 1.28717512e-1f;
    p = p * a - a;
    const float large = std::copysign(1.0f - exp_of(p), x);
    float s = -5.96761703e-4f;
    s = s * z + 4.99119423e-3f;
    s = s * z - 2.67681349e-2f;
    s = s * z + 1.12819925e-1f;
    s = s * z - 3.76125336e-1f;
    s = s * z + 1.28379166e-1f;
    const float small = s * x + x;
    return a > 0.927734375f ? large : small;
}
NNTILE_FN inline double erf_of(
    double x) {  // Cephes: x * t / u below 1, 1 - exp(-x^2) * p / q above
    const double a = std::fabs(x), z = x * x;
    double t = 9.60497373987051638749e0, u = z + 3.35617141647503099647e1;
    t = t * z + 9.00260197203842689217e1;
    t = t * z + 2.23200534594684319226e3;
    t = t * z + 7.00332514112805075473e3;
    t = t * z + 5.55923013010394962768e4;
    u = u * z + 5.21357949780152679795e2;
    u = u * z + 4.59432382970980127987e3;
    u = u * z + 2.26290000613890934246e4;
    u = u * z + 4.92673942608635921086e4;
    const double b = a < 6.0 ? a : 6.0;  // from there on it is 1; nan passes
    double p = 2.46196981473530512524e-10, q = b + 1.32281951154744992508e1;
    p = p * b + 5.64189564831068821977e-1;
    p = p * b + 7.46321056442269912687e0;
    p = p * b + 4.86371970985681366614e1;
    p = p * b + 1.96520832956077098242e2;
    p = p * b + 5.26445194995477358631e2;
    p = p * b + 9.34528527171957607540e2;
    p = p * b + 1.02755188689515710272e3;
    p = p * b + 5.57535335369399327526e2;
    q = q * b + 8.67072140885989742329e1;
    q = q * b + 3.54937778887819891062e2;
    q = q * b + 9.75708501743205489753e2;
    q = q * b + 1.82390916687909736289e3;
    q = q * b + 2.24633760818710981792e3;
    q = q * b + 1.65666309194161350182e3;
    q = q * b + 5.57535340817727675546e2;
    const bool small = a < 1;
    const double part = select(small, t, p * exp_of(-b * b)) / select(small, u, q);
    return small ? part * x : select(x == x, std::copysign(1 - part, x), x);
}

template <class T>
NNTILE_FN T signbit_of(T x) {
    if constexpr (is_real<T>) return std::signbit(x) ? T(1) : T(0);
    else return x < 0;
}

}  // namespace nntile::kernels::NNTILE_ISA
