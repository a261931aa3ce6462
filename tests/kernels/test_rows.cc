// SPDX-License-Identifier: BSD-3-Clause
// Kernels over whole rows: softmax, layer norm, negative log-likelihood, embedding.
#include <map>
#include <memory>

#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

const DType floats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
const Index shapes[] = {{5, 10}, {3, 4, 64}, {2, 1},   {1, 3000},  {0, 4},
                        {4, 0},  {7},        {2, 700}, {67, 5, 13}};

double tolerance(DType dtype) { return 2 * epsilon(dtype) + (dtype == DType::f64 ? 1e-13 : 2e-6); }

Index with_last(Index at, int64_t last) {
    at.back() = last;
    return at;
}
double row_sum(const Index& at, int64_t d, const std::function<double(const Index&)>& f) {
    double sum = 0;
    for (int64_t j = 0; j < d; ++j) sum += f(with_last(at, j));
    return sum;
}

// f of the row that holds an element, computed once per row.
std::function<double(const Index&)> per_row(const std::function<double(const Index&)>& f) {
    auto known = std::make_shared<std::map<Index, double>>();
    return [=](const Index& at) {
        const Index row = with_last(at, 0);
        const auto it = known->find(row);
        return it != known->end() ? it->second : known->emplace(row, f(row)).first->second;
    };
}

void test_softmax() {
    const std::pair<Lie, Lie> pairs[] = {{Lie::dense, Lie::dense},
                                         {Lie::reversed, Lie::dense},
                                         {Lie::reversed, Lie::reversed},
                                         {Lie::gapped, Lie::dense},
                                         {Lie::apart, Lie::dense}};
    for (DType dtype : floats)
        for (const auto& [lie, own] : pairs)
            for (const Index& sizes : shapes) {
                const int64_t d = sizes.back();
                Tensor x(dtype, sizes, lie), y(dtype, sizes, own), dy(dtype, sizes, lie),
                    dx(dtype, sizes, lie);
                x.random(-30, 30), dy.random();
                const double eps = tolerance(dtype);
                auto log_sum = per_row([&](const Index& at) {
                    double max = -INFINITY;
                    for (int64_t j = 0; j < d; ++j) max = std::max(max, x.get(with_last(at, j)));
                    return max + std::log(row_sum(
                                     at, d, [&](auto& i) { return std::exp(x.get(i) - max); }));
                });
                auto dot = per_row([&](const Index& at) {
                    return row_sum(at, d, [&](auto& i) { return dy.get(i) * y.get(i); });
                });
                auto dy_sum = per_row([&](const Index& at) {
                    return row_sum(at, d, [&](auto& i) { return dy.get(i); });
                });
                CHECK(run("softmax", sizes, {&x, &y}) == 0);
                CHECK_VALUES("softmax", y, eps * 8, eps * 1e-3 + 1e-7 * (dtype == DType::f16),
                             [&](const Index& at) { return std::exp(x.get(at) - log_sum(at)); });
                CHECK(run("softmax_backward", sizes, {&dy, &y, &dx}) == 0);
                CHECK_VALUES("softmax_backward", dx, eps, eps * 2,
                             [&](const Index& at) { return y.get(at) * (dy.get(at) - dot(at)); });
                CHECK(run("log_softmax", sizes, {&x, &y}) == 0);
                CHECK_VALUES("log_softmax", y, eps, eps * 30,
                             [&](const Index& at) { return x.get(at) - log_sum(at); });
                CHECK(run("log_softmax_backward", sizes, {&dy, &y, &dx}) == 0);
                CHECK_VALUES(
                    "log_softmax_backward", dx, eps * 4, eps * 4 * std::sqrt(double(d)),
                    [&](const Index& at) { return dy.get(at) - std::exp(y.get(at)) * dy_sum(at); });
            }
    // In place, an expanded gradient, and rows without a finite element.
    const Index sizes{3, 700};
    for (DType dtype : {DType::f32, DType::bf16}) {
        Tensor x(dtype, sizes), apart(dtype, sizes), one(dtype, sizes, Lie::dense, {0, 1}),
            dx(dtype, sizes);
        x.random(-3, 3);
        CHECK(run("softmax", sizes, {&x, &apart}) == 0);
        kernels::Block blocks[] = {x.block(), x.block()};
        CHECK(kernels::find_kernel("softmax")->cpu({sizes, blocks, {}}) == 0);
        CHECK_VALUES("in place", x, epsilon(dtype), 0,
                     [&](const Index& at) { return apart.get(at); });
        one.set({0, 0}, 1);
        CHECK(run("softmax_backward", sizes, {&one, &x, &dx}) == 0);
        CHECK_VALUES("expanded dy", dx, 0, 2 * epsilon(dtype), [](const Index&) { return 0; });
    }
    Tensor x(DType::f32, {2, 3}), y(DType::f32, {2, 3});
    x.fill([] { return -INFINITY; }).set({1, 1}, 0);
    CHECK(run("softmax", {2, 3}, {&x, &y}) == 0);
    CHECK_VALUES("-inf", y, 0, 0, [](const Index& at) { return at[0] == 0 ? NAN : at[1] == 1; });
}

