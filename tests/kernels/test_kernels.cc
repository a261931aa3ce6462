// SPDX-License-Identifier: BSD-3-Clause
// copy, fill, reduce, argmax, argmin and gemm against plain loops in double.
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

const DType all_types[] = {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64,
                           DType::i32, DType::i16, DType::i8,  DType::u8,   DType::boolean};

double stored(double x, DType dtype) {
    std::byte bytes[8];
    encode(x, bytes, dtype);
    return decode(bytes, dtype);
}

void test_copy() {
    for (DType from : all_types)
        for (DType to : all_types)
            for (Lie lie : lies)
                for (const Index& sizes : {Index{}, {70}, {67, 45}, {3, 0, 2}, {5, 6, 7, 8}}) {
                    Tensor x(from, sizes, lie),
                        y(to, sizes, lie == Lie::reversed ? Lie::gapped : Lie::dense);
                    x.random(0, 9);
                    CHECK(run("copy", sizes, {&x, &y}) == 0);
                    CHECK_VALUES(
                        text_of("copy ", name_of(from), " to ", name_of(to)), y, 0, 0,
                        [&](const Index& at) {  // f16 and bf16 round through float, as in PyTorch
                            const bool half = size_of(to) == 2 && is_floating(to);
                            return stored(half ? float(x.get(at)) : x.get(at), to);
                        });
                }
    Tensor x(DType::f32, {4}), y(DType::boolean, {4}), z(DType::f32, {4, 100}),
        e(DType::f32, {4, 100}, Lie::dense, {1});
    x.set({0}, 0.5), x.set({1}, NAN), x.set({2}, 0), x.set({3}, -0.25);
    CHECK(run("copy", {4}, {&x, &y}) == 0);
    CHECK_VALUES("fraction to bool", y, 0, 0, [](const Index& at) { return at[0] != 2; });
    Tensor exact(DType::i64, {1}), same(DType::i64, {1});
    exact.set({0}, 9007199254740992.0);
    CHECK(run("copy", {1}, {&exact, &same}) == 0 && same.same_bytes(exact));
    Tensor number(DType::f64, {1});  // needs more bits than f32 has
    number.set({0}, 9007199254740991.0);
    CHECK(run("copy", {1}, {&number, &same}) == 0 && same.get({0}) == 9007199254740991.0);
    e.random();
    CHECK(run("copy", {4, 100}, {&e, &z}) == 0);
    CHECK_VALUES("expanded", z, 0, 0, [&](const Index& at) { return e.get(at); });
    for (DType dtype : all_types)  // pairs: of two rows alternating elements, and back
        for (const Index& sizes : {Index{131, 2}, {2, 131}, {3, 70, 2}, {64, 2}}) {
            Tensor from(dtype, sizes, Lie::reversed), to(dtype, sizes);
            from.random(0, 9);
            CHECK(run("copy", sizes, {&from, &to}) == 0);
            CHECK_VALUES("pairs", to, 0, 0, [&](const Index& at) { return from.get(at); });
        }
    // A shuffle of pixels: n, h, i, w, j as the result lies; x as channels of i and j, with a gap,
    // or with the n innermost.
    for (DType dtype : all_types)
        for (int64_t n : {2, 5, 40})
            for (const Index& strides : {Index{128, 8, 64, 1, 32},
                                         {256, 16, 128, 2, 64},
                                         {1, 8 * n, 64 * n, n, 32 * n},
                                         {1, n, 8 * n, 4, 12}}) {
                const Index sizes{n, 4, 2, 8, 2};
                Tensor from(dtype, sizes, strides), to(dtype, sizes);
                from.random(0, 9);
                CHECK(run("copy", sizes, {&from, &to}) == 0);
                CHECK_VALUES("shuffle", to, 0, 0, [&](const Index& at) { return from.get(at); });
            }
    for (DType dtype : all_types) {
        Tensor t(dtype, {9, 11}, Lie::gapped);
        CHECK(run("fill", {9, 11}, {&t}, {real(1)}) == 0);
        CHECK_VALUES("fill", t, 0, 0, [](const Index&) { return 1; });
    }
}

