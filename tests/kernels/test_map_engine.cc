// SPDX-License-Identifier: BSD-3-Clause
// Programs of several instructions, in-place use, random numbers and optimizers.
#include "programs.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Instruction;
using kernels::Program;

namespace {

void test_chains() {
    // y = gelu(x * w + bias) with w and bias per column: what an epilogue looks like.
    const Program p =
        program({make("mul", DType::f32, {0, 1}, {3}), make("add", DType::f32, {3, 2}, {4}, 0),
                 make("gelu", DType::f32, {4}, {5}, 1)},
                3, 1, 6);
    for (DType dtype : {DType::f32, DType::bf16})
        for (const auto& [sizes, lie] :
             std::vector<std::pair<Index, Lie>>{{{300, 37}, Lie::dense},
                                                {{3, 5000}, Lie::dense},
                                                {{3, 5000}, Lie::apart},
                                                {{9, 200}, Lie::apart},
                                                {{7, 3, 5, 11}, Lie::dense},
                                                {{1, 1}, Lie::dense}}) {
            Index absent;
            for (size_t d = 0; d + 1 < sizes.size(); ++d) absent.push_back(int64_t(d));
            Tensor x(dtype, sizes, lie), w(dtype, sizes, Lie::dense, absent),
                b(DType::f64, sizes, Lie::gapped, absent);
            Tensor y(dtype, sizes, lie);
            x.random(), w.random(), b.random();
            CHECK(run("map", sizes, {&x, &w, &b, &y}, {real(1), integer(0)}, nullptr, &p) == 0);
            CHECK_VALUES("chain", y, epsilon(dtype) + 1e-5, 1e-5, [&](const Index& at) {
                const double v = x.get(at) * w.get(at) + b.get(at);
                return v * 0.5 * std::erfc(-v / std::sqrt(2.0));
            });
        }
    // A long chain reuses buffers: y = x + 1, 30 times, with the invariant 1 first read in the
    // middle.
    std::vector<Instruction> code{make("neg", DType::f32, {0}, {2}),
                                  make("neg", DType::f32, {2}, {3})};
    for (uint8_t i = 0; i < 30; ++i)
        code.push_back(make("add", DType::f32, {uint8_t(i + 3), 1}, {uint8_t(i + 4)}));
    const Program chain = program(code, 2, 1, 34);
    Tensor x(DType::bf16, {5000}), one(DType::i32, {5000}, Lie::dense, {0}), y(DType::f32, {5000});
    x.random(), one.set({0}, 1);
    CHECK(run("map", {5000}, {&x, &one, &y}, {real(1)}, nullptr, &chain) == 0);
    CHECK_VALUES("long chain", y, 1e-6, 1e-6, [&](const Index& at) { return x.get(at) + 30; });

    std::vector<Instruction> all_live;
    for (uint8_t i = 0; i < 31; ++i)
        all_live.push_back(make("neg", DType::f64, {0}, {uint8_t(i + 1)}));
    Program too_long = program(all_live, 1, 1, 65);
    std::string text;
    CHECK(run("map", {5000}, {&x, &y}, {}, &text, &too_long) == int(Status::unsupported) &&
          !text.empty());
}

// Operands and results that lie along different dims are read and written in blocks of rows and
// columns.
void test_planes() {
    const Program p =
        program({make("mul", DType::f32, {0, 1}, {3}), make("add", DType::f32, {3, 2}, {4}, 0),
                 make("neg", DType::f32, {4}, {5})},
                3, 2, 6);
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::i32})
        for (Lie from : lies)
            for (Lie to : lies)
                for (const Index& sizes : {Index{67, 131},
                                           {32, 64},
                                           {600, 2},
                                           {2, 600},
                                           {5, 40, 3},
                                           {3, 17, 65},
                                           {1, 1500},
                                           {33, 1},
                                           {0, 40}}) {
                    Program own = p;
                    for (Instruction& i : own.code) i.compute = compute_of(dtype);
                    Index outer;
                    for (size_t d = 0; d + 1 < sizes.size(); ++d) outer.push_back(int64_t(d));
                    Tensor x(dtype, sizes, from), w(dtype, sizes, Lie::reversed),
                        b(DType::f32, sizes, to, outer);
                    Tensor y(dtype, sizes, to), z(DType::f64, sizes, from);
                    x.random(0, 4), w.random(0, 4), b.random(0, 4);
                    if (!is_floating(dtype))
                        b.each([&](const Index& at) { b.set(at, std::floor(b.get(at))); });
                    CHECK(run("map", sizes, {&x, &w, &b, &y, &z}, {real(1)}, nullptr, &own) == 0);
                    const double eps = 2 * epsilon(dtype) + epsilon(DType::f32);
                    const auto want = [&](const Index& at) {
                        return x.get(at) * w.get(at) + b.get(at);
                    };
                    CHECK_VALUES("plane", y, eps, eps, want);
                    CHECK_VALUES("second result", z, eps, eps,
                                 [&](const Index& at) { return -want(at); });
                    Tensor before = x;  // in place
                    CHECK(run("map", sizes, {&x, &w, &b, &x, &z}, {real(1)}, nullptr, &own) == 0);
                    CHECK_VALUES("in place", x, eps, eps, [&](const Index& at) {
                        return before.get(at) * w.get(at) + b.get(at);
                    });
                }
    const Index sizes{70, 90};  // what needs the index gets it in any order
    const Program counts =
        program({make("arange", DType::i64, {0, 1}, {3}), make("add", DType::i64, {3, 2}, {4}, 0)},
                3, 1, 5);
    Tensor start(DType::i64, sizes, Lie::dense, {0, 1}),
        step(DType::i64, sizes, Lie::dense, {0, 1});
    Tensor x(DType::i64, sizes, Lie::reversed), y(DType::i64, sizes);
    start.set({0, 0}, 5), step.set({0, 0}, 3), x.random(0, 9);
    CHECK(run("map", sizes, {&start, &step, &x, &y}, {real(1)}, nullptr, &counts, 7, {100, 1}) ==
          0);
    CHECK_VALUES("counted plane", y, 0, 0, [&](const Index& at) {
        return double(5 + 3 * (7 + 100 * at[0] + at[1])) + x.get(at);
    });
    const Program drop = program({make("dropout", DType::f32, {0}, {1, 2})}, 1, 2, 3);
    const Index large{130, 300};
    Tensor kept(DType::f32, large, Lie::reversed), scaled(DType::f32, large),
        mask(DType::boolean, large);
    kept.random(1, 2);
    CHECK(run("map", large, {&kept, &scaled, &mask}, {real(0.5), integer(3), integer(0)}, nullptr,
              &drop, 0, {300, 1}) == 0);
    CHECK_VALUES("dropped plane", scaled, 1e-6, 0,
                 [&](const Index& at) { return 2 * kept.get(at) * mask.get(at); });
}