void test_layer_norm() {
    for (DType dtype : floats)
        for (Lie lie : lies)
            for (const Index& sizes : shapes)
                for (bool affine : {false, true}) {
                    const int64_t d = sizes.back(), last = int64_t(sizes.size()) - 1;
                    Index outer;
                    for (int64_t i = 0; i < last; ++i) outer.push_back(i);
                    Tensor x(dtype, sizes, lie), y(dtype, sizes), dy(dtype, sizes),
                        dx(dtype, sizes, lie);
                    Tensor w(dtype, sizes, Lie::gapped, outer), b(dtype, sizes, Lie::dense, outer);
                    const DType wide = dtype == DType::f64 ? dtype : DType::f32;
                    Tensor mean(wide, sizes, Lie::dense, {last}),
                        rstd(wide, sizes, Lie::dense, {last});
                    x.random(1, 4), dy.random(), w.random(), b.random();
                    const double eps = tolerance(dtype) * 8;
                    Tensor *pw = affine ? &w : nullptr, *pb = affine ? &b : nullptr;
                    CHECK(run("layer_norm", sizes, {&x, pw, pb, &y, &mean, &rstd}, {real(1e-5)}) ==
                          0);
                    if (d == 0) continue;
                    auto m = per_row([&](const Index& at) {
                        return row_sum(at, d, [&](auto& i) { return x.get(i); }) / d;
                    });
                    auto r = per_row([&](const Index& at) {
                        const double mu = m(at);
                        return 1 / std::sqrt(row_sum(at, d,
                                                     [&](auto& i) {
                                                         return std::pow(x.get(i) - mu, 2);
                                                     }) /
                                                 d +
                                             1e-5);
                    });
                    if (d > 1) CHECK_VALUES("rstd", rstd, 1e-5, 0, r);
                    CHECK_VALUES("mean", mean, 1e-6, 0, m);
                    auto weight = [&](const Index& at) {
                        return affine ? w.get(with_last(Index(at.size(), 0), at.back())) : 1;
                    };
                    auto hat = [&](const Index& at) {
                        const Index row = with_last(at, 0);
                        return (x.get(at) - mean.get(row)) * rstd.get(row);
                    };
                    const double noise = d == 1 ? 1e-3 : 0;  // rstd = 316 there
                    CHECK_VALUES("layer_norm", y, eps, eps + noise, [&](const Index& at) {
                        return hat(at) * weight(at) +
                               (affine ? b.get(with_last(Index(at.size(), 0), at.back())) : 0);
                    });
                    CHECK(run("layer_norm_backward_input", sizes,
                              {&dy, &x, &mean, &rstd, pw, &dx}) == 0);
                    auto g = [&](const Index& i) { return dy.get(i) * weight(i); };
                    auto a = per_row([&](const Index& at) { return row_sum(at, d, g) / d; });
                    auto c = per_row([&](const Index& at) {
                        return row_sum(at, d, [&](auto& i) { return g(i) * hat(i); }) / d;
                    });
                    CHECK_VALUES("dx", dx, eps, eps * 8 + noise, [&](const Index& at) {
                        return rstd.get(with_last(at, 0)) * (g(at) - a(at) - hat(at) * c(at));
                    });
                    Tensor dw(dtype, sizes, Lie::dense, outer),
                        db(dtype, sizes, Lie::gapped, outer);
                    dw.random(), db.random();
                    const Tensor dw0 = dw, db0 = db;
                    CHECK(run("layer_norm_backward_affine", sizes,
                              {&dy, &x, &mean, &rstd, &dw, &db}, {integer(affine)}) == 0);
                    CHECK(run("layer_norm_backward_affine", sizes,
                              {&dy, &x, &mean, &rstd, nullptr, nullptr}, {integer(1)}) == 0);
                    auto columns = [&](const Index& at,
                                       const std::function<double(const Index&)>& f) {
                        double sum = 0;
                        Index rows = with_last(sizes, 1);
                        Tensor(DType::u8, rows).each([&](const Index& row) {
                            sum += f(with_last(row, at.back()));
                        });
                        return sum;
                    };
                    CHECK_VALUES("dw", dw, eps, eps * 8 + noise, [&](const Index& at) {
                        return (affine ? dw0.get(at) : 0) +
                               columns(at, [&](auto& i) { return dy.get(i) * hat(i); });
                    });
                    CHECK_VALUES("db", db, eps, eps * 8, [&](const Index& at) {
                        return (affine ? db0.get(at) : 0) +
                               columns(at, [&](auto& i) { return dy.get(i); });
                    });
                }
}