// Every float16 there and back, in vectors and one by one; halves of floats between two of them, to
// the nearest.
void test_halves() {
    const int64_t n = 1 << 16;
    for (Lie lie : {Lie::dense, Lie::gapped}) {
        Tensor half(DType::f16, {n}, lie), single(DType::f32, {n}, lie), back(DType::f16, {n}, lie);
        for (int64_t bits = 0; bits < n; ++bits) half.set({bits}, decode16(uint16_t(bits), 10, 15));
        CHECK(run("copy", {n}, {&half, &single}) == 0);
        CHECK_VALUES("of half", single, 0, 0, [&](const Index& at) { return half.get(at); });
        CHECK(run("copy", {n}, {&single, &back}) == 0);
        CHECK_VALUES("to half", back, 0, 0, [&](const Index& at) { return half.get(at); });
        for (float aside : {0.f, -1.f, 1.f}) {  // a tie, and its neighbours
            for (int64_t bits = 0; bits < n; ++bits) {
                const double low = decode16(uint16_t(bits), 10, 15),
                             high = decode16(uint16_t(bits + 1), 10, 15);
                const float tie = std::isfinite(low)
                                      ? std::isfinite(high) ? float((low + high) / 2) : 65520.f
                                      : NAN;
                single.set({bits}, aside == 0 ? tie : std::nextafter(tie, aside * INFINITY));
            }
            CHECK(run("copy", {n}, {&single, &back}) == 0);
            CHECK_VALUES("nearest half", back, 0, 0,
                         [&](const Index& at) { return stored(single.get(at), DType::f16); });
        }
    }
}

// ---- reduce
struct Fold {
    const char* name;
    double start;
    double (*join)(double, double);
};
const Fold folds[] = {
    {"sum", 0, [](double a, double b) { return a + b; }},
    {"prod", 1, [](double a, double b) { return a * b; }},
    {"amax", -INFINITY, [](double a, double b) { return std::isnan(a) || a > b ? a : b; }},
    {"amin", INFINITY, [](double a, double b) { return std::isnan(a) || a < b ? a : b; }},
    {"any", 0, [](double a, double b) { return double(a != 0 || b != 0); }},
    {"all", 1, [](double a, double b) { return double(a != 0 && b != 0); }},
    {"sumsq", 0, [](double a, double b) { return a + b * b; }},
};

void reduce_case(int op, DType dtype, const Index& sizes, Lie lie, const Index& dims,
                 bool accumulate, DType out, const Index& absent = {}) {
    const Fold& fold = folds[op];
    Tensor x(dtype, sizes, lie, absent), y(out, sizes, Lie::dense, dims);
    op == 1 ? x.random(1, 1.5) : x.random(-2, 2);
    y.random(1, 2);
    const Tensor before = y;
    CHECK(run("reduce", sizes, {&x, &y}, {integer(op), integer(accumulate)}) == 0);
    int64_t n = 1;
    for (int64_t d : dims) n *= sizes[d];
    const double eps = epsilon(out) + epsilon(dtype == DType::f64 ? DType::f64 : DType::f32) * 8;
    const double scale =
        is_floating(out) ? eps * (op <= 1 || op == 6 ? std::sqrt(double(n)) * 4 + 4 : 4) : 0;
    CHECK_VALUES(text_of(fold.name, " ", name_of(dtype)), y, scale, scale, [&](const Index& at) {
        Index part = sizes;
        for (size_t d = 0; d < sizes.size(); ++d)
            if (std::find(dims.begin(), dims.end(), int64_t(d)) == dims.end()) part[d] = 1;
        double value = fold.start;
        Tensor(DType::u8, part).each([&](const Index& shift) {
            Index j = at;
            for (size_t d = 0; d < j.size(); ++d) j[d] += shift[d];
            value = fold.join(value, x.get(j));
        });
        if (accumulate) value = op == 6 ? value + before.get(at) : fold.join(before.get(at), value);
        return stored(value, out);
    });
}