// Rows of whole blocks are read and written where they are, as is what lies in equal steps: a
// single primitive, a chain that converts between its instructions, and a cast.
void test_rows() {
    const Program single = program({make("addcmul", DType::f32, {0, 1, 2}, {3}, 0)}, 3, 1, 4);
    const Program mixed =
        program({make("mul", DType::f32, {0, 1}, {3}), make("add", DType::f32, {3, 2}, {4}, 0),
                 make("exp", DType::f64, {4}, {5})},
                3, 2, 6);
    const Program cast = program({make("cast", DType::f32, {0}, {1})}, 1, 1, 2);
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i32})
        for (Lie from : lies)
            for (Lie to : lies)
                for (const Index& sizes : {Index{5, 256},
                                           {3, 6, 128},
                                           {2, 3, 384},
                                           {3, 2048},
                                           {300, 1024},
                                           {2, 3, 200},
                                           {4, 300},
                                           {1000}}) {
                    Index outer, inner{int64_t(sizes.size()) - 1};
                    for (size_t d = 0; d + 1 < sizes.size(); ++d) outer.push_back(int64_t(d));
                    Program own = single;
                    own.code[0].compute = compute_of(dtype);
                    Tensor x(dtype, sizes, from), w(dtype, sizes, to), y(dtype, sizes, to),
                        b(dtype, sizes, from, outer), c(dtype, sizes, Lie::dense, inner);
                    x.random(0, 4), w.random(0, 4), b.random(0, 4), c.random(0, 4);
                    const double eps = 2 * epsilon(dtype) + 1e-6;
                    for (Tensor* last : {&b, &c, &w}) {
                        CHECK(run("map", sizes, {&x, &w, last, &y}, {real(1)}, nullptr, &own) == 0);
                        CHECK_VALUES("rows", y, eps, eps, [&](const Index& at) {
                            return x.get(at) + w.get(at) * last->get(at);
                        });
                    }
                    Tensor d(dtype, sizes, from, outer);
                    d.random(0, 4);
                    CHECK(run("map", sizes, {&x, &b, &d, &y}, {real(1)}, nullptr, &own) == 0);
                    CHECK_VALUES("rows of two", y, eps, eps, [&](const Index& at) {
                        return x.get(at) + b.get(at) * d.get(at);
                    });
                    Tensor into(DType::f64, sizes, to);
                    CHECK(run("map", sizes, {&x, &into}, {}, nullptr, &cast) == 0);
                    CHECK_VALUES("cast rows", into, 1e-7, 0,
                                 [&](const Index& at) { return x.get(at); });
                    if (!is_floating(dtype)) continue;
                    Tensor u(DType::f32, sizes, to), v(DType::f64, sizes, from);
                    CHECK(run("map", sizes, {&x, &w, &b, &u, &v}, {real(1)}, nullptr, &mixed) == 0);
                    const auto sum = [&](const Index& at) {
                        return x.get(at) * w.get(at) + b.get(at);
                    };
                    CHECK_VALUES("sum in rows", u, 1e-6, 1e-6, sum);
                    CHECK_VALUES("converted in rows", v, 1e-4, 0,
                                 [&](const Index& at) { return std::exp(sum(at)); });
                }
}