void test_rms_norm() {
    for (DType dtype : floats)
        for (Lie lie : lies)
            for (const Index& sizes : {Index{5, 10}, Index{3, 2, 700}, Index{0, 4}, Index{7}}) {
                const int64_t d = sizes.back(), last = int64_t(sizes.size()) - 1;
                Index outer;
                for (int64_t i = 0; i < last; ++i) outer.push_back(i);
                const DType wide = dtype == DType::f64 ? dtype : DType::f32;
                Tensor x(dtype, sizes, lie), w(dtype, sizes, Lie::gapped, outer),
                    y(dtype, sizes, lie), rstd(wide, sizes, Lie::dense, {last}),
                    dy(dtype, sizes, lie), dx(dtype, sizes), dw(dtype, sizes, Lie::gapped, outer);
                x.random(1, 4), w.random(), dy.random(), dw.random();
                const Tensor before = dw;
                const double eps = tolerance(dtype) * 8;
                CHECK(run("rms_norm", sizes, {&x, &w, &y, &rstd}, {real(0.1)}) == 0);
                CHECK(run("rms_norm_backward_input", sizes, {&dy, &x, &rstd, &w, &dx}) == 0);
                CHECK(run("rms_norm_backward_affine", sizes, {&dy, &x, &rstd, &dw}, {integer(1)}) ==
                      0);
                auto r = per_row([&](const Index& at) {
                    const double squares =
                        row_sum(at, d, [&](auto& i) { return x.get(i) * x.get(i); });
                    return 1 / std::sqrt(squares / double(d) + 0.1);
                });
                auto weight = [&](const Index& at) {
                    return w.get(with_last(Index(at.size(), 0), at.back()));
                };
                auto b = per_row([&](const Index& at) {
                    const auto term = [&](auto& i) {
                        return dy.get(i) * weight(i) * x.get(i) * r(at);
                    };
                    return row_sum(at, d, term) / double(d);
                });
                CHECK_VALUES("rstd", rstd, 1e-6, 0, r);
                CHECK_VALUES("rms_norm", y, eps, eps,
                             [&](auto& at) { return x.get(at) * r(at) * weight(at); });
                CHECK_VALUES("rms_norm dx", dx, eps, eps, [&](const Index& at) {
                    return r(at) * (dy.get(at) * weight(at) - x.get(at) * r(at) * b(at));
                });
                CHECK_VALUES("rms_norm dw", dw, eps, eps * 8, [&](const Index& at) {
                    double sum = before.get(at);
                    dy.each([&](const Index& i) {
                        if (i.back() == at.back()) sum += dy.get(i) * x.get(i) * r(i);
                    });
                    return sum;
                });
            }
}

