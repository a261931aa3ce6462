// SPDX-License-Identifier: BSD-3-Clause
// Functions of map.def and of rows that loops vectorise: those of SLEEF, powers, activations,
// division.
#pragma once

#include "kernels/elementary_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

// ---- functions of libm that vectors_isa.cc has for vectors, by SLEEF, within 1 ulp, as PyTorch
// takes them too. The compiler asks for them by the names of the vector ABI, but for the elements
// that are left over it takes libm, whose bits are others: only for loops over whole blocks.
// On a device, whose threads are its vectors, it is the device's libm.
#if defined(NNTILE_FOR_DEVICE)
#define NNTILE_FUNCTION(name, accuracy)                                    \
    NNTILE_FN inline float vector_##name(float x) { return ::name##f(x); } \
    NNTILE_FN inline double vector_##name(double x) { return ::name(x); }
#define NNTILE_FUNCTION_OF_TWO(name, accuracy)                                         \
    NNTILE_FN inline float vector_##name(float a, float b) { return ::name##f(a, b); } \
    NNTILE_FN inline double vector_##name(double a, double b) { return ::name(a, b); }
#else
#if defined(NNTILE_HAVE_SLEEF)
#define NNTILE_IN_VECTORS __attribute__((simd("notinbranch"), const))
#else
#define NNTILE_IN_VECTORS __attribute__((const))
#endif
#define NNTILE_FUNCTION(name, accuracy)                                  \
    extern "C" NNTILE_IN_VECTORS float nntile_##name##f(float) noexcept; \
    extern "C" NNTILE_IN_VECTORS double nntile_##name(double) noexcept;  \
    inline float vector_##name(float x) { return nntile_##name##f(x); }  \
    inline double vector_##name(double x) { return nntile_##name(x); }
#define NNTILE_FUNCTION_OF_TWO(name, accuracy)                                      \
    extern "C" NNTILE_IN_VECTORS float nntile_##name##f(float, float) noexcept;     \
    extern "C" NNTILE_IN_VECTORS double nntile_##name(double, double) noexcept;     \
    inline float vector_##name(float a, float b) { return nntile_##name##f(a, b); } \
    inline double vector_##name(double a, double b) { return nntile_##name(a, b); }
#endif
#include "kernels/vectors.def"
#undef NNTILE_FUNCTION
#undef NNTILE_FUNCTION_OF_TWO
#undef NNTILE_IN_VECTORS

// SLEEF before 3.6 overflows where a part of its formula does, before the result. One call for all
// x, and numbers instead of conditions: the compiler would make calls in branches, which no loop in
// vectors has.
template <class T>
inline constexpr T long_angle = sizeof(T) == 4 ? T(80) : T(700);
template <class T>
inline constexpr T large_area = sizeof(T) == 4 ? T(1e15) : T(1e150);
template <class T>
NNTILE_FN T sinh_of(T x) {
    const T flag = select(std::fabs(x) > long_angle<T>, T(1), T(0));
    const T value = vector_sinh(x * (T(1) - T(0.5) * flag));
    return value * (T(1) + flag * (T(2) * std::fabs(value) - T(1)));
}
template <class T>
NNTILE_FN T cosh_of(T x) {
    const T flag = select(std::fabs(x) > long_angle<T>, T(1), T(0));
    const T value = vector_cosh(x * (T(1) - T(0.5) * flag));
    return value * (T(1) + flag * (T(2) * value - T(1)));
}
template <class T>
NNTILE_FN T asinh_of(T x) {
    const T many = select(std::fabs(x) > large_area<T>, T(2), T(1));
    const T root = std::copysign(std::sqrt(std::fabs(x) * T(0.5)), x);
    return many * vector_asinh(many == T(2) ? root : x);
}
template <class T>
NNTILE_FN T acosh_of(T x) {
    const T many = select(x > large_area<T>, T(2), T(1)), root = std::sqrt(std::fabs(x) * T(0.5));
    return many * vector_acosh(many == T(2) ? root : x);
}

template <class T>
NNTILE_FN T pow_of(T a, T b) {
    return vector_pow(a, b);
}
NNTILE_FN inline int64_t pow_of(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t result = 1, base = static_cast<uint64_t>(a);
    for (; b; b >>= 1, base *= base) result *= b & 1 ? base : 1;
    return static_cast<int64_t>(result);
}