// Along dims that no input has, results are computed once and copied.
void test_repeats() {
    const Program p =
        program({make("mul", DType::f32, {0, 1}, {2}), make("neg", DType::f32, {2}, {3})}, 2, 2, 4);
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
        for (Lie from : lies)
            for (Lie to : lies)
                for (const Index& absent : {Index{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1}}) {
                    const Index sizes{17, 20, 33};
                    Program own = p;
                    for (Instruction& i : own.code) i.compute = compute_of(dtype);
                    Tensor x(dtype, sizes, from, absent), w(dtype, sizes, to, absent);
                    Tensor y(dtype, sizes, to), z(DType::f64, sizes, from);
                    x.random(), w.random();
                    CHECK(run("map", sizes, {&x, &w, &y, &z}, {}, nullptr, &own) == 0);
                    const auto want = [&](const Index& at) { return x.get(at) * w.get(at); };
                    CHECK_VALUES("repeated", y, epsilon(dtype), 1e-7, want);
                    CHECK_VALUES("second result", z, epsilon(DType::f32), 1e-7,
                                 [&](const Index& at) { return -want(at); });
                }
}

// A function in vectors may take one way for all its lanes: neither what stands beside an element
// nor how far off may change its bits, or a cut run has not those of a whole one.
void test_neighbours() {
    const double extremes[] = {INFINITY, -INFINITY, NAN, 0, 1e-300, 1e5, -1e15, 3e38};
    const int64_t length = 1501;
    for (const kernels::MapRow& row : kernels::map_rows()) {
        if (row.types != kernels::Types::floating || row.check != kernels::MapCheck::none) continue;
        std::vector<kernels::Param> params;
        for (const kernels::MapParam& p : row.params)
            params.push_back(p.kind == 'f' ? real(p.initial)
                                           : integer(static_cast<int64_t>(p.initial)));
        for (DType dtype : {DType::f32, DType::f64})
            for (double low : {-0.9, 1.1}) {
                const auto n_in = static_cast<uint8_t>(row.inputs.size());
                const auto n_out = static_cast<uint8_t>(row.outputs.size());
                Instruction i = make(std::string(row.name).c_str(), dtype, {}, {});
                std::vector<Tensor> plain, beside, apart;
                for (uint8_t r = 0; r < n_in + n_out; ++r) {
                    (r < n_in ? i.in : i.out).push_back(r);
                    const bool mask = r < n_in && *row.inputs[r] == '*';
                    plain.push_back(
                        Tensor(mask ? DType::boolean : dtype, {length}).random(low, low + 1.8));
                    beside.push_back(plain.back());
                    apart.push_back(Tensor(plain.back().dtype, {length}, Lie::gapped));
                    apart.back().each([&](const Index& at) { apart[r].set(at, plain[r].get(at)); });
                    for (int64_t at = 0; at < length && r < n_in; at += 3)
                        beside[r].set({at}, extremes[at % 8]);
                }
                const Program p = program({i}, n_in, n_out, n_in + n_out);
                std::vector<Tensor*> first, second, third;
                for (Tensor& t : plain) first.push_back(&t);
                for (Tensor& t : beside) second.push_back(&t);
                for (Tensor& t : apart) third.push_back(&t);
                CHECK(run("map", {length}, first, params, nullptr, &p) == 0);
                CHECK(run("map", {length}, second, params, nullptr, &p) == 0);
                CHECK(run("map", {length}, third, params, nullptr, &p) == 0);
                CHECK_VALUES(std::string(row.name), apart.back(), 0, 0,
                             [&](const Index& at) { return plain.back().get(at); });
                CHECK_VALUES(std::string(row.name), beside.back(), 0, 0, [&](const Index& at) {
                    return (at[0] % 3 ? plain : beside).back().get(at);
                });
            }
    }
}

