// SPDX-License-Identifier: BSD-3-Clause
// Kernels of images against plain loops: pools, resampling, blends of channels, places of a grid.
// Images lie in any way, of which channels that are the last dim have loops of their own.
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

const DType floats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

double tolerance(DType dtype) { return 4 * epsilon(dtype) + (dtype == DType::f64 ? 1e-14 : 1e-6); }

// An operand of the dims `own` of `sizes`; `last`: that dim is the innermost one in memory.
Tensor laid(DType dtype, const Index& sizes, const Index& own, int64_t last, Lie lie) {
    Index absent;
    for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d)
        if (std::find(own.begin(), own.end(), d) == own.end()) absent.push_back(d);
    Tensor t(dtype, sizes, lie, absent);
    if (last < 0) return t;
    Index strides(sizes.size(), 0);
    int64_t step = lie == Lie::gapped ? 2 : 1;
    const auto place = [&](int64_t d) {
        strides[d] = step;
        step *= std::max<int64_t>(sizes[d], 1);
        if (lie == Lie::apart) step += 3;
    };
    place(last);
    for (size_t k = own.size(); k-- > 0;)
        if (own[k] != last) place(own[k]);
    return t.lay(strides, step);
}

struct Pool {
    Index sizes;  // n, c, y's, x's
    int64_t size, stride, padding, dilation;
    bool adaptive = false;
};
const Pool pools[] = {
    {{2, 19, 3, 4, 6, 8}, 2, 2, 0, 1},       {{1, 37, 4, 4, 7, 7}, 3, 2, 1, 1},
    {{2, 3, 5, 5, 5, 5}, 3, 1, 1, 1},        {{1, 70, 3, 3, 7, 7}, 3, 2, 1, 2},
    {{2, 1, 2, 2, 5, 5}, 2, 2, 0, 1},        {{0, 5, 2, 2, 4, 4}, 2, 2, 0, 1},
    {{2, 17, 1, 1, 5, 7}, 0, 0, 0, 0, true}, {{1, 33, 3, 2, 7, 5}, 0, 0, 0, 0, true},
};

void each_of_window(const Pool& p, const Index& at,
                    const std::function<void(int64_t, int64_t)>& use) {
    const auto range = [&](int d) {
        const int64_t n = p.sizes[4 + d], m = p.sizes[2 + d], o = at[2 + d];
        Index found;
        if (p.adaptive)
            for (int64_t i = o * n / m; i < ((o + 1) * n + m - 1) / m; ++i) found.push_back(i);
        else
            for (int64_t k = 0; k < p.size; ++k) {
                const int64_t i = o * p.stride + k * p.dilation - p.padding;
                if (i >= 0 && i < n) found.push_back(i);
            }
        return found;
    };
    for (int64_t i : range(0))
        for (int64_t j : range(1)) use(i, j);
}