void test_nll() {
    for (DType dtype : floats)
        for (Lie lie : lies)
            for (int64_t reduction : {0, 1, 2})
                for (bool weighted : {false, true})
                    for (const Index& sizes : {Index{40, 10}, {3, 5, 7}, {0, 4}, {6}}) {
                        const int64_t last = int64_t(sizes.size()) - 1,
                                      ignore = reduction == 1 ? 2 : -100;
                        Index outer, all;
                        for (int64_t i = 0; i <= last; ++i) all.push_back(i);
                        for (int64_t i = 0; i < last; ++i) outer.push_back(i);
                        Tensor logp(dtype, sizes, lie), w(dtype, sizes, Lie::dense, outer),
                            total(dtype, sizes, Lie::dense, all);
                        Tensor target(DType::i64, sizes, lie, {last});
                        Tensor y(dtype, sizes, lie, reduction ? all : Index{last}),
                            dy = y, dx(dtype, sizes, lie);
                        logp.random(-3, 0), w.random(1, 2),
                            target.random(0, double(sizes.back() - 1)), dy.random(), y.random();
                        Tensor* pw = weighted ? &w : nullptr;
                        CHECK(run("nll_total_weight", sizes, {&target, pw, &total},
                                  {integer(ignore), integer(0)}) == 0);
                        auto weight = [&](const Index& at) {
                            const auto c = int64_t(target.get(with_last(at, 0)));
                            return c == ignore ? 0
                                   : weighted  ? w.get(with_last(Index(at.size(), 0), c))
                                               : 1.0;
                        };
                        double want_total = 0, want = 0;
                        target.each([&](const Index& at) {
                            want_total += weight(at);
                            want -= weight(at) * logp.get(with_last(at, int64_t(target.get(at))));
                        });
                        const double eps = tolerance(dtype) * 2;
                        CHECK_VALUES("total weight", total, eps, 0,
                                     [&](const Index&) { return want_total; });
                        const double divisor =
                            reduction == 1 ? total.get(Index(sizes.size(), 0)) : 1;
                        const bool accumulate = reduction == 2;
                        const Tensor y0 = y;
                        CHECK(run("nll_loss", sizes, {&logp, &target, pw, &total, &y},
                                  {integer(reduction), integer(ignore), integer(accumulate)}) == 0);
                        CHECK_VALUES("nll_loss", y, eps, eps, [&](const Index& at) {
                            if (reduction) return want / divisor + (accumulate ? y0.get(at) : 0);
                            return -weight(at) * logp.get(with_last(at, int64_t(target.get(at))));
                        });
                        CHECK(run("nll_loss_backward", sizes, {&dy, &target, pw, &total, &dx},
                                  {integer(reduction), integer(ignore)}) == 0);
                        CHECK_VALUES("nll_loss_backward", dx, eps, eps, [&](const Index& at) {
                            const Index row = with_last(at, 0);
                            if (int64_t(target.get(row)) != at.back() || weight(at) == 0)
                                return 0.0;
                            return -weight(at) * dy.get(reduction ? Index(at.size(), 0) : row) /
                                   divisor;
                        });
                    }
    Tensor logp(DType::f32, {3, 10}), target(DType::i64, {3, 10}, Lie::dense, {1}),
        y(DType::f32, {3, 10}, Lie::dense, {0, 1});
    logp.random(), target.random(0, 9).set({2, 0}, 12);
    std::string text;
    CHECK(run("nll_loss", {3, 10}, {&logp, &target, nullptr, nullptr, &y},
              {integer(2), integer(-100), integer(0)}, &text) == int(Status::index_error));
    CHECK(text == "target 12 is out of range [0, 10)");
}

void test_cross_entropy() {
    constexpr int64_t ignore = 1;
    for (DType dtype : floats)
        for (Lie lie : lies)
            for (const Index& sizes : {Index{5, 10}, Index{3, 2, 700}, Index{300, 70}, Index{4, 1},
                                       Index{0, 4}, Index{7}})
                for (bool weighted : {false, true})
                    for (double smoothing : {0.0, 0.3}) {
                        const int64_t last = int64_t(sizes.size()) - 1, d = sizes.back();
                        Index outer;
                        for (int64_t i = 0; i < last; ++i) outer.push_back(i);
                        Index all = outer;
                        all.push_back(last);
                        const DType wide = dtype == DType::f64 ? dtype : DType::f32;
                        Tensor x(dtype, sizes, lie), target(DType::i64, sizes, Lie::dense, {last}),
                            w(dtype, sizes, Lie::gapped, outer),
                            total(wide, sizes, Lie::dense, all),
                            loss(wide, sizes, Lie::dense, {last}),
                            logs(DType::f64, sizes, Lie::dense, {last}),
                            dy(dtype, sizes, Lie::dense, {last}), dx(dtype, sizes, lie);
                        x.random(-20, 20), target.random(0, double(d - 1)), w.random(0.5, 2),
                            dy.random();
                        total.fill([] { return 2.5; });
                        Tensor* pw = weighted ? &w : nullptr;
                        const std::vector<kernels::Param> params{integer(ignore), real(smoothing)};
                        CHECK(run("cross_entropy", sizes, {&x, &target, pw, &total, &loss, &logs},
                                  params) == 0);
                        CHECK(run("cross_entropy_backward", sizes,
                                  {&dy, &x, &target, pw, &logs, &total, &dx}, params) == 0);
                        auto log_sum = per_row([&](const Index& at) {
                            return 20 + std::log(row_sum(at, d, [&](auto& i) {
                                       return std::exp(x.get(i) - 20);
                                   }));
                        });
                        const double eps = tolerance(dtype) * 8;
                        CHECK_VALUES("logsumexp", logs, 2e-6, 2e-6, log_sum);
                        auto share = [&](const Index& at) {  // what is wanted of a class
                            const auto c = int64_t(target.get(with_last(at, 0)));
                            if (c == ignore) return 0.0;
                            const double weight =
                                weighted ? w.get(with_last(Index(at.size(), 0), at.back())) : 1;
                            return weight *
                                   ((c == at.back() ? 1 - smoothing : 0) + smoothing / double(d));
                        };
                        auto row_share =
                            per_row([&](const Index& at) { return row_sum(at, d, share); });
                        CHECK_VALUES("cross_entropy", loss, 1e-5, 1e-5, [&](const Index& at) {
                            return row_sum(at, d,
                                           [&](auto& i) {
                                               return share(i) * (log_sum(at) - x.get(i));
                                           }) /
                                   2.5;
                        });
                        CHECK_VALUES("cross_entropy_backward", dx, eps, eps, [&](const Index& at) {
                            return dy.get(with_last(at, 0)) / 2.5 *
                                   (std::exp(x.get(at) - log_sum(at)) * row_share(at) - share(at));
                        });
                    }
    Tensor x(DType::f32, {3, 10}), target(DType::i64, {3, 10}, Lie::dense, {1}),
        loss(DType::f32, {3, 10}, Lie::dense, {1}), logs(DType::f64, {3, 10}, Lie::dense, {1});
    x.random(), target.random(0, 9).set({2, 0}, 12);
    std::string text;
    CHECK(run("cross_entropy", {3, 10}, {&x, &target, nullptr, nullptr, &loss, &logs},
              {integer(ignore), real(0)}, &text) == int(Status::index_error));
    CHECK(text == "target 12 is out of range [0, 10)");
}