void test_mixed_types() {
    // where(i64 labels == other, bf16, f32) in one program, and a wrapped u8 sum that a comparison
    // reads.
    const Program p = program(
        {make("eq", DType::i64, {0, 1}, {4}), make("where", DType::f32, {4, 2, 3}, {5})}, 4, 1, 6);
    const Index sizes{20, 70};
    Tensor a(DType::i64, sizes), b(DType::i32, sizes, Lie::dense, {0}), u(DType::bf16, sizes),
        v(DType::f32, sizes), y(DType::f32, sizes);
    a.random(0, 2), b.random(0, 2), u.random(), v.random();
    CHECK(run("map", sizes, {&a, &b, &u, &v, &y}, {}, nullptr, &p) == 0);
    CHECK_VALUES("where", y, 0, 0,
                 [&](const Index& at) { return a.get(at) == b.get(at) ? u.get(at) : v.get(at); });

    const Program wrap = program(
        {make("add", DType::i64, {0, 0}, {1}, 0, DType::u8), make("gt", DType::i64, {1, 0}, {2})},
        1, 1, 3);
    Tensor small(DType::u8, {256}), more(DType::boolean, {256});
    double next = 0;
    small.fill([&] { return next++; });
    CHECK(run("map", {256}, {&small, &more}, {real(1)}, nullptr, &wrap) == 0);
    CHECK_VALUES("wrapped", more, 0, 0, [](const Index& at) { return (2 * at[0]) % 256 > at[0]; });

    // What f32 is narrowed to may be wider.
    for (DType wider : {DType::f64, DType::i64}) {
        const Program convert = program({make("cast", DType::f32, {0}, {1}, 0, wider)}, 1, 1, 2);
        Tensor from(DType::f32, {5000}), to(wider, {5000});
        from.random();
        CHECK(run("map", {5000}, {&from, &to}, {}, nullptr, &convert) == 0);
        CHECK_VALUES("converted", to, 0, 0, [&](const Index& at) {
            return wider == DType::f64 ? from.get(at) : std::trunc(from.get(at));
        });
    }

    const Program to_bool = program({make("cast", DType::i64, {0}, {1})}, 1, 1, 2);
    Tensor fraction(DType::f32, {3}), truth(DType::boolean, {3});
    fraction.set({0}, 0.5), fraction.set({1}, 0), fraction.set({2}, NAN);
    CHECK(run("map", {3}, {&fraction, &truth}, {}, nullptr, &to_bool) == 0);
    CHECK(truth.get({0}) == 1 && truth.get({1}) == 0 && truth.get({2}) == 1);
}