void test_pools() {
    for (const Pool& p : pools)
        for (DType dtype : floats)
            for (Lie lie : {Lie::dense, Lie::apart, Lie::gapped})
                for (int64_t last_x : {-1, 1})
                    for (int64_t last_y : {-1, 1}) {
                        const Index& s = p.sizes;
                        Tensor x = laid(dtype, s, {0, 1, 4, 5}, last_x, lie);
                        Tensor y = laid(dtype, s, {0, 1, 2, 3}, last_y, lie);
                        Tensor places = laid(DType::i64, s, {0, 1, 2, 3}, last_y, lie);
                        Tensor dx = laid(dtype, s, {0, 1, 4, 5}, last_x, lie);
                        x.random();
                        if (s[0] > 0 && s[2] > 1) x.set({0, 0, 0, 0, 1, 1}, NAN);
                        std::vector<kernels::Param> window, mean{integer(0), integer(1)};
                        if (!p.adaptive)
                            for (int64_t v : {p.size, p.stride, p.padding, p.dilation})
                                window.insert(window.end(), 2, integer(v));
                        mean.insert(mean.end(), window.begin(), window.end());
                        CHECK(run("max_pool", s, {&x, &y, &places}, window) == 0);
                        const auto best = [&](const Index& at, bool place) {
                            double largest = -INFINITY, where = -1;
                            each_of_window(p, at, [&](int64_t i, int64_t j) {
                                const double value = x.get({at[0], at[1], 0, 0, i, j});
                                if (value > largest || std::isnan(value)) {
                                    largest = value;
                                    where = static_cast<double>(i * s[5] + j);
                                }
                            });
                            return place ? where : largest;
                        };
                        CHECK_VALUES("max_pool", y, 0, 0,
                                     [&](const Index& at) { return best(at, false); });
                        CHECK_VALUES("max_pool places", places, 0, 0,
                                     [&](const Index& at) { return best(at, true); });

                        y.random(0.5, 2);
                        CHECK(run("max_pool_backward", s, {&y, &places, &dx}, {}) == 0);
                        Tensor sums(DType::f64, s, Lie::dense, {2, 3});
                        sums.fill([] { return 0; });
                        y.each([&](const Index& at) {
                            const auto k = static_cast<int64_t>(places.get(at));
                            const Index to{at[0], at[1], 0, 0, k / s[5], k % s[5]};
                            sums.set(to, sums.get(to) + y.get(at));
                        });
                        const double eps = tolerance(dtype);
                        CHECK_VALUES("max_pool_backward", dx, eps, eps,
                                     [&](const Index& at) { return sums.get(at); });

                        x.random();
                        CHECK(run("avg_pool", s, {&x, &y}, mean) == 0);
                        const auto divisor = [&](const Index& at) {
                            if (!p.adaptive) {  // as far as the padding goes
                                double n = 1;
                                for (int d : {0, 1}) {
                                    const int64_t begin = at[2 + d] * p.stride - p.padding;
                                    const int64_t end = begin + (p.size - 1) * p.dilation + 1;
                                    n *= static_cast<double>(std::min(end, s[4 + d] + p.padding) -
                                                             begin);
                                }
                                return n;
                            }
                            double n = 0;
                            each_of_window(p, at, [&](int64_t, int64_t) { n += 1; });
                            return n;
                        };
                        CHECK_VALUES("avg_pool", y, eps, eps, [&](const Index& at) {
                            double sum = 0;
                            each_of_window(p, at, [&](int64_t i, int64_t j) {
                                sum += x.get({at[0], at[1], 0, 0, i, j});
                            });
                            return sum / divisor(at);
                        });
                        CHECK(run("avg_pool_backward", s, {&y, &dx}, mean) == 0);
                        sums.fill([] { return 0; });
                        y.each([&](const Index& at) {
                            each_of_window(p, at, [&](int64_t i, int64_t j) {
                                const Index to{at[0], at[1], 0, 0, i, j};
                                sums.set(to, sums.get(to) + y.get(at) / divisor(at));
                            });
                        });
                        CHECK_VALUES("avg_pool_backward", dx, eps, eps,
                                     [&](const Index& at) { return sums.get(at); });
                    }
    const Index s{1, 4, 1, 1, 2, 2};
    Tensor dy(DType::f32, s, Lie::dense, {4, 5}), places(DType::i64, s, Lie::dense, {4, 5});
    for (int64_t last : {-1, 1}) {
        Tensor dx = laid(DType::f32, s, {0, 1, 4, 5}, last, Lie::dense);
        dy.random(), places.fill([] { return 1; }).set({0, 3, 0, 0, 0, 0}, -1);
        std::string text;
        CHECK(run("max_pool_backward", s, {&dy, &places, &dx}, {}, &text) ==
              static_cast<int>(Status::index_error));
        CHECK(text == "max_pool_backward: index -1 is out of range [0, 4)");
    }
}

enum Mode : int64_t { nearest, nearest_exact, linear, cubic, reflect, replicate };