void test_reduce() {
    for (int op = 0; op < 7; ++op)
        for (DType dtype : all_types) {
            const bool truth = op == 4 || op == 5;
            if (op == 1 && !is_floating(dtype)) continue;
            const DType out = truth                            ? DType::boolean
                              : op == 0 && !is_floating(dtype) ? DType::i64
                                                               : dtype;
            for (Lie lie : lies)
                for (bool accumulate : {false, true}) {
                    reduce_case(op, dtype, {40, 30}, lie, {1}, accumulate, out);
                    reduce_case(op, dtype, {40, 30}, lie, {0}, accumulate, out);
                    reduce_case(op, dtype, {3, 5, 4, 6}, lie, {0, 2}, accumulate, out);
                    reduce_case(op, dtype, {3, 5, 4, 6}, lie, {1, 3}, accumulate, out);
                    reduce_case(op, dtype, {2, 700}, lie, {0, 1}, accumulate, out);
                    reduce_case(op, dtype, {30, 1}, lie, {1}, accumulate, out);  // nothing to join
                    reduce_case(op, dtype, {2, 50, 5}, lie, {2}, accumulate, out);  // short runs
                    // A run and a part of one
                    reduce_case(op, dtype, {3, 70}, lie, {1}, accumulate, out);
                    // Planes of runs
                    reduce_case(op, dtype, {20, 3, 7, 18}, lie, {1, 3}, accumulate, out);
                    reduce_case(op, dtype, {20, 70, 18}, lie, {1, 2}, accumulate, out);
                    // Of what is there once
                    reduce_case(op, dtype, {20, 6, 5}, lie, {1, 2}, accumulate, out, {1});
                    reduce_case(op, dtype, {5, 3, 6, 7}, lie, {1}, accumulate, out, {0, 2});
                    reduce_case(op, dtype, {4, 20}, lie, {0}, accumulate, out, {0});
                }
            // Rows in groups, and a part of one
            reduce_case(op, dtype, {1100, 5}, Lie::dense, {0}, true, out);
            reduce_case(op, dtype, {2, 900, 7}, Lie::dense, {0, 1}, false, out);
            // More results than at once
            reduce_case(op, dtype, {3, 2500}, Lie::dense, {0}, false, out);
            // Two kept dims are as one in x, and lie the other way in y
            for (bool accumulate : {false, true}) {
                reduce_case(op, dtype, {2, 1500, 9}, Lie::reversed, {2}, accumulate, out);
                reduce_case(op, dtype, {5, 7, 333}, Lie::reversed, {2}, accumulate, out);
                reduce_case(op, dtype, {2, 40, 6}, Lie::reversed, {1}, accumulate, out);
            }
            if (op == 2 || op == 3) continue;
            reduce_case(op, dtype, {3, 0}, Lie::dense, {1}, false, out);
            reduce_case(op, dtype, {0, 3}, Lie::dense, {1}, false, out);
            reduce_case(op, dtype, {}, Lie::dense, {}, false, out);
        }
    reduce_case(0, DType::f32, {20000, 3}, Lie::dense, {0}, false, DType::f32);
    reduce_case(0, DType::f32, {3, 20000}, Lie::dense, {1}, false, DType::f32);
    reduce_case(0, DType::bf16, {3, 20000}, Lie::dense, {1}, false, DType::f32);
    for (int op : {2, 3})
        for (int64_t where : {0, 63, 64, 140, 149}) {
            Tensor x(DType::f32, {150}), y(DType::f32, {150}, Lie::dense, {0});
            x.random().set({where}, NAN);
            CHECK(run("reduce", {150}, {&x, &y}, {integer(op), integer(0)}) == 0 &&
                  std::isnan(y.get({0})));
        }
}

void test_argmax() {
    for (const char* name : {"argmax", "argmin"})
        for (DType dtype : all_types)
            for (Lie lie : lies)
                for (int64_t reduced : {1, 2})
                    for (int nans : {0, 2}) {
                        if (nans && !is_floating(dtype)) continue;
                        const Index sizes{3, 4, 600};
                        Tensor x(dtype, sizes, lie),
                            y(DType::i64, sizes, Lie::dense, reduced == 1 ? Index{2} : Index{1, 2});
                        x.random(-9, 9);
                        for (int k = 0; k < nans; ++k) x.set({1, k, 100 + 450 * k}, NAN);
                        CHECK(run(name, sizes, {&x, &y}, {integer(reduced)}) == 0);
                        CHECK_VALUES(name, y, 0, 0, [&](const Index& at) {
                            double best = 0, index = -1, k = 0;
                            for (int64_t i = 0; i < (reduced == 1 ? 1 : 4); ++i)
                                for (int64_t j = 0; j < 600; ++j, ++k) {
                                    const double v = x.get({at[0], reduced == 1 ? at[1] : i, j});
                                    const bool more =
                                        *(name + 3) == 'm' && name[4] == 'a' ? v > best : v < best;
                                    if (index < 0 || (!std::isnan(best) && (more || std::isnan(v))))
                                        best = v, index = k;
                                }
                            return index;
                        });
                    }
    Tensor x(DType::f32, {2, 0}), y(DType::i64, {2, 0}, Lie::dense, {1});
    std::string text;
    CHECK(run("argmax", {2, 0}, {&x, &y}, {integer(1)}, &text) == int(Status::index_error));
    CHECK(text.find("argmax") == 0);
}