void test_in_place() {
    for (Lie lie : {Lie::dense, Lie::gapped})
        for (DType dtype : {DType::f32, DType::f16, DType::bf16}) {
            // p, q = -p, p * q with both outputs on their inputs: p is still read after q's
            // instruction order.
            const Program p = program(
                {make("neg", DType::f32, {0}, {2}), make("mul", DType::f32, {0, 1}, {3})}, 2, 2, 4);
            Tensor a(dtype, {3000}, lie), b(dtype, {3000}, lie);
            a.random(), b.random();
            const Tensor a0 = a, b0 = b;
            kernels::Block blocks[] = {a.block(), b.block(), a.block(), b.block()};
            const Index sizes{3000};
            kernels::Args args{sizes, blocks, {}, &p};
            CHECK(kernels::find_kernel("map")->cpu(args) == 0);
            CHECK_VALUES("in place", a, 0, 0, [&](const Index& at) { return -a0.get(at); });
            CHECK_VALUES("in place", b, epsilon(dtype), 1e-7,
                         [&](const Index& at) { return a0.get(at) * b0.get(at); });
        }
}

void test_errors() {
    Tensor a(DType::i32, {600}), b(DType::i32, {600}), y(DType::i32, {600});
    a.random(1, 9), b.random(1, 9).set({599}, 0);
    for (const char* name : {"div_trunc", "div_floor", "remainder", "fmod"}) {
        const Program p = program({make(name, DType::i64, {0, 1}, {2})}, 2, 1, 3);
        std::string text;
        CHECK(run("map", {600}, {&a, &b, &y}, {}, &text, &p) == int(Status::runtime) &&
              text == "ZeroDivisionError");
    }
    const Program bad = program({make("exp", DType::i64, {0}, {1})}, 1, 1, 2);
    std::string text;
    CHECK(run("map", {600}, {&a, &y}, {}, &text, &bad) == int(Status::internal) &&
          text.find("exp") != std::string::npos);
}

// ---- random numbers: the same for every cut, and of the right distribution
struct Moments {
    double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
};
Moments moments(const Tensor& t) {
    Moments m;
    double n = 0;
    t.each([&](const Index& at) {
        const double x = t.get(at);
        m.mean += x, m.variance += x * x, ++n;
        m.low = std::min(m.low, x), m.high = std::max(m.high, x);
    });
    m.mean /= n;
    m.variance = m.variance / n - m.mean * m.mean;
    return m;
}

Tensor draw(const char* name, DType dtype, std::vector<double> operands, int64_t seed,
            int64_t offset) {
    const Index sizes{200, 300};
    const DType compute = dtype == DType::f64  ? DType::f64
                          : is_floating(dtype) ? DType::f32
                                               : DType::i64;
    Program p;
    p.n_in = static_cast<uint8_t>(operands.size());
    p.n_out = 1;
    p.n_registers = p.n_in + 1;
    p.code = {make(name, compute, {}, {p.n_in})};
    for (uint8_t k = 0; k < p.n_in; ++k) p.code[0].in.push_back(k);
    std::vector<Tensor> in;
    for (double v : operands)
        in.push_back(Tensor(DType::f64, sizes, Lie::dense, {0, 1}).fill([=] { return v; }));
    Tensor y(dtype, sizes);
    // Two tiles, cut along the columns, one of them stored transposed.
    for (int64_t part : {0, 1}) {
        const Index own{200, part ? 190 : 110};
        Tensor tile(dtype, own, part ? Lie::reversed : Lie::dense);
        std::vector<Tensor*> blocks;
        for (Tensor& t : in) blocks.push_back(&t);
        blocks.push_back(&tile);
        CHECK(run("map", own, blocks, {integer(seed), integer(offset)}, nullptr, &p, part ? 110 : 0,
                  {300, 1}) == 0);
        tile.each([&](const Index& at) { y.set({at[0], at[1] + (part ? 110 : 0)}, tile.get(at)); });
    }
    // The whole at once gives the same bits.
    Tensor whole(dtype, sizes);
    std::vector<Tensor*> blocks;
    for (Tensor& t : in) blocks.push_back(&t);
    blocks.push_back(&whole);
    CHECK(run("map", sizes, blocks, {integer(seed), integer(offset)}, nullptr, &p, 0, {300, 1}) ==
          0);
    CHECK(whole.same_bytes(y));
    return y;
}