// ---- activations
template <class T>
inline constexpr T gelu_inner = T(0.79788456080286535588);  // sqrt(2 / pi)
// The integral of the normal distribution up to x, to 1e-7: erfc(a / sqrt 2) is the exponential of
// a polynomial (a fit of log erfc, weighted by what it is multiplied with), and 0 from 5.6 on.
// Nothing is lost for negative x, as it would be by 1 + erf(x).
NNTILE_FN inline float normal_cdf(float x) {
    const float a = std::fabs(x);
    float p = 2.293892578e-7f;
    p = p * a - 4.733712558e-6f;
    p = p * a + 4.030008131e-5f;
    p = p * a - 1.588165323e-4f;
    p = p * a - 6.201276847e-5f;
    p = p * a + 4.884138703e-3f;
    p = p * a - 3.639432415e-2f;
    p = p * a - 3.182928264e-1f;
    p = p * a - 7.978864312e-1f;
    int32_t n;
    const float k = round_to_int(p * a * 1.44269504088896341f, n);
    const float half =
        exp_small(p * a - k * 0.693359375f - k * -2.12194440e-4f) * power_of_2(n - 1);
    const float tail = a > 5.6f ? 0.0f : half;
    return x < 0.0f ? tail : 1.0f - tail;
}
NNTILE_FN inline double normal_cdf(double x) {
    return 0.5 * (1.0 + erf_of(x * 0.70710678118654752440));
}
template <class T>
NNTILE_FN T gelu_none(T x) {
    return x * normal_cdf(x);
}
template <class T>
NNTILE_FN T gelu_tanh(T x) {  // (1 + tanh u) / 2 = sigmoid(2 u): one exp
    const T u = gelu_inner<T> * (x + T(0.044715) * x * x * x);
    return x * sigmoid_of(u + u);
}
template <class T>
NNTILE_FN T gelu_none_slope(T x) {
    return normal_cdf(x) + x * exp_of(T(-0.5) * x * x) * T(0.39894228040143267794);
}
template <class T>
NNTILE_FN T gelu_tanh_slope(T x) {
    const T u = gelu_inner<T> * (x + T(0.044715) * x * x * x);
    const T du = gelu_inner<T> * (T(1) + T(0.134145) * x * x);
    const T s = sigmoid_of(u + u);
    return s + T(2) * x * s * (T(1) - s) * du;
}
template <class T>
NNTILE_FN T silu_slope(T x) {
    const T s = sigmoid_of(x);
    return s * (T(1) + x * (T(1) - s));
}

// ---- division. Integers: the engine has refused zero divisors; -1 is apart since INT64_MIN / -1
// traps.
template <class T>
NNTILE_FN T div_trunc_of(T a, T b) {
    if constexpr (is_real<T>) return std::trunc(a / b);
    else return b == -1 ? static_cast<T>(0 - static_cast<uint64_t>(a)) : a / b;
}
template <class T>
NNTILE_FN T
fmod_of(T a, T b) {  // exact; nan where a / b is too large for T, as PyTorch's vectors have it
    if constexpr (is_real<T>) return vector_fmod(a, b);
    else return b == -1 ? 0 : a % b;
}
template <class T>
NNTILE_FN bool points_away(T rest, T b) {  // of a quotient that is no integer: it was cut upwards
    return (rest != 0) & ((rest < 0) != (b < 0));
}
template <class T>
NNTILE_FN T remainder_of(T a, T b) {  // sign of b
    const T r = fmod_of(a, b);
    return select(points_away(r, b), r + b, r);
}
template <class T>
NNTILE_FN T div_floor_of(T a,
                         T b) {  // as PyTorch and Python: exact where a is near a multiple of b
    T r = fmod_of(a, b);
    if constexpr (is_real<T>) {
        const T plain = a / b, signed_zero = std::copysign(T(0), plain);
        r = select(r == r, r, a - a);  // a quotient that is too large is infinite, that of inf nan
        const T quotient = (a - r) / b - select(points_away(r, b), T(1), T(0)),
                whole = std::floor(quotient);
        const T nearest = whole + select(quotient - whole > T(0.5), T(1), T(0));
        return select(b == 0, plain, select(quotient == 0, signed_zero, nearest));
    } else {
        return div_trunc_of(a, b) - select(points_away(r, b), T(1), T(0));
    }
}

}  // namespace nntile::kernels::NNTILE_ISA
