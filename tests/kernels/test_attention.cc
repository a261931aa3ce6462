// SPDX-License-Identifier: BSD-3-Clause
// Kernels of attention against a plain loop, over any layout, cut between queries, and with masks.
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Case {
    Index sizes;  // heads, queries, keys, size, value size
    bool causal = false, masked = false, choice = false;
    int64_t first = 0;
};

struct Operands {
    DType dtype, logs_dtype;
    Tensor q, k, v, mask, y, logs, dy, dq, dk, dv;

    Operands(const Case& c, DType dtype, Lie lie)
        : dtype(dtype),
          logs_dtype(dtype == DType::f64 ? dtype : DType::f32),
          q(dtype, c.sizes, lie, {2, 4}),
          k(dtype, c.sizes, lie, {1, 4}),
          v(dtype, c.sizes, lie, {1, 3}),
          mask(c.choice ? DType::boolean : dtype, c.sizes, lie, {0, 3, 4}),
          y(dtype, c.sizes, lie, {2, 3}),
          logs(logs_dtype, c.sizes, lie, {2, 3, 4}),
          dy(y),
          dq(q),
          dk(k),
          dv(v) {
        q.random(), k.random(), v.random(), dy.random();
        if (c.choice) mask.random(0, 1);
        else mask.random();
    }
};

// Scores of a query, softmax applied; -inf where it sees no key. The logarithm of their sum.
double weigh(const Case& c, const Operands& o, int64_t head, int64_t query, double scale,
             std::vector<double>& weights) {
    const int64_t keys = c.sizes[2], size = c.sizes[3];
    weights.assign(static_cast<size_t>(keys), 0);
    double highest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
        double& score = weights[static_cast<size_t>(j)];
        for (int64_t e = 0; e < size; ++e)
            score += scale * o.q.get({head, query, 0, e, 0}) * o.k.get({head, 0, j, e, 0});
        if (c.masked) {
            const double m = o.mask.get({0, query, j, 0, 0});
            score += !c.choice ? m : m != 0 ? 0 : -INFINITY;
        }
        if (c.causal && j > c.first + query) score = -INFINITY;
        highest = std::max(highest, score);
    }
    if (highest == -INFINITY) {
        std::fill(weights.begin(), weights.end(), 0);
        return 0;
    }
    for (double& w : weights) sum += w = std::exp(w - highest);
    for (double& w : weights) w /= sum;
    return highest + std::log(sum);
}