void test_random() {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        const Moments u = moments(draw("uniform", dtype, {0, 1}, 7, 0));
        CHECK(std::fabs(u.mean - 0.5) < 0.01 && std::fabs(u.variance - 1.0 / 12) < 0.002 &&
              u.low >= 0 && u.high < 1);
        const Moments n = moments(draw("normal", dtype, {1, 2}, 7, 0));
        CHECK(std::fabs(n.mean - 1) < 0.05 && std::fabs(n.variance - 4) < 0.1 && n.low < -6 &&
              n.high > 8);
        const Moments b = moments(draw("bernoulli", dtype, {0.25}, 7, 0));
        CHECK(std::fabs(b.mean - 0.25) < 0.01 && b.low == 0 && b.high == 1);
    }
    const Moments r = moments(draw("randint", DType::i64, {-3, 5}, 7, 0));
    CHECK(r.low == -3 && r.high == 4 && std::fabs(r.mean - 0.5) < 0.05);
    CHECK(!draw("uniform", DType::f32, {0, 1}, 7, 0)
               .same_bytes(draw("uniform", DType::f32, {0, 1}, 8, 0)));
    CHECK(!draw("uniform", DType::f32, {0, 1}, 7, 0)
               .same_bytes(draw("uniform", DType::f32, {0, 1}, 7, 1)));
    CHECK_VALUES("arange", draw("arange", DType::i64, {5, 3}, 0, 0), 0, 0,
                 [](const Index& at) { return 5 + 3 * (at[0] * 300 + at[1]); });

    for (double p : {0.0, 0.3, 1.0}) {
        const Index sizes{5000};
        const Program d = program({make("dropout", DType::f32, {0}, {1, 2})}, 1, 2, 3);
        Tensor x(DType::f32, sizes), y(DType::f32, sizes), mask(DType::boolean, sizes);
        x.random(1, 2);
        CHECK(run("map", sizes, {&x, &y, &mask}, {real(p), integer(3), integer(0)}, nullptr, &d, 0,
                  {1}) == 0);
        CHECK(std::fabs(moments(mask).mean - (1 - p)) < 0.03);
        CHECK_VALUES("dropout", y, 1e-6, 0, [&](const Index& at) {
            return p == 1 ? 0 : x.get(at) * mask.get(at) / (1 - p);
        });
    }
}