void test_embedding() {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::u8})
        for (Lie lie : lies)
            for (const Index& sizes : {Index{6, 5, 9}, {2, 3, 600, 7}, {0, 4, 5}, {3, 1, 2}}) {
                const int64_t e = int64_t(sizes.size()) - 2, v = e + 1;
                Index outer;
                for (int64_t i = 0; i < e; ++i) outer.push_back(i);
                Tensor w(dtype, sizes, lie, outer), idx(DType::i64, sizes, Lie::dense, {e, v}),
                    y(dtype, sizes, lie, {v});
                w.random(), idx.random(0, double(sizes[v] - 1));
                CHECK(run("embedding", sizes, {&w, &idx, &y}) == 0);
                auto row = [&](Index at) {
                    at[e] = at[v] = 0;
                    return int64_t(idx.get(at));
                };
                auto in_table = [&](const Index& at, int64_t r) {
                    Index i(at.size(), 0);
                    i[e] = at[e], i[v] = r;
                    return i;
                };
                CHECK_VALUES("embedding", y, 0, 0,
                             [&](const Index& at) { return w.get(in_table(at, row(at))); });
                for (bool accumulate : {false, true}) {
                    Tensor dw(dtype, sizes, lie, outer);
                    dw.random(0, 2);
                    const Tensor before = dw;
                    CHECK(run("embedding_backward", sizes, {&y, &idx, &dw},
                              {integer(1), integer(accumulate)}) == 0);
                    const double eps = epsilon(dtype) * 16;
                    CHECK_VALUES("embedding_backward", dw, eps, eps * 4, [&](const Index& at) {
                        double sum = accumulate ? before.get(at) : 0;
                        idx.each([&](Index i) {
                            i[e] = at[e];
                            if (row(i) == at[v] && at[v] != 1) sum += y.get(i);
                        });
                        return dtype == DType::u8 ? double(uint8_t(sum)) : sum;
                    });
                }
            }
    Tensor w(DType::f32, {2, 3, 9}, Lie::dense, {0}),
        idx(DType::i32, {2, 3, 9}, Lie::dense, {1, 2}), y(DType::f32, {2, 3, 9}, Lie::dense, {2});
    w.random(), idx.random(0, 8).set({1, 0, 0}, -1);
    std::string text;
    CHECK(run("embedding", {2, 3, 9}, {&w, &idx, &y}, {}, &text) == int(Status::index_error));
    CHECK(text == "index -1 is out of range [0, 9)");
}

}  // namespace

int main() {
    test_softmax();
    test_layer_norm();
    test_rms_norm();
    test_nll();
    test_cross_entropy();
    test_embedding();
    return result();
}