// The matrix of one dim, by its definition.
std::vector<std::vector<double>> matrix(Mode mode, int64_t n, int64_t m, int64_t left) {
    std::vector<std::vector<double>> a(m, std::vector<double>(n));
    const double step = static_cast<double>(n) / static_cast<double>(m);
    const auto keys = [](double x) {
        x = std::fabs(x);
        if (x <= 1) return (1.25 * x - 2.25) * x * x + 1;
        return x < 2 ? ((-0.75 * x + 3.75) * x - 6) * x + 3 : 0.0;
    };
    for (int64_t o = 0; o < m; ++o) {
        const auto add = [&](int64_t i, double w) { a[o][std::clamp<int64_t>(i, 0, n - 1)] += w; };
        const double middle = (static_cast<double>(o) + 0.5) * step - 0.5;
        if (mode == nearest) add(static_cast<int64_t>(static_cast<double>(o) * step), 1);
        if (mode == nearest_exact)
            add(static_cast<int64_t>((static_cast<double>(o) + 0.5) * step), 1);
        if (mode == replicate) add(o - left, 1);
        if (mode == reflect) {
            const int64_t i = std::abs(o - left);
            add(n - 1 - std::abs(n - 1 - i), 1);
        }
        if (mode == linear) {
            if (n == m) {
                add(o, 1);
                continue;
            }
            const double place = std::max(middle, 0.0), t = place - std::floor(place);
            add(static_cast<int64_t>(place), 1 - t), add(static_cast<int64_t>(place) + 1, t);
        }
        const double below = std::floor(middle);
        if (mode == cubic)
            for (int64_t k = -1; k < 3; ++k)
                add(static_cast<int64_t>(below) + k, keys(middle - below - static_cast<double>(k)));
    }
    return a;
}

void test_resample() {
    struct Case {
        Index sizes;  // n, c, then m and n of each dim
        bool pads = false;
    };
    const Case cases[] = {{{2, 19, 14, 7, 10, 5}},    {{1, 5, 3, 7, 31, 11}},
                          {{2, 3, 64, 32, 40, 37}},   {{3, 2, 5, 5, 4, 4}},
                          {{2, 2, 1, 3, 1, 1}},       {{0, 3, 4, 2, 4, 2}},
                          {{2, 5, 33, 17}},           {{2, 17, 9, 7, 35, 31}, true},
                          {{2, 3, 4, 2, 6, 3, 5, 7}}, {{1, 1, 19, 17, 36, 34}, true},
                          {{1, 66, 6, 5, 4, 2}}};
    for (const Case& c : cases)
        for (DType dtype : floats)
            for (int64_t last : {-1, 1})
                for (Lie lie : {Lie::dense, Lie::apart, Lie::gapped, Lie::reversed})
                    for (Mode mode : {nearest, nearest_exact, linear, cubic, reflect, replicate})
                        for (bool transposed : {false, true}) {
                            if ((mode == reflect || mode == replicate) != c.pads) continue;
                            const auto count = (c.sizes.size() - 2) / 2;
                            Index sizes = c.sizes, of_x{0, 1}, of_y{0, 1};
                            std::vector<kernels::Param> params{
                                integer(mode), integer(0), integer(0), integer(transposed),
                                integer(static_cast<int64_t>(count))};
                            for (size_t d = 0; d < count; ++d) {
                                if (transposed) std::swap(sizes[2 + 2 * d], sizes[3 + 2 * d]);
                                of_y.push_back(static_cast<int64_t>(2 + 2 * d));
                                of_x.push_back(static_cast<int64_t>(3 + 2 * d));
                                params.push_back(integer(c.pads ? 1 : 0));
                            }
                            for (size_t d = 0; d < count; ++d) params.push_back(real(0));
                            Tensor x = laid(dtype, sizes, of_x, last, lie),
                                   y = laid(dtype, sizes, of_y, last, lie);
                            x.random();
                            CHECK(run("resample", sizes, {&x, &y}, params) == 0);
                            std::vector<std::vector<std::vector<double>>> a;
                            for (size_t d = 0; d < count; ++d)
                                a.push_back(
                                    matrix(mode, c.sizes[3 + 2 * d], c.sizes[2 + 2 * d], 1));
                            const double eps = tolerance(dtype) * (mode == cubic ? 8 : 4);
                            CHECK_VALUES("resample", y, eps, eps * 4, [&](const Index& at) {
                                std::function<double(size_t, Index, double)> sum = [&](size_t d,
                                                                                       Index from,
                                                                                       double w) {
                                    if (w == 0) return 0.0;
                                    if (d == count) return w * x.get(from);
                                    double total = 0;
                                    const int64_t o = at[2 + 2 * d];
                                    from[2 + 2 * d] = 0;
                                    for (int64_t i = 0; i < sizes[3 + 2 * d]; ++i) {
                                        from[3 + 2 * d] = i;
                                        total += sum(d + 1, from,
                                                     w * (transposed ? a[d][i][o] : a[d][o][i]));
                                    }
                                    return total;
                                };
                                return sum(0, at, 1);
                            });
                        }
}