// ---- gemm
struct Gemm {
    DType dtype;
    Index sizes;  // batch.., m, n, k
    Lie a = Lie::dense, b = Lie::dense, y = Lie::dense;
    Index a_absent = {}, b_absent = {}, c_absent = {};
    double alpha = 1, beta = 0;
    bool accumulate = false;
};

void gemm_case(const Gemm& g) {
    const auto m = int64_t(g.sizes.size()) - 3;
    auto with = [](Index list, int64_t d) {
        list.push_back(d);
        return list;
    };
    Tensor a(g.dtype, g.sizes, g.a, with(g.a_absent, m + 1)),
        b(g.dtype, g.sizes, g.b, with(g.b_absent, m));
    Tensor c(g.dtype, g.sizes, Lie::dense, with(g.c_absent, m + 2)),
        y(g.dtype, g.sizes, g.y, {m + 2});
    a.random(), b.random(), c.random(), y.random();
    if (g.beta == 0 && is_floating(g.dtype)) c.fill([] { return NAN; });
    if (!g.accumulate && is_floating(g.dtype)) y.fill([] { return NAN; });
    const Tensor before = y;
    CHECK(run("gemm", g.sizes, {&a, &b, &c, &y},
              {real(g.alpha), real(g.beta), integer(g.accumulate)}) == 0);
    const int64_t k = g.sizes.back();
    const double eps =
        epsilon(g.dtype) +
        (is_floating(g.dtype) ? epsilon(g.dtype == DType::f64 ? DType::f64 : DType::f32) : 0);
    // The error of the sum is multiplied too.
    const double sum_error = 8 * std::sqrt(double(k)) * std::max(1.0, std::abs(g.alpha));
    const double tolerance = is_floating(g.dtype) ? eps * (sum_error + 8) : 0;
    CHECK_VALUES(text_of("gemm ", name_of(g.dtype)), y, tolerance, tolerance, [&](const Index& at) {
        Index j = at;
        long double sum = 0;  // or its own error were as large as that of a sum in f64
        for (int64_t l = 0; l < k; ++l) {
            j[m + 2] = l;
            sum += static_cast<long double>(a.get(j)) * b.get(j);
        }
        const double start = g.accumulate ? before.get(at) : g.beta != 0 ? g.beta * c.get(at) : 0;
        return stored(static_cast<double>(start + g.alpha * sum), g.dtype);
    });
}

// Batches of matrices that share rows, as windows of a sequence do.
void test_windows() {
    for (DType dtype : {DType::f32, DType::bf16}) {
        const Index sizes{3, 8, 5, 17};
        Tensor a(dtype, sizes, Index{17, 17, 0, 1}), b(dtype, sizes, Lie::dense, {1}),
            y(dtype, sizes, Lie::dense, {3});
        a.random(), b.random();
        CHECK(run("gemm", sizes, {&a, &b, nullptr, &y}, {real(1), real(0), integer(0)}) == 0);
        CHECK_VALUES("gemm of windows", y, 32 * epsilon(dtype), 32 * epsilon(dtype),
                     [&](const Index& at) {
                         double sum = 0;
                         for (int64_t l = 0; l < 17; ++l)
                             sum += a.get({at[0], at[1], 0, l}) * b.get({at[0], 0, at[2], l});
                         return sum;
                     });
    }
}

