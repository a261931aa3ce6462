// SPDX-License-Identifier: BSD-3-Clause
// Each primitive of map.def as a formula in double, with operands where it holds.
#pragma once

#include <algorithm>

#include "special.hh"
#include "tensor.hh"

namespace nntile::test {

using Values = std::vector<double>;
struct Case {
    const char* name;
    std::function<double(const Values&)> want;
    double low = -2, high = 2;
    double ulps = 4;
    std::vector<kernels::Param> params = {};
};

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
inline double gelu_tanh(double x) {
    return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
inline double gelu_tanh_slope(double x) {
    const double c = std::sqrt(2 / M_PI), s = sigmoid(2 * c * (x + 0.044715 * x * x * x));
    return s + 2 * x * s * (1 - s) * c * (1 + 3 * 0.044715 * x * x);
}
inline double remainder(double a, double b) { return std::fmod(std::fmod(a, b) + b, b); }

#define ONE(expression)                   \
    [](const Values& v) {                 \
        [[maybe_unused]] double x = v[0]; \
        return double(expression);        \
    }
#define TWO(expression)                             \
    [](const Values& v) {                           \
        [[maybe_unused]] double a = v[0], b = v[1]; \
        return double(expression);                  \
    }
#define THREE(expression)                                     \
    [](const Values& v) {                                     \
        [[maybe_unused]] double a = v[0], b = v[1], c = v[2]; \
        return double(expression);                            \
    }

inline std::vector<Case> cases() {
    return {
        {"add", TWO(a + b)},
        {"add", TWO(a + 3 * b), -2, 2, 8, {real(3)}},
        {"sub", TWO(a - b), 0, 3},
        {"mul", TWO(a * b)},
        {"div", TWO(a / b)},
        {"div_trunc", TWO(std::trunc(a / b)), 1, 9},
        {"div_floor", TWO(std::floor(a / b)), 1, 9},
        {"remainder", TWO(remainder(a, b)), 1, 9},
        {"fmod", TWO(std::fmod(a, b)), 1, 9},
        {"scale", ONE(2 * x), -2, 2, 1, {real(2)}},
        {"lerp", THREE(a + c * (b - a)), -2, 2, 16},
        {"addcmul", THREE(a + 2 * b * c), -2, 2, 16, {real(2)}},
        {"addcdiv", THREE(a + 2 * b / c), 1, 2, 16, {real(2)}},
        {"neg", ONE(-x)},
        {"abs", ONE(std::fabs(x))},
        {"sign", ONE((x > 0) - (x < 0))},
        {"square", ONE(x * x)},
        {"floor", ONE(std::floor(x))},
        {"ceil", ONE(std::ceil(x))},
        {"round", ONE(std::nearbyint(x)), -9, 9},
        {"trunc", ONE(std::trunc(x))},
        {"reciprocal", ONE(1 / x)},
        {"sqrt", ONE(std::sqrt(x)), 0, 9},
        {"rsqrt", ONE(1 / std::sqrt(x)), 0.1, 9},
        {"exp", ONE(std::exp(x)), -80, 80},
        {"exp", ONE(std::exp(x))},
        {"exp2", ONE(std::exp2(x)), -9, 9},
        {"expm1", ONE(std::expm1(x))},
        {"log", ONE(std::log(x)), 0, 9},
        {"log2", ONE(std::log2(x)), 0, 9},
        {"log10", ONE(std::log10(x)), 0, 9},
        {"log1p", ONE(std::log1p(x)), -0.9, 2},
        {"sin", ONE(std::sin(x))},
        {"cos", ONE(std::cos(x))},
        {"tan", ONE(std::tan(x)), -1.4, 1.4},
        {"asin", ONE(std::asin(x)), -1, 1},
        {"acos", ONE(std::acos(x)), -0.9, 0.9},
        {"atan", ONE(std::atan(x)), -9, 9},
        {"atan2", TWO(std::atan2(a, b))},
        {"sinh", ONE(std::sinh(x))},
        {"cosh", ONE(std::cosh(x))},
        {"asinh", ONE(std::asinh(x)), -9, 9},
        {"acosh", ONE(std::acosh(x)), 1.1, 9},
        {"atanh", ONE(std::atanh(x)), -0.9, 0.9},
        {"erfc", ONE(std::erfc(x))},
        {"erfinv", ONE(erfinv(x)), -0.9, 0.9, 16},
        {"lgamma", ONE(std::lgamma(x)), 2.5, 30, 8},
        {"digamma", ONE(digamma(x)), 2, 30, 8},
        {"trigamma", ONE(trigamma(x)), 30, 60, 8},
        {"zeta", TWO(zeta(a, b)), 1.5, 9, 64},
        {"i0", ONE(bessel_i(0, x)), -9, 40, 64},
        {"i1", ONE(bessel_i(1, x)), -9, 40, 64},
        {"i0e", ONE(bessel_i(0, x) * std::exp(-std::fabs(x))), -9, 40, 64},
        {"i1e", ONE(bessel_i(1, x) * std::exp(-std::fabs(x))), -9, 40, 64},
        {"copysign", TWO(std::copysign(a, b))},
        {"xlog1py", TWO(a * std::log1p(b)), 0.1, 9, 8},
        {"logaddexp2", TWO(std::log2(std::exp2(a) + std::exp2(b))), 0, 9, 8},
        {"angle", ONE(x < 0 ? M_PI : 0)},
        {"fmax", TWO(std::fmax(a, b))},
        {"fmin", TWO(std::fmin(a, b))},
        {"heaviside", TWO(a == 0 ? b : a > 0)},
        {"signbit", ONE(x < 0)},
        {"tanh", ONE(std::tanh(x))},
        {"erf", ONE(std::erf(x))},
        {"xlogy", TWO(a * std::log(b)), 0.1, 9, 8},
        {"binary_cross_entropy", TWO(-(b * std::log(a) + (1 - b) * std::log1p(-a))), 0.1, 0.9, 8},
        {"logaddexp", TWO(std::log(std::exp(a) + std::exp(b))), 0, 9, 8},
        {"pow", TWO(std::pow(a, b)), 1, 3},
        {"cast", ONE(x)},
        {"fill", ONE(x)},
        {"relu", ONE(x > 0 ? x : 0)},
        {"threshold", ONE(x <= 0.25 ? -3 : x), -2, 2, 0, {real(0.25), real(-3)}},
        {"threshold_backward", TWO(b <= 0 ? 0 : a)},
        {"leaky_relu", ONE(x > 0 ? x : 0.25 * x), -2, 2, 1, {real(0.25)}},
        {"leaky_relu_backward", TWO(b > 0 ? a : 0.25 * a), -2, 2, 1, {real(0.25)}},
        {"gelu", ONE(x * normal_cdf(x)), -2, 4, 16, {integer(0)}},
        {"gelu", ONE(gelu_tanh(x)), -2, 4, 16, {integer(1)}},
        {"gelu_backward", TWO(a * (normal_cdf(b) + b * std::exp(-b * b / 2) / std::sqrt(2 * M_PI))),
         -1, 4, 32},
        {"gelu_backward", TWO(a * gelu_tanh_slope(b)), -0.5, 4, 32, {integer(1)}},
        {"elu",
         ONE(x > 0 ? 2 * x : 1.0 * std::expm1(3 * x)),
         -2,
         2,
         8,
         {real(0.5), real(2), real(3)}},
        {"elu_backward",
         TWO(b > 0 ? 2 * a : 3 * a * std::exp(3 * b)),
         -2,
         2,
         16,
         {integer(0), real(0.5), real(2), real(3)}},
        {"elu_backward",
         TWO(b > 0 ? 2 * a : 3 * a * (b + 1)),
         -2,
         2,
         16,
         {integer(1), real(0.5), real(2), real(3)}},
        {"softplus_backward",
         TWO(b * 2 > 5 ? a : a * sigmoid(2 * b)),
         -4,
         4,
         8,
         {real(2), real(5)}},
        {"hardswish", ONE(x * std::clamp(x + 3, 0.0, 6.0) / 6), -5, 5, 4},
        {"hardswish_backward",
         TWO(b <= -3  ? 0
             : b >= 3 ? a
                      : a * (b / 3 + 0.5)),
         -5, 5, 8},
        {"hardsigmoid", ONE(std::clamp(x + 3, 0.0, 6.0) / 6), -5, 5, 4},
        {"hardsigmoid_backward", TWO(b > -3 && b < 3 ? a * (1.0f / 6) : 0), -5, 5, 2},
        {"hardtanh_backward", TWO(b > -1 && b < 0.5 ? a : 0), -2, 2, 0, {real(-1), real(0.5)}},
        {"hardshrink", ONE(std::fabs(x) <= 0.5 ? 0 : x), -2, 2, 0, {real(0.5)}},
        {"softshrink",
         ONE(x > 0.5    ? x - 0.5
             : x < -0.5 ? x + 0.5
                        : 0),
         -2,
         2,
         2,
         {real(0.5)}},
        {"shrink_backward", TWO(std::fabs(b) > 0.5 ? a : 0), -2, 2, 0, {real(0.5)}},
        {"log_sigmoid_backward", THREE(a * (b < 0 ? 1 / (1 + c) : c / (1 + c))), 0.1, 2, 8},
        {"nan_to_num", ONE(x), -2, 2, 0, {real(1), real(2), real(3)}},
        {"logit", ONE(std::log(x / (1 - x))), 0.05, 0.95, 60, {real(-INFINITY), real(INFINITY)}},
        {"logit",
         ONE(std::log(std::clamp(x, 0.25, 0.75) / (1 - std::clamp(x, 0.25, 0.75)))),
         0.05,
         0.95,
         60,
         {real(0.25), real(0.75)}},
        {"logit_backward", TWO(a / (b * (1 - b))), 0.05, 0.95, 8, {real(-1)}},
        {"logit_backward",
         TWO(b < 0.25 || b > 0.75 ? 0 : a / (b * (1 - b))),
         0.05,
         0.95,
         8,
         {real(0.25)}},
        {"prelu", TWO(a > 0 ? a : b * a)},
        {"smooth_l1",
         TWO(std::fabs(a - b) < 0.5 ? (a - b) * (a - b) : std::fabs(a - b) - 0.25),
         -2,
         2,
         8,
         {real(0.5)}},
        {"smooth_l1_backward",
         THREE(2 * a *
               (std::fabs(b - c) < 0.5 ? (b - c) / 0.5
                : b > c                ? 1.0
                                       : -1.0)),
         -2,
         2,
         8,
         {real(2), real(0.5)}},
        {"huber",
         TWO(std::fabs(a - b) < 0.5 ? (a - b) * (a - b) / 2 : 0.5 * (std::fabs(a - b) - 0.25)),
         -2,
         2,
         8,
         {real(0.5)}},
        {"huber_backward",
         THREE(2 * a * std::clamp(b - c, -0.5, 0.5)),
         -2,
         2,
         8,
         {real(2), real(0.5)}},
        {"mse", TWO((a - b) * (a - b)), -2, 2, 8},
        {"binary_cross_entropy_backward",
         THREE(a * (b - c) / std::max(b * (1 - b), 1e-12) / 3),
         0.05,
         0.95,
         16,
         {real(3)}},
        {"glu", TWO(a * sigmoid(b)), -4, 4, 8},
        {"glu_gate_backward", THREE(a * b * sigmoid(c) * (1 - sigmoid(c))), -4, 4, 16},
        {"mse_backward", THREE(2 * (b - c) * a), -2, 2, 8, {real(2)}},
        {"silu", ONE(x * sigmoid(x)), -2, 4, 8},
        {"mish", ONE(x * std::tanh(std::log1p(std::exp(x)))), -9, 9, 16},
        {"silu_backward", TWO(a * sigmoid(b) * (1 + b * (1 - sigmoid(b)))), -1, 4, 32},
        {"sigmoid", ONE(sigmoid(x)), -9, 9, 8},
        {"sigmoid_backward", TWO(a * b * (1 - b)), -2, 2, 8},
        {"tanh_backward", TWO(a * (1 - b * b)), -0.9, 0.9, 32},
        {"softplus", ONE(std::log1p(std::exp(x))), -9, 9, 16},
        {"maximum", TWO(std::max(a, b))},
        {"minimum", TWO(std::min(a, b))},
        {"clamp", THREE(std::min(std::max(a, b), c))},
        {"clamp_min", TWO(std::max(a, b))},
        {"clamp_max", TWO(std::min(a, b))},
        {"where", THREE(a != 0 ? b : c)},
        {"masked_fill", THREE(b != 0 ? c : a)},
        {"masked_scale", TWO(a * b * 2), -2, 2, 1, {real(2)}},
        {"eq", TWO(a == b)},
        {"ne", TWO(a != b)},
        {"lt", TWO(a < b)},
        {"le", TWO(a <= b)},
        {"gt", TWO(a > b)},
        {"ge", TWO(a >= b)},
        {"isnan", ONE(0)},
        {"isinf", ONE(0)},
        {"isfinite", ONE(1)},
        {"logical_not", ONE(!x)},
        {"logical_and", TWO(a && b)},
        {"logical_or", TWO(a || b)},
        {"logical_xor", TWO(!a != !b)},
        {"bitwise_and", TWO(int64_t(a) & int64_t(b))},
        {"bitwise_or", TWO(int64_t(a) | int64_t(b))},
        {"bitwise_xor", TWO(int64_t(a) ^ int64_t(b))},
        {"bitwise_not", ONE(~int64_t(x))},
    };
}

}  // namespace nntile::test