// ---- optimizers: three steps against the formulas of torch.optim
void test_optimizers() {
    const Index sizes{1111};
    for (int64_t maximize : {0, 1})
        for (int64_t nesterov : {0, 1}) {
            Tensor p(DType::f32, sizes), g(DType::f32, sizes), buf(DType::f32, sizes);
            p.random(), g.random();
            buf.fill([] { return NAN; });
            Tensor want = p, want_buf = buf;
            for (int64_t step = 0; step < 3; ++step) {
                const Program sgd =
                    program({make("sgd_momentum", DType::f32, {0, 1, 2}, {3, 4})}, 3, 2, 5);
                kernels::Block blocks[] = {p.block(), g.block(), buf.block(), p.block(),
                                           buf.block()};
                const kernels::Param params[] = {
                    real(0.1),         real(0.9),         real(nesterov ? 0 : 0.5), real(0.01),
                    integer(nesterov), integer(maximize), integer(step == 0)};
                CHECK(kernels::find_kernel("map")->cpu({sizes, blocks, params, &sgd}) == 0);
                want.each([&](const Index& at) {
                    const double grad = (maximize ? -1 : 1) * g.get(at) + 0.01 * want.get(at);
                    const double b =
                        step == 0 ? grad : 0.9 * want_buf.get(at) + (nesterov ? 1 : 0.5) * grad;
                    want_buf.set(at, b);
                    want.set(at, want.get(at) - 0.1 * (nesterov ? grad + 0.9 * b : b));
                });
            }
            CHECK_VALUES("sgd", p, 1e-6, 1e-6, [&](const Index& at) { return want.get(at); });
        }
    for (int64_t adamw : {0, 1})
        for (bool amsgrad : {false, true}) {
            Tensor p(DType::f32, sizes), g(DType::f32, sizes), m(DType::f32, sizes),
                v(DType::f32, sizes);
            Tensor top(DType::f32, sizes), step(DType::f32, sizes, Lie::dense, {0});
            p.random(), g.random();
            for (Tensor* t : {&m, &v, &top}) t->fill([] { return 0; });
            Tensor wp = p, wm = m, wv = v, wt = top;
            for (int i = 1; i <= 3; ++i) {
                step.set({0}, i);
                const Program adam =
                    amsgrad
                        ? program(
                              {make("adam_amsgrad", DType::f32, {0, 1, 2, 3, 4, 5}, {6, 7, 8, 9})},
                              6, 4, 10)
                        : program({make("adam", DType::f32, {0, 1, 2, 3, 4}, {5, 6, 7})}, 5, 3, 8);
                std::vector<kernels::Block> blocks{p.block(), g.block(), m.block(), v.block()};
                if (amsgrad) blocks.push_back(top.block());
                blocks.insert(blocks.end(), {step.block(), p.block(), m.block(), v.block()});
                if (amsgrad) blocks.push_back(top.block());
                const kernels::Param params[] = {integer(adamw), real(0.1),  real(0.9), real(0.99),
                                                 real(1e-8),     real(0.02), integer(0)};
                CHECK(kernels::find_kernel("map")->cpu({sizes, blocks, params, &adam}) == 0);
                wp.each([&](const Index& at) {
                    const double grad = g.get(at) + (adamw ? 0 : 0.02 * wp.get(at));
                    const double decayed = wp.get(at) * (adamw ? 1 - 0.1 * 0.02 : 1);
                    wm.set(at, 0.9 * wm.get(at) + 0.1 * grad);
                    wv.set(at, 0.99 * wv.get(at) + 0.01 * grad * grad);
                    wt.set(at, std::max(wt.get(at), wv.get(at)));
                    const double denominator =
                        std::sqrt((amsgrad ? wt : wv).get(at) / (1 - std::pow(0.99, i))) + 1e-8;
                    wp.set(at, decayed - 0.1 / (1 - std::pow(0.9, i)) * wm.get(at) / denominator);
                });
                g.random();
            }
            CHECK_VALUES("adam", p, 2e-5, 2e-5, [&](const Index& at) { return wp.get(at); });
        }
    const Program sgd = program({make("sgd", DType::f64, {0, 1}, {2})}, 2, 1, 3);
    Tensor p(DType::f64, sizes), g(DType::f64, sizes), q(DType::f64, sizes);
    p.random(), g.random();
    CHECK(run("map", sizes, {&p, &g, &q}, {real(0.1), real(0.2), integer(1)}, nullptr, &sgd) == 0);
    CHECK_VALUES("sgd", q, 1e-14, 1e-14,
                 [&](const Index& at) { return p.get(at) - 0.1 * (-g.get(at) + 0.2 * p.get(at)); });
}

}  // namespace

int main() {
    test_chains();
    test_planes();
    test_rows();
    test_repeats();
    test_neighbours();
    test_mixed_types();
    test_in_place();
    test_errors();
    test_random();
    test_optimizers();
    return result();
}