void test_blend() {
    for (DType dtype : floats)
        for (const Index& sizes :
             {Index{2, 5, 37}, Index{3, 19, 4}, Index{2, 600, 3}, Index{1, 1, 7}, Index{2, 0, 4},
              Index{4, 3, 1}, Index{1, 66, 70}, Index{2, 2, 530}})
            for (Lie lie : lies)
                for (int64_t last : {-1, 1})
                    for (bool of_images : {false, true})
                        for (bool two : {false, true}) {
                            const Index all{0, 1, 2}, absent = of_images ? Index{2} : Index{0, 2};
                            Tensor a = laid(dtype, sizes, all, last, lie),
                                   b = laid(dtype, sizes, all, -1, lie),
                                   y = laid(dtype, sizes, all, last, Lie::dense);
                            Tensor p(DType::f64, sizes, Lie::dense, absent),
                                q(DType::f64, sizes, Lie::gapped, absent),
                                s(DType::f32, sizes, Lie::dense, absent),
                                r(DType::f32, sizes, Lie::dense, absent);
                            for (Tensor* t : {&a, &b, &p, &q, &s, &r}) t->random();
                            const auto given = [&](Tensor& t) { return two ? &t : nullptr; };
                            CHECK(run("channel_blend", sizes,
                                      {&a, given(b), &p, given(q), given(s), &r, &y}, {}) == 0);
                            const double eps = tolerance(dtype);
                            CHECK_VALUES("channel_blend", y, eps, eps * 4, [&](const Index& at) {
                                const double more = two ? q.get(at) * (b.get(at) - s.get(at)) : 0;
                                return p.get(at) * a.get(at) + r.get(at) + more;
                            });
                        }
}

void test_sums() {
    for (DType dtype : floats)
        for (const Index& sizes : {Index{2, 5, 37}, Index{3, 19, 4}, Index{1, 66, 70},
                                   Index{17, 2, 5}, Index{2, 1, 530}, Index{2, 0, 4}})
            for (Lie lie : {Lie::dense, Lie::apart})
                for (int64_t last_x : {-1, 0, 1})
                    for (int64_t last_y : {-1, 1})
                        for (bool of_images : {false, true})
                            for (bool shifted : {false, true})
                                for (bool more : {false, true}) {
                                    const Index all{0, 1, 2},
                                        absent = of_images ? Index{2} : Index{0, 2};
                                    Tensor x = laid(dtype, sizes, all, last_x, lie),
                                           y = laid(dtype, sizes, all, last_y, Lie::dense);
                                    Tensor shift(DType::f64, sizes, Lie::dense, absent);
                                    Tensor first(DType::f64, sizes, Lie::dense, absent),
                                        second(DType::f64, sizes, Lie::gapped, absent);
                                    for (Tensor* t : {&x, &y, &shift, &first, &second}) t->random();
                                    const Tensor before = first, before_it = second;
                                    Tensor* const by = shifted ? &shift : nullptr;
                                    CHECK(run("channel_sums", sizes, {&x, &y, by, &first, &second},
                                              {integer(more)}) == 0);
                                    const auto sum = [&](Index at, const Tensor& old, auto&& term) {
                                        double total = more ? old.get(at) : 0;
                                        for (at[0] = of_images ? at[0] : 0; at[0] < sizes[0];
                                             ++at[0]) {
                                            for (at[2] = 0; at[2] < sizes[2]; ++at[2])
                                                total += term(at);
                                            if (of_images) break;
                                        }
                                        return total;
                                    };
                                    CHECK_VALUES(
                                        "channel_sums", first, 1e-12, 1e-9, [&](const Index& at) {
                                            return sum(at, before,
                                                       [&](const Index& i) { return x.get(i); });
                                        });
                                    CHECK_VALUES(
                                        "channel_sums", second, 1e-12, 1e-9, [&](const Index& at) {
                                            const double less = shifted ? shift.get(at) : 0;
                                            return sum(at, before_it, [&](const Index& i) {
                                                return x.get(i) * (y.get(i) - less);
                                            });
                                        });
                                }
}