void test_case(const Case& c, DType dtype, Lie lie) {
    Operands o(c, dtype, lie);
    const int64_t queries = c.sizes[1], keys = c.sizes[2], values = c.sizes[4];
    const double scale = 0.4, eps = 8 * epsilon(dtype) + (dtype == DType::f64 ? 1e-13 : 2e-6);
    Tensor* mask = c.masked ? &o.mask : nullptr;
    CHECK(run("attention", c.sizes, {&o.q, &o.k, &o.v, mask, &o.y, &o.logs},
              {integer(c.causal), real(scale)}, nullptr, nullptr, c.first) == 0);
    std::vector<double> weights;
    CHECK_VALUES("logsumexp", o.logs, eps, 4 * eps,
                 [&](const Index& at) { return weigh(c, o, at[0], at[1], scale, weights); });
    CHECK_VALUES("y", o.y, eps, eps, [&](const Index& at) {
        weigh(c, o, at[0], at[1], scale, weights);
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j)
            sum += weights[static_cast<size_t>(j)] * o.v.get({at[0], 0, j, 0, at[4]});
        return sum;
    });
    if (c.first != 0) return;  // gradients have all queries
    CHECK(run("attention_backward", c.sizes,
              {&o.dy, &o.q, &o.k, &o.v, mask, &o.y, &o.logs, &o.dq, &o.dk, &o.dv},
              {integer(c.causal), real(scale)}) == 0);
    // slope(i, j): the derivative by a score
    const size_t n = static_cast<size_t>(c.sizes[0] * queries * keys);
    std::vector<double> slope(n), weight(n);
    const auto place = [&](int64_t h, int64_t i, int64_t j) {
        return static_cast<size_t>((h * queries + i) * keys + j);
    };
    for (int64_t h = 0; h < c.sizes[0]; ++h)
        for (int64_t i = 0; i < queries; ++i) {
            weigh(c, o, h, i, scale, weights);
            double mean = 0;
            for (int64_t j = 0; j < keys; ++j) {
                double s = 0;
                for (int64_t e = 0; e < values; ++e)
                    s += o.dy.get({h, i, 0, 0, e}) * o.v.get({h, 0, j, 0, e});
                weight[place(h, i, j)] = weights[static_cast<size_t>(j)];
                slope[place(h, i, j)] = s;
                mean += weights[static_cast<size_t>(j)] * s;
            }
            for (int64_t j = 0; j < keys; ++j)
                slope[place(h, i, j)] = weight[place(h, i, j)] * (slope[place(h, i, j)] - mean);
        }
    const double sums = 8 * eps * std::sqrt(static_cast<double>(std::max(queries, keys)));
    CHECK_VALUES("dq", o.dq, eps, sums, [&](const Index& at) {
        double sum = 0;
        for (int64_t j = 0; j < keys; ++j)
            sum += scale * slope[place(at[0], at[1], j)] * o.k.get({at[0], 0, j, at[3], 0});
        return sum;
    });
    CHECK_VALUES("dk", o.dk, eps, sums, [&](const Index& at) {
        double sum = 0;
        for (int64_t i = 0; i < queries; ++i)
            sum += scale * slope[place(at[0], i, at[2])] * o.q.get({at[0], i, 0, at[3], 0});
        return sum;
    });
    CHECK_VALUES("dv", o.dv, eps, sums, [&](const Index& at) {
        double sum = 0;
        for (int64_t i = 0; i < queries; ++i)
            sum += weight[place(at[0], i, at[2])] * o.dy.get({at[0], i, 0, 0, at[4]});
        return sum;
    });
}

// nan stands for 1 / sqrt(size).
void test_default_scale() {
    const Case c{{1, 3, 4, 16, 2}};
    Operands o(c, DType::f32, Lie::dense);
    Tensor again = o.y;
    CHECK(run("attention", c.sizes, {&o.q, &o.k, &o.v, nullptr, &o.y, &o.logs},
              {integer(0), real(NAN)}) == 0);
    CHECK(run("attention", c.sizes, {&o.q, &o.k, &o.v, nullptr, &again, &o.logs},
              {integer(0), real(0.25)}) == 0);
    CHECK_VALUES("default scale", o.y, 0, 0, [&](const Index& at) { return again.get(at); });
}

}  // namespace

int main() {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
        for (Lie lie : {Lie::dense, Lie::reversed, Lie::gapped})
            for (const Case& c : {Case{{2, 5, 7, 4, 3}},
                                  {{2, 5, 7, 4, 3}, true},
                                  {{3, 4, 6, 2, 5}, false, true},
                                  {{2, 6, 5, 4, 4}, false, true, true},
                                  {{1, 6, 9, 3, 2}, true, true, true},
                                  {{1, 4, 9, 3, 2}, true, false, false, 3},
                                  {{2, 1, 1, 1, 1}},
                                  {{1, 3, 0, 4, 2}},
                                  {{2, 0, 3, 4, 2}},
                                  {{1, 3, 2, 4, 0}},
                                  {{0, 2, 2, 2, 2}},
                                  {{1, 130, 300, 3, 4}, true}})
                test_case(c, dtype, lie);
    test_case(Case{{1, 300, 270, 8, 12}, false, true, true}, DType::f32, Lie::dense);
    test_default_scale();
    return nntile::test::result();
}
