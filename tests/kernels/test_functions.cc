// SPDX-License-Identifier: BSD-3-Clause
// Functions of one element over their whole range, against libm.
#include <bit>

#include "programs.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Program;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Function {
    const char* name;
    double (*want)(double);
    double ulps;
};

// Every f32 function over its whole range, infinities, nan, zeros and subnormals included.
void test_special_values() {
    const Function functions[] = {
        {"exp", std::exp, 3},     {"exp2", std::exp2, 3},
        {"expm1", std::expm1, 4}, {"log", std::log, 3},
        {"log2", std::log2, 3},   {"log1p", std::log1p, 4},
        {"tanh", std::tanh, 3},   {"erf", std::erf, 3},
        {"sigmoid", sigmoid, 4},  {"sqrt", std::sqrt, 1},
        {"sin", std::sin, 2},     {"cos", std::cos, 2},
        {"tan", std::tan, 2},     {"asin", std::asin, 2},
        {"acos", std::acos, 2},   {"atan", std::atan, 2},
        {"sinh", std::sinh, 6},   {"cosh", std::cosh, 6},
        {"asinh", std::asinh, 2}, {"acosh", std::acosh, 2},
        {"atanh", std::atanh, 2}, {"log10", std::log10, 2},
        {"erfc", std::erfc, 2},   {"relu", [](double x) { return x <= 0 ? 0 : x; }, 0},
    };
    const float inf = INFINITY;
    std::vector<float> values = {0.f,    -0.f,   inf,    -inf,   NAN,    1e-45f, -1e-45f, 1e-39f,
                                 1e38f,  -1e38f, 88.f,   89.f,   -87.f,  -88.f,  -103.f,  -104.f,
                                 127.9f, 128.f,  -126.f, -149.f, -150.f, 1.f,    -1.f,    1e-8f};
    for (uint32_t bits = 0; bits < 0x7f800000; bits += 79997)
        for (uint32_t sign : {0u, 0x80000000u}) values.push_back(std::bit_cast<float>(bits | sign));
    for (const Function& f : functions) {
        const Index sizes{static_cast<int64_t>(values.size())};
        Tensor x(DType::f32, sizes), y(DType::f32, sizes);
        for (size_t i = 0; i < values.size(); ++i) x.set({static_cast<int64_t>(i)}, values[i]);
        const Program program = single(f.name, DType::f32);
        CHECK(run("map", sizes, {&x, &y}, {}, nullptr, &program) == 0);
        // Below 1e-37 sigmoid's exp overflows to a clean 0, as PyTorch's.
        const double tiny = f.want == sigmoid ? 1e-37 : 1.5e-45;
        CHECK_VALUES(f.name, y, 1.2e-7 * f.ulps, tiny,
                     [&](const Index& at) { return double(float(f.want(x.get(at)))); });
    }
    Tensor a(DType::f32, {3}), b(DType::f32, {3}), y(DType::f32, {3});
    for (const char* name : {"maximum", "minimum", "clamp_min", "clamp_max"}) {
        a.set({0}, NAN), a.set({1}, 1), a.set({2}, NAN);
        b.set({0}, 1), b.set({1}, NAN), b.set({2}, NAN);
        const Program program = single(name, DType::f32);
        CHECK(run("map", {3}, {&a, &b, &y}, {}, nullptr, &program) == 0);
        CHECK_VALUES(name, y, 0, 0, [](const Index&) { return NAN; });
    }
}

// Likewise the functions of f64 that have formulas of their own; the others are SLEEF's.
void test_special_doubles() {
    const Function functions[] = {
        {"exp", std::exp, 2},   {"exp2", std::exp2, 2}, {"expm1", std::expm1, 3},
        {"log", std::log, 2},   {"log2", std::log2, 3}, {"log1p", std::log1p, 4},
        {"tanh", std::tanh, 3}, {"erf", std::erf, 4},   {"sigmoid", sigmoid, 3},
    };
    std::vector<double> values = {
        0.,      -0.,     INFINITY, -INFINITY, NAN,     5e-324, -5e-324, 1e-310, 1e308,
        -1e308,  709.7,   709.8,    710.,      -708.,   -709.,  -745.1,  -746.,  1023.9,
        1024.,   -1022.,  -1074.,   -1075.,    -1076.,  1.,     -1.,     1e-16,  -40.,
        0.34657, 0.34658, -0.34658, 0.625,     0.70711, 1.4142, 1.4143,  5.99,   6.01};
    for (uint64_t bits = 0; bits < 0x7ff0000000000000; bits += 0x7ff123456789)
        for (uint64_t sign : {uint64_t{0}, uint64_t{1} << 63})
            values.push_back(std::bit_cast<double>(bits | sign));
    std::uniform_real_distribution<double> near(-8, 8), far(-750, 750);
    for (int i = 0; i < 4000; ++i)
        values.insert(values.end(), {near(random_engine()), far(random_engine())});
    const Index sizes{static_cast<int64_t>(values.size())};
    Tensor x(DType::f64, sizes), y(DType::f64, sizes);
    for (size_t i = 0; i < values.size(); ++i) x.set({static_cast<int64_t>(i)}, values[i]);
    for (const Function& f : functions) {
        const Program program = single(f.name, DType::f64);
        CHECK(run("map", sizes, {&x, &y}, {}, nullptr, &program) == 0);
        const double tiny = f.want == sigmoid ? 1e-307 : 1e-323;
        CHECK_VALUES(f.name, y, 2.3e-16 * f.ulps, tiny,
                     [&](const Index& at) { return f.want(x.get(at)); });
        for (int64_t i : {0, 1})  // zeros keep their sign
            CHECK(std::signbit(y.get({i})) == std::signbit(f.want(values[static_cast<size_t>(i)])));
    }
}

}  // namespace

int main() {
    test_special_values();
    test_special_doubles();
    return result();
}