struct Tap {
    int64_t row, column;
    double weight, along, down;  // and slopes
};

void test_grid_sample() {  // bilinear, zeros, corners apart: other modes are compared with the CPU
    const Index shapes[] = {{2, 3, 11, 5, 7, 2},
                            {1, 5, 300, 1, 4, 2},
                            {0, 2, 3, 4, 4, 2},
                            {2, 2, 0, 3, 3, 2},
                            {1, 69, 131, 4, 5, 2}};
    for (DType dtype : floats)
        for (const Index& sizes : shapes)
            for (Lie lie : lies)
                for (int64_t last : {-1, 1}) {
                    Tensor x = laid(dtype, sizes, {0, 1, 3, 4}, last, lie), dx = x;
                    Tensor grid = laid(dtype, sizes, {0, 2, 5}, -1, lie), dgrid = grid;
                    Tensor y = laid(dtype, sizes, {0, 1, 2}, -1, lie),
                           dy = laid(dtype, sizes, {0, 1, 2}, last, lie);
                    x.random(), grid.random(-1.3, 1.3), dy.random();
                    const std::vector<kernels::Param> params{integer(0), integer(0), integer(0)};
                    CHECK(run("grid_sample", sizes, {&x, &grid, &y}, params) == 0);
                    CHECK(run("grid_sample_backward", sizes, {&dy, &x, &grid, &dx, &dgrid},
                              params) == 0);
                    const double width = static_cast<double>(sizes[4]),
                                 height = static_cast<double>(sizes[3]);
                    const auto taps = [&](const Index& at) {
                        std::vector<Tap> found;
                        const auto place = [&](int64_t which, double size) {
                            return ((grid.get({at[0], 0, at[2], 0, 0, which}) + 1) * size - 1) / 2;
                        };
                        const double u = place(0, width), v = place(1, height);
                        for (double row : {std::floor(v), std::floor(v) + 1})
                            for (double column : {std::floor(u), std::floor(u) + 1}) {
                                if (column < 0 || row < 0 || column >= width || row >= height)
                                    continue;
                                const double w = 1 - std::fabs(u - column),
                                             h = 1 - std::fabs(v - row);
                                found.push_back({static_cast<int64_t>(row),
                                                 static_cast<int64_t>(column), w * h,
                                                 (column > u ? h : -h) * width / 2,
                                                 (row > v ? w : -w) * height / 2});
                            }
                        return found;
                    };
                    const double eps = tolerance(dtype) * 16;
                    CHECK_VALUES("grid_sample", y, eps, eps, [&](const Index& at) {
                        double sum = 0;
                        for (const Tap& t : taps(at))
                            sum += t.weight * x.get({at[0], at[1], 0, t.row, t.column, 0});
                        return sum;
                    });
                    Tensor sums(DType::f64, sizes, Lie::dense, {2, 5});
                    Tensor slopes(DType::f64, sizes, Lie::dense, {1, 3, 4});
                    sums.fill([] { return 0; }), slopes.fill([] { return 0; });
                    dy.each([&](const Index& at) {
                        for (const Tap& t : taps(at)) {
                            const Index to{at[0], at[1], 0, t.row, t.column, 0};
                            sums.set(to, sums.get(to) + t.weight * dy.get(at));
                            for (int64_t k : {0, 1}) {
                                const Index of{at[0], 0, at[2], 0, 0, k};
                                const double slope = k ? t.down : t.along;
                                slopes.set(of, slopes.get(of) + slope * x.get(to) * dy.get(at));
                            }
                        }
                    });
                    CHECK_VALUES("grid_sample dx", dx, eps * 8, eps * 8,
                                 [&](const Index& at) { return sums.get(at); });
                    CHECK_VALUES("grid_sample dgrid", dgrid, eps * 8, eps * 32,
                                 [&](const Index& at) { return slopes.get(at); });
                }
}

}  // namespace

int main() {
    test_pools();
    test_resample();
    test_blend();
    test_sums();
    test_grid_sample();
    return result();
}