void test_gemm() {
    for (DType dtype :
         {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8})
        for (Lie a : lies)
            for (Lie b : lies)
                for (Lie y : lies) {
                    gemm_case({dtype, {7, 9, 11}, a, b, y});
                    gemm_case({dtype, {2, 3, 5, 4, 6}, a, b, y, {}, {}, {}, 2, 1});
                    gemm_case(
                        {dtype, {3, 8, 5, 4}, a, b, y, {}, {0}, {0, 1}, 1, 2});  // w and bias of a
                                                                                 // linear layer
                    gemm_case({dtype, {3, 1, 5, 4}, a, b, y, {}, {0}, {0, 1}, 1, 1});
                    gemm_case({dtype, {4, 6, 6}, a, b, y, {}, {}, {}, 3, 0, true});
                    // batches: of all three, one a or one b for all, with a bias, added to y
                    gemm_case({dtype, {3, 8, 5, 17}, a, b, y});
                    gemm_case({dtype, {3, 8, 5, 17}, a, b, y, {0}});
                    gemm_case({dtype, {2, 4, 6, 5, 18}, a, b, y, {}, {1}, {0, 1, 2}, 1, 1});
                    gemm_case({dtype, {2, 4, 1, 5, 18}, a, b, y, {}, {}, {0, 1, 2}, 1, 1});
                    gemm_case({dtype, {4, 6, 1, 6}, a, b, y, {}, {}, {}, 1, 0, true});
                }
    for (DType dtype : {DType::f32, DType::bf16, DType::i64}) {
        for (const Index& sizes : {Index{0, 3, 4},
                                   {3, 0, 4},
                                   {2, 3, 0},
                                   {0, 2, 3, 4},
                                   {1, 1, 1},
                                   {1, 5, 7},
                                   {5, 1, 7},
                                   {5, 7, 1}}) {
            gemm_case({dtype, sizes});
            gemm_case({dtype, sizes, Lie::reversed, Lie::reversed, Lie::dense, {}, {}, {}, 1, 2});
            gemm_case(
                {dtype, sizes, Lie::dense, Lie::dense, Lie::reversed, {}, {}, {}, 1, 0, true});
        }
        gemm_case(
            {dtype, {4, 3, 5}, Lie::dense, Lie::dense, Lie::dense, {0}});  // expanded rows of a
    }
    for (DType dtype : {DType::f32, DType::f64})  // one row or column: a matrix by a vector
        for (const Index& sizes :
             {Index{1, 37, 300}, Index{37, 1, 300}, Index{1, 1, 300}, Index{3, 1, 37, 41}})
            for (Lie a : {Lie::dense, Lie::reversed, Lie::gapped})
                for (Lie b : {Lie::dense, Lie::reversed, Lie::gapped}) {
                    gemm_case({dtype, sizes, a, b});
                    gemm_case({dtype, sizes, a, b, Lie::reversed, {}, {}, {}, 2, 0.5});
                    gemm_case({dtype, sizes, a, b, Lie::gapped, {}, {}, {}, 1, 0, true});
                }
    // Large enough for the library that packs less, each with its own choice for the layouts
    for (const Index& sizes :
         {Index{40, 260, 100}, {300, 50, 90}, {300, 80, 90}, {3, 4000, 90}, {40, 36, 33}})
        for (Lie a : {Lie::dense, Lie::reversed, Lie::gapped})
            for (Lie b : {Lie::dense, Lie::reversed, Lie::gapped}) {
                gemm_case({DType::f32, sizes, a, b});
                gemm_case({DType::f32, sizes, a, b, Lie::gapped, {}, {}, {0}, 1, 1});  // a bias
                gemm_case({DType::f32, sizes, a, b, Lie::dense, {}, {}, {0}, 1, 2});
                gemm_case({DType::f32, sizes, a, b, Lie::dense, {}, {}, {}, 2, 0});
                gemm_case({DType::f32, sizes, a, b, Lie::reversed, {}, {}, {}, 1, 0.5});
                gemm_case({DType::f32, sizes, a, b, Lie::dense, {}, {}, {}, 1, 0, true});
            }
    gemm_case({DType::bf16, {400, 390, 3}});
    for (Lie y : {Lie::dense, Lie::reversed}) {  // more than one panel of sums
        gemm_case({DType::bf16, {600, 520, 70}, Lie::dense, Lie::dense, y, {}, {}, {0}, 1, 1});
        gemm_case(
            {DType::bf16, {600, 520, 70}, Lie::reversed, Lie::dense, y, {}, {}, {}, 1, 0, true});
    }
    gemm_case({DType::f16, {5, 6, 800}, Lie::reversed, Lie::reversed});
    CHECK(kernels::gemm_layout_ok(4, 8, 8, 1) && kernels::gemm_layout_ok(4, 8, 1, 4) &&
          kernels::gemm_layout_ok(1, 8, 0, 1));
    CHECK(!kernels::gemm_layout_ok(4, 8, 16, 2) && !kernels::gemm_layout_ok(4, 8, 0, 1) &&
          !kernels::gemm_layout_ok(4, 8, 4, 1));
}

// Rows of few lanes are joined in sixteens, columns in eights.
void test_few_rows() {
    for (int op : {0, 2, 3, 6})
        for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i64})
            for (Lie lie : lies)
                for (const Index& dims : {Index{0}, {1}})
                    for (const Index& sizes :
                         {Index{19, 257}, {37, 1031}, {33, 8}, {8, 33}, {1, 100}, {17, 1}})
                        reduce_case(op, dtype, sizes, lie, dims, false, dtype);
}

}  // namespace

int main() {
    kernels::single_thread_blas();
    test_copy();
    test_halves();
    test_reduce();
    test_argmax();
    test_gemm();
    test_windows();
    test_few_rows();
    return result();
}
