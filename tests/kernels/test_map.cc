// SPDX-License-Identifier: BSD-3-Clause
// The map engine and every primitive of map.def against formulas in double.
#include <map>

#include "programs.hh"
#include "special.hh"
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Instruction;
using kernels::Program;

namespace {

std::vector<kernels::Param> defaults(const char* name) {
    std::vector<kernels::Param> params;
    for (const kernels::MapParam& p : kernels::map_rows()[kernels::find_map(name)].params)
        params.push_back(p.kind == 'f' ? real(p.initial)
                                       : integer(static_cast<int64_t>(p.initial)));
    return params;
}

bool takes(kernels::Types types, DType dtype) {
    if (types == kernels::Types::floating) return is_floating(dtype);
    if (types == kernels::Types::integral) return !is_floating(dtype);
    return types != kernels::Types::real || dtype != DType::boolean;
}

using Values = std::vector<double>;
struct Case {
    const char* name;
    std::function<double(const Values&)> want;
    double low = -2, high = 2;
    double ulps = 4;
    std::vector<kernels::Param> params = {};
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh(double x) {
    return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
double gelu_tanh_slope(double x) {
    const double c = std::sqrt(2 / M_PI), s = sigmoid(2 * c * (x + 0.044715 * x * x * x));
    return s + 2 * x * s * (1 - s) * c * (1 + 3 * 0.044715 * x * x);
}
double remainder(double a, double b) { return std::fmod(std::fmod(a, b) + b, b); }

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

std::vector<Case> cases() {
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
        {"elu", ONE(x > 0 ? 2 * x : 1.0 * std::expm1(3 * x)), -2, 2, 8, {real(0.5), real(2), real(3)}},
        {"elu_backward", TWO(b > 0 ? 2 * a : 3 * a * std::exp(3 * b)), -2, 2, 16,
         {integer(0), real(0.5), real(2), real(3)}},
        {"elu_backward", TWO(b > 0 ? 2 * a : 3 * a * (b + 1)), -2, 2, 16,
         {integer(1), real(0.5), real(2), real(3)}},
        {"softplus_backward", TWO(b * 2 > 5 ? a : a * sigmoid(2 * b)), -4, 4, 8, {real(2), real(5)}},
        {"hardswish", ONE(x * std::clamp(x + 3, 0.0, 6.0) / 6), -5, 5, 4},
        {"hardswish_backward", TWO(b <= -3 ? 0 : b >= 3 ? a : a * (b / 3 + 0.5)), -5, 5, 8},
        {"hardsigmoid", ONE(std::clamp(x + 3, 0.0, 6.0) / 6), -5, 5, 4},
        {"hardsigmoid_backward", TWO(b > -3 && b < 3 ? a * (1.0f / 6) : 0), -5, 5, 2},
        {"hardtanh_backward", TWO(b > -1 && b < 0.5 ? a : 0), -2, 2, 0, {real(-1), real(0.5)}},
        {"hardshrink", ONE(std::fabs(x) <= 0.5 ? 0 : x), -2, 2, 0, {real(0.5)}},
        {"softshrink", ONE(x > 0.5 ? x - 0.5 : x < -0.5 ? x + 0.5 : 0), -2, 2, 2, {real(0.5)}},
        {"shrink_backward", TWO(std::fabs(b) > 0.5 ? a : 0), -2, 2, 0, {real(0.5)}},
        {"log_sigmoid_backward", THREE(a * (b < 0 ? 1 / (1 + c) : c / (1 + c))), 0.1, 2, 8},
        {"logit_backward", TWO(a / (b * (1 - b))), 0.05, 0.95, 8, {real(-1)}},
        {"logit_backward", TWO(b < 0.25 || b > 0.75 ? 0 : a / (b * (1 - b))), 0.05, 0.95, 8, {real(0.25)}},
        {"prelu", TWO(a > 0 ? a : b * a)},
        {"smooth_l1", TWO(std::fabs(a - b) < 0.5 ? (a - b) * (a - b) : std::fabs(a - b) - 0.25), -2, 2, 8, {real(0.5)}},
        {"smooth_l1_backward",
         THREE(2 * a * (std::fabs(b - c) < 0.5 ? (b - c) / 0.5 : b > c ? 1.0 : -1.0)), -2, 2, 8, {real(2), real(0.5)}},
        {"huber",
         TWO(std::fabs(a - b) < 0.5 ? (a - b) * (a - b) / 2 : 0.5 * (std::fabs(a - b) - 0.25)), -2, 2, 8, {real(0.5)}},
        {"huber_backward", THREE(2 * a * std::clamp(b - c, -0.5, 0.5)), -2, 2, 8, {real(2), real(0.5)}},
        {"mse_backward", THREE(2 * (b - c) * a), -2, 2, 8, {real(2)}},
        {"silu", ONE(x * sigmoid(x)), -2, 4, 8},
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

// As stored in the dtype: integers wrap, bool is != 0, floats may overflow.
double stored(double x, DType dtype) {
    std::byte bytes[8];
    encode(x, bytes, dtype);
    return decode(bytes, dtype);
}

void run_case(const Case& c, DType dtype, const Index& sizes, Lie in_lie, Lie out_lie,
              const Index& absent) {
    const kernels::MapRow& row = kernels::map_rows()[kernels::find_map(c.name)];
    std::vector<Tensor> tensors;
    for (size_t k = 0; k < row.inputs.size(); ++k) {
        const DType own = *row.inputs[k] == '*' ? DType::boolean : dtype;
        tensors.push_back(
            Tensor(own, sizes, in_lie, k == 0 ? Index{} : absent).random(c.low, c.high));
    }
    tensors.push_back(
        Tensor(row.types == kernels::Types::compare ? DType::boolean : dtype, sizes, out_lie));
    std::vector<Tensor*> operands;
    for (Tensor& t : tensors) operands.push_back(&t);
    const Program program = single(c.name, dtype);
    CHECK(run("map", sizes, operands, c.params.empty() ? defaults(c.name) : c.params, nullptr,
              &program) == 0);
    const Tensor& y = tensors.back();
    const double eps =
        epsilon(dtype) + (is_floating(dtype) ? epsilon(compute_of(dtype)) * c.ulps : 0);
    CHECK_VALUES(text_of(c.name, " ", name_of(dtype)), y, eps * 2, eps, [&](const Index& at) {
        Values values;
        for (size_t k = 0; k + 1 < tensors.size(); ++k) values.push_back(tensors[k].get(at));
        if (dtype == DType::boolean && std::string_view(c.name) == "bitwise_not")
            return double(!values[0]);
        return stored(c.want(values), y.dtype);
    });
}

void test_primitives() {
    std::map<std::string_view, int> tested;
    for (const Case& c : cases()) {
        ++tested[c.name];
        for (int d = 1; d < dtype_count; ++d) {
            const DType dtype = static_cast<DType>(d);
            if (!takes(kernels::map_rows()[kernels::find_map(c.name)].types, dtype)) continue;
            run_case(c, dtype, {1500}, Lie::dense, Lie::dense, {});
            run_case(c, dtype, {5, 37}, Lie::reversed, Lie::dense, {0});
            run_case(c, dtype, {3, 7, 11}, Lie::gapped, Lie::reversed, {1, 2});
            run_case(c, dtype, {4, 0, 3}, Lie::dense, Lie::gapped, {});
            run_case(c, dtype, {}, Lie::dense, Lie::dense, {});
        }
    }
    for (const kernels::MapRow& row : kernels::map_rows()) {
        static const std::vector<std::string_view> elsewhere = {
            "arange",  "uniform", "normal",       "bernoulli", "randint",
            "dropout", "sgd",     "sgd_momentum", "adam",      "adam_amsgrad", "prelu_backward"};
        const bool other =
            std::find(elsewhere.begin(), elsewhere.end(), row.name) != elsewhere.end();
        CHECK(other || tested.count(row.name));
    }
}

// What a loop cannot refuse, the engine does, as the row says.
void test_checked_inputs() {
    using kernels::MapCheck;
    std::vector<std::string> divide, chance;
    for (const kernels::MapRow& row : kernels::map_rows()) {
        if (row.check == MapCheck::none) continue;
        (row.check == MapCheck::divisor ? divide : chance)
            .push_back(text_of(row.name, " ", row.inputs[row.checked]));
        for (DType dtype : {DType::f32, DType::i64}) {
            if (!takes(row.types, dtype)) continue;
            const Index sizes{3};
            std::vector<Tensor> tensors(row.inputs.size() + 1, Tensor(dtype, sizes));
            std::vector<Tensor*> operands;
            for (Tensor& t : tensors) operands.push_back(&t.fill([] { return 1; }));
            const Program program = single(row.name, dtype);
            const auto status = [&](double last) {
                tensors[row.checked].set({2}, last);
                return run("map", sizes, operands, defaults(row.name), nullptr, &program, 0, {1});
            };
            const int refused = static_cast<int>(Status::runtime);
            CHECK(status(1) == 0);
            if (row.check == MapCheck::divisor) CHECK(status(0) == (dtype == DType::i64 ? refused : 0));
            else CHECK(status(2) == refused && status(-1) == refused && status(0) == 0);
        }
    }
    const std::vector<std::string> division = {"div_trunc b", "div_floor b", "remainder b", "fmod b"};
    const std::vector<std::string> chances = {"binary_cross_entropy x", "bernoulli p"};
    CHECK(divide == division && chance == chances);
}

void test_conversions() {
    for (DType dtype : {DType::f16, DType::bf16}) {
        Tensor all(dtype, {0x10000}), same(dtype, {0x10000});
        int bits = 0;
        const int mantissa = dtype == DType::f16 ? 10 : 7, bias = dtype == DType::f16 ? 15 : 127;
        all.fill([&] { return decode16(static_cast<uint16_t>(bits++), mantissa, bias); });
        Program twice;
        twice.n_in = twice.n_out = 1;
        twice.n_registers = 2;
        twice.code = {instruction("cast", DType::f32, {0}, {1})};
        CHECK(run("map", {0x10000}, {&all, &same}, {}, nullptr, &twice) == 0);
        CHECK_VALUES(name_of(dtype), same, 0, 0, [&](const Index& at) { return all.get(at); });

        const Index sizes{20000};
        Tensor x(DType::f32, sizes), y(dtype, sizes);
        x.fill([] { return std::bit_cast<float>(static_cast<uint32_t>(random_engine()())); });
        for (int i = 0; i < 5000; ++i) {  // ties and neighbours of ties
            const double half = (decode16(static_cast<uint16_t>(i * 6), mantissa, bias) +
                                 decode16(static_cast<uint16_t>(i * 6 + 1), mantissa, bias)) /
                                2;
            x.set({i}, i % 3 == 0 ? half : std::nextafterf(float(half), i % 3 == 1 ? 0 : INFINITY));
        }
        CHECK(run("map", sizes, {&x, &y}, {}, nullptr, &twice) == 0);
        CHECK_VALUES(name_of(dtype), y, 0, 0, [&](const Index& at) {
            return decode16(encode16(x.get(at), mantissa, bias), mantissa, bias);
        });
    }
}

}  // namespace

int main() {
    test_primitives();
    test_checked_inputs();
    test_conversions();
    return result();
}
