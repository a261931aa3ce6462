// SPDX-License-Identifier: BSD-3-Clause
// The CUDA column of each row beside the CPU's: random dtypes, layouts and shapes, ragged ones and
// empty ones too. A row whose column nobody tests here is an error.
#include <dlfcn.h>

#include <array>
#include <functional>
#include <numeric>

#include "../kernels/programs.hh"
#include "../kernels/tensor.hh"
#include "kernels/cuda/place.hh"
#include "kernels/fold.hh"
#include "on_device.hh"
#include "random_calls.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Program;

namespace {

constexpr int cases_of_a_row = 60;
// TEST(name) { ... }: main() calls it.
std::vector<void (*)()>& tests() {
    static std::vector<void (*)()> all;
    return all;
}
#define TEST(name)                                                \
    void name();                                                  \
    const bool name##_is_known = (tests().push_back(name), true); \
    void name()

// The same call, once by each; the results are compared.
void compare(const char* name, const Index& sizes, std::vector<Tensor*> operands, size_t outputs,
             const std::vector<kernels::Param>& params, double tolerance,
             const Program* program = nullptr, int64_t index_offset = 0, Index index_strides = {}) {
    std::vector<Tensor> before;
    for (Tensor* t : operands) before.push_back(t ? *t : Tensor(DType::f32, {}));
    const auto call = [&] {
        std::string text;
        const int status =
            run(name, sizes, operands, params, &text, program, index_offset, index_strides);
        return text_of(status, " ", text);
    };
    const std::string there = call();
    std::vector<Tensor> results;
    for (size_t k = 0; k < operands.size(); ++k)
        results.push_back(operands[k] ? *operands[k] : before[k]);
    for (size_t k = 0; k < operands.size(); ++k)
        if (operands[k]) *operands[k] = before[k];
    const auto device = std::exchange(execute, on_cpu);
    const std::string here = call();
    execute = device;
    if (there != here) report(__FILE__, __LINE__, text_of(name, ": ", there, ", not ", here));
    if (here != "0 ") return;
    std::string shape;
    for (int64_t size : sizes) shape += text_of(size, " ");
    for (size_t k = operands.size() - outputs; k < operands.size(); ++k) {
        if (!operands[k]) continue;
        const Tensor& want = *operands[k];
        const double relative = is_floating(want.dtype) ? tolerance + 2 * epsilon(want.dtype) : 0;
        check_values(__FILE__, __LINE__,
                     text_of(name, " ", name_of(want.dtype), " operand ", k, " of ", shape),
                     results[k], relative, relative, [&](const Index& at) { return want.get(at); });
    }
}

// Each row of map.def by itself, then chains of some.
TEST(test_map) {
    for (const kernels::MapRow& row : kernels::map_rows())
        for (int round = 0; round < 4; ++round) {
            MapCase c(row);
            compare("map", c.sizes, c.operands(), row.outputs.size(), c.params,
                    is_floating(c.dtype) ? 3e-6 : 0, &c.program, random_int(0, 100),
                    c.index_strides);
        }
}

// A result may take the memory of an operand that is refused where its values are wrong, and these
// are, once they are results.
TEST(test_checked_in_place) {
    for (int round = 0; round < cases_of_a_row / 4; ++round) {
        const Index sizes{random_int(1, 3), random_int(1, 300)};
        const Lie lie = any_lie();
        Tensor p(DType::f32, sizes, lie), one(DType::f32, sizes, any_lie());
        one.fill([] { return 1; });
        const Program loss = single("binary_cross_entropy", DType::f32);
        compare("map", sizes, {&p.random(0.01, 0.1), &one, &p}, 1, {}, 3e-6, &loss);
        Tensor a(DType::i64, sizes, any_lie()), b(DType::i64, sizes, lie);
        const Program quotient = single("div_trunc", DType::i64);
        compare("map", sizes, {&a.random(1, 3), &b.random(5, 9), &b}, 1, {}, 0, &quotient);
    }
}

TEST(test_copy) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const Index sizes = any_sizes(0, 4);
        Tensor x(any_dtype(), sizes, any_lie()), y(any_dtype(), sizes, any_lie());
        compare("copy", sizes, {&x.random(-100, 100), &y}, 1, {}, 0);
    }
}

// Without a conversion bits are moved, those of a nan with a sign, too.
TEST(test_copy_of_nan) {
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
        const Index sizes{random_int(1, 9), random_int(1, 40)};
        const Lie lie = any_lie();
        Tensor x(dtype, sizes, lie), y(dtype, sizes, lie);
        x.fill([] { return std::copysign(NAN, -1.0); });
        CHECK(run("copy", sizes, {&x, &y}) == 0);
        CHECK(y.same_bytes(x));
    }
}

TEST(test_fill) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const Index sizes = any_sizes(0, 4);
        Tensor y(any_dtype(), sizes, any_lie());
        compare("fill", sizes, {&y}, 1, {real(static_cast<double>(random_int(-3, 3)) / 2)}, 0);
    }
}

TEST(test_gemm) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        for (int64_t& size : sizes) size = std::min<int64_t>(size, 3);
        const auto m = static_cast<int64_t>(sizes.size()), n = m + 1, k = m + 2;
        for (int d = 0; d < 3; ++d) sizes.push_back(std::min<int64_t>(any_size(), 40));
        const DType dtype = any_real();
        const DType to = is_short_float(dtype) && random_int(0, 1) ? DType::f32 : dtype;
        const Lie lie = random_int(0, 1) ? Lie::dense : Lie::reversed;
        Index of_b{m};
        if (m > 0 && random_int(0, 1)) of_b.push_back(0);  // one for all batches
        Tensor a(dtype, sizes, any_lie(), {n}), b(dtype, sizes, any_lie(), of_b);
        Tensor c(to, sizes, any_lie(), {k}), y(to, sizes, lie, {k}), bias(to, sizes, lie, {k});
        const bool with_c = random_int(0, 1), onto = random_int(0, 3) == 0;
        std::vector<Tensor*> operands{&a.random(), &b.random(), with_c ? &c.random() : nullptr};
        std::vector<kernels::Param> params{real(random_int(0, 1) ? 1 : 0.5), real(with_c ? 2 : 0),
                                           integer(onto)};
        Program program;
        const bool then = random_int(0, 1);
        if (then) {  // relu(y + bias)
            program.n_in = 2;
            program.n_out = 1;
            program.n_registers = 4;
            program.code = {instruction("add", DType::f32, {0, 1}, {2}),
                            instruction("relu", DType::f32, {2}, {3})};
            if (dtype == DType::f64)
                for (kernels::Instruction& i : program.code) i.compute = DType::f64;
            program.code[1].first_param = 1;
            params.push_back(real(1));
            operands.push_back(&bias.random());
        }
        Tensor result(to, sizes, lie, {k});
        operands.push_back(&y.random());
        if (then) operands.push_back(&result);
        const double terms = std::sqrt(static_cast<double>(std::max<int64_t>(sizes.back(), 1)));
        compare("gemm", sizes, operands, then ? 2 : 1, params, 20 * terms * epsilon(to),
                then ? &program : nullptr);
    }
}

TEST(test_reduce) {
    for (int64_t fold = 0; fold < static_cast<int64_t>(kernels::fold_count); ++fold)
        for (int round = 0; round < cases_of_a_row / 6; ++round) {
            const DType dtype = any_dtype();
            const Index sizes = any_sizes(1, 3);
            Index reduced;
            for (size_t d = 0; d < sizes.size(); ++d)
                if (random_int(0, 1)) reduced.push_back(static_cast<int64_t>(d));
            const bool truth = fold == static_cast<int64_t>(kernels::Fold::any) ||
                               fold == static_cast<int64_t>(kernels::Fold::all);
            Tensor x(dtype, sizes, any_lie()), y(truth                ? DType::boolean
                                                 : is_floating(dtype) ? dtype
                                                                      : DType::i64,
                                                 sizes, any_lie(), reduced);
            compare("reduce", sizes, {&x.random(-1, 1.5), &y.random(-1, 1)}, 1,
                    {integer(fold), integer(random_int(0, 1))}, 1e-5);
        }
    // Results that more than one block has a piece of, in rows, in columns, and all.
    for (const Index& sizes : {Index{3, 9001}, {2100, 37}, {4500, 2}, {1100, 40}})
        for (const Index& reduced : {Index{0}, {1}, {0, 1}}) {
            const DType dtype = any_of({DType::f32, DType::bf16, DType::i32});
            Tensor x(dtype, sizes, any_lie()),
                y(dtype == DType::i32 ? DType::i64 : dtype, sizes, any_lie(), reduced);
            compare("reduce", sizes, {&x.random(-1, 1.5), &y.random(-1, 1)}, 1,
                    {integer(static_cast<int64_t>(kernels::Fold::sum)), integer(random_int(0, 1))},
                    1e-4);
        }
}

// A number of the run is an operand, too, and lies in main memory.
TEST(test_reduce_of_a_number) {
    kernels::Param number = real(2);
    double y = 0;
    const int64_t nowhere = 0;
    const kernels::Block blocks[] = {{reinterpret_cast<std::byte*>(&number), DType::f64, &nowhere},
                                     {reinterpret_cast<std::byte*>(&y), DType::f64, &nowhere}};
    const kernels::Param params[] = {integer(static_cast<int64_t>(kernels::Fold::sum)), integer(0)};
    kernels::Args args;
    args.blocks = blocks;
    args.params = params;
    args.numbers = 1;
    CHECK(execute(*kernels::find_kernel("reduce"), args) == 0);
    CHECK(y == 2);
}

// Rows of d elements, the last dim, in real dtypes.
struct RowCase {
    Index sizes;
    int64_t last;
    DType dtype;
    RowCase(Index given) : sizes(std::move(given)), last(1), dtype(any_real()) {}
    RowCase()
        : sizes(any_sizes(0, 2)), last(static_cast<int64_t>(sizes.size())), dtype(any_real()) {
        for (int64_t& size : sizes) size = std::min<int64_t>(size, 9);
        sizes.push_back(std::max<int64_t>(any_size(), 1));
    }
    Tensor rows(DType of) const { return Tensor(of, sizes, any_lie()); }  // d elements of each
    Tensor rows() const { return rows(dtype); }
    Tensor one(DType of) const { return Tensor(of, sizes, any_lie(), {last}); }  // of each row
    Tensor line(DType of) const {  // the same for all rows
        Index outer;
        for (int64_t d = 0; d < last; ++d) outer.push_back(d);
        return Tensor(of, sizes, Lie::dense, outer);
    }
    Tensor single(DType of) const {
        Index all;
        for (int64_t d = 0; d <= last; ++d) all.push_back(d);
        return Tensor(of, sizes, Lie::dense, all);
    }
    // What arithmetic in another order may change.
    double tolerance() const { return 50 * epsilon(dtype == DType::f64 ? dtype : DType::f32); }
};

TEST(test_softmax) {
    for (const char* name : {"softmax", "log_softmax"})
        for (int round = 0; round < cases_of_a_row / 2; ++round) {
            const RowCase c = round % 8 ? RowCase() : RowCase({2, random_int(1, 5) * 1900});
            Tensor x = c.rows(), y = c.rows();
            compare(name, c.sizes, {&x.random(-5, 5), &y}, 1, {}, c.tolerance());
        }
    for (const char* name : {"softmax_backward", "log_softmax_backward"})
        for (int round = 0; round < cases_of_a_row / 2; ++round) {
            const RowCase c;
            Tensor dy = c.rows(), y = c.rows(), dx = c.rows();
            // A result may be much smaller than the sum of its row that is taken from it.
            const double tolerance = 4 * c.tolerance();
            compare(name, c.sizes, {&dy.random(), &y.random(-1, 1), &dx}, 1, {}, tolerance);
        }
}

TEST(test_norm) {
    for (int round = 0; round < 2 * cases_of_a_row + 4; ++round) {
        // At last many rows, of which more than one block has a piece.
        const RowCase c = round < 2 * cases_of_a_row ? RowCase() : RowCase({700, 40});
        const bool centred = round % 2 == 0, accumulate = random_int(0, 1);
        const DType kept = c.dtype == DType::f64 ? DType::f64 : DType::f32;
        const std::string name = centred ? "layer_norm" : "rms_norm";
        Tensor x = c.rows(), w = c.line(c.dtype), b = c.line(c.dtype), y = c.rows(),
               mean = c.one(kept), rstd = c.one(kept), dy = c.rows(), dx = c.rows(),
               dw = c.line(c.dtype), db = c.line(c.dtype);
        for (Tensor* t : {&x, &w, &b, &mean, &dy, &dw, &db}) t->random();
        rstd.random(0.5, 2);
        Tensor *weight = random_int(0, 1) ? &w : nullptr, *bias = random_int(0, 1) ? &b : nullptr;
        const auto call = [&](const std::string& of, std::vector<Tensor*> operands, size_t outputs,
                              std::vector<kernels::Param> params) {
            std::vector<Tensor*> given;
            for (Tensor* t : operands)
                if (centred || (t != &mean && t != &db && !(t == bias && t))) given.push_back(t);
            compare(of.c_str(), c.sizes, given, outputs, params, 20 * c.tolerance());
        };
        if (centred) call(name, {&x, weight, bias, &y, &mean, &rstd}, 3, {real(1e-5)});
        else call(name, {&x, weight, &y, &rstd}, 2, {real(1e-5)});
        call(name + "_backward_input", {&dy, &x, &mean, &rstd, weight, &dx}, 1, {});
        call(name + "_backward_affine", {&dy, &x, &mean, &rstd, &dw, &db}, centred ? 2 : 1,
             {integer(accumulate)});
    }
}

TEST(test_cross_entropy) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const RowCase c = round % 15 ? RowCase() : RowCase({2, random_int(1, 5) * 1900});
        const int64_t classes = c.sizes.back();
        const DType index = random_int(0, 1) ? DType::i64 : DType::i32;
        Tensor x = c.rows(), target = c.one(index), w = c.line(c.dtype), total = c.single(c.dtype),
               loss = c.one(c.dtype), log_sum = c.one(DType::f64), dy = c.one(c.dtype),
               dx = c.rows(), sum = c.single(c.dtype);
        const bool wrong = random_int(0, 9) == 0;
        target.fill([&] { return double(random_int(wrong ? classes : 0, classes - !wrong)); });
        for (Tensor* t : {&x, &dy}) t->random();
        for (Tensor* t : {&w, &total, &sum}) t->random(0.5, 2);
        log_sum.random(2, 4);
        Tensor *weight = random_int(0, 1) ? &w : nullptr,
               *mean = random_int(0, 1) ? &total : nullptr;
        const std::vector<kernels::Param> params{integer(random_int(0, 3) ? -100 : 0),
                                                 real(random_int(0, 1) ? 0.1 : 0)};
        compare("cross_entropy", c.sizes, {&x, &target, weight, mean, &loss, &log_sum}, 2, params,
                c.tolerance());
        compare("cross_entropy_backward", c.sizes, {&dy, &x, &target, weight, &log_sum, mean, &dx},
                1, params, c.tolerance());
        compare("nll_total_weight", c.sizes, {&target, weight, &sum}, 1,
                {params[0], integer(random_int(0, 1))}, c.tolerance());
    }
}

TEST(test_embedding) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        for (int64_t& size : sizes) size = std::min<int64_t>(size, 6);
        const auto e = static_cast<int64_t>(sizes.size()), v = e + 1;
        sizes.push_back(std::max<int64_t>(any_size(), 1));
        sizes.push_back(random_int(1, 7));
        Index outer;
        for (int64_t d = 0; d < e; ++d) outer.push_back(d);
        const DType dtype = any_real();
        Tensor w(dtype, sizes, any_lie(), outer), indices(DType::i64, sizes, any_lie(), {e, v}),
            y(dtype, sizes, any_lie(), {v}), dw(dtype, sizes, any_lie(), outer);
        const int64_t rows = sizes.back();
        const bool wrong = random_int(0, 9) == 0;
        indices.fill([&] { return double(random_int(wrong ? rows : 0, rows - !wrong)); });
        compare("embedding", sizes, {&w.random(), &indices, &y}, 1, {}, 0);
        compare("embedding_backward", sizes, {&y.random(), &indices, &dw.random()}, 1,
                {integer(random_int(-1, rows - 1)), integer(random_int(0, 1))},
                20 * epsilon(dtype));
    }
}

TEST(test_embedding_bag) {
    for (int round = 0; round < 2 * cases_of_a_row; ++round) {
        const int64_t n = random_int(0, 30), bags = random_int(0, 6), e = any_size(),
                      v = random_int(1, 7);
        const bool with_end = random_int(0, 1);  // the last offset is where the last bag ends
        const Index sizes{bags + with_end, bags, n, e, v};
        const DType dtype = any_real(), integers = random_int(0, 1) ? DType::i64 : DType::i32;
        Tensor table(dtype, sizes, any_lie(), {0, 1, 2}),
            indices(integers, sizes, any_lie(), {0, 1, 3, 4}),
            offsets(integers, sizes, any_lie(), {1, 2, 3, 4}),
            weights(dtype, sizes, any_lie(), {0, 1, 3, 4}), y(dtype, sizes, any_lie(), {0, 2, 4}),
            largest(DType::i64, sizes, any_lie(), {0, 2, 4}),
            bag(DType::i64, sizes, any_lie(), {0, 1, 3, 4}),
            counts(DType::i64, sizes, any_lie(), {1, 2, 3, 4});
        const bool wrong_index = random_int(0, 9) == 0, wrong_offset = random_int(0, 9) == 0;
        indices.fill([&] { return double(random_int(0, v - 1)); });
        if (wrong_index && n > 0) indices.set({0, 0, n / 2, 0, 0}, double(v + 3));
        Index ends;
        for (int64_t k = 0; k < sizes[0]; ++k) ends.push_back(k == 0 ? 0 : random_int(0, n));
        std::sort(ends.begin(), ends.end());
        if (with_end) ends.back() = n;
        if (wrong_offset && !ends.empty()) ends.back() = random_int(0, 1) ? n + 1 : -1;
        for (int64_t k = 0; k < sizes[0]; ++k)
            offsets.set({k, 0, 0, 0, 0}, double(ends[size_t(k)]));
        if (with_end && bags == 0) continue;  // no such call
        const bool weighted = random_int(0, 1);
        const int64_t mode = weighted ? 0 : random_int(0, 2);
        table.random(), weights.random();
        const std::vector<kernels::Param> params{integer(mode), integer(random_int(-1, v - 1))};
        compare("embedding_bag", sizes,
                {&table, &indices, &offsets, weighted ? &weights : nullptr, &y}, 1, params,
                20 * epsilon(dtype == DType::f64 ? dtype : DType::f32));
        compare("embedding_bag_max", sizes, {&table, &indices, &offsets, nullptr, &y, &largest}, 2,
                {integer(2), params[1]}, 0);
        compare("bag_of", sizes, {&offsets, &bag, &counts}, 2, {}, 0);
    }
}

TEST(test_attention) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes;
        for (int64_t d = random_int(0, 2); d > 0; --d) sizes.push_back(random_int(1, 2));
        const auto m = static_cast<int64_t>(sizes.size()), n = m + 1, e = m + 2, f = m + 3;
        if (m > 0 && random_int(0, 19) == 0) sizes[0] = 0;
        sizes.push_back(any_size());
        sizes.push_back(any_size());
        sizes.push_back(any_size() + random_int(0, 1));
        sizes.push_back(random_int(0, 1) ? sizes.back() : any_size());
        const DType dtype = any_real(), kept = dtype == DType::f64 ? dtype : DType::f32;
        const bool choice = random_int(0, 1), causal = random_int(0, 1);
        Index of_mask{e, f};
        for (int64_t d = 0; d < e; ++d)
            if (random_int(0, 3) == 0) of_mask.push_back(d);
        Tensor q(dtype, sizes, any_lie(), {n, f}), k(dtype, sizes, any_lie(), {m, f}),
            v(dtype, sizes, any_lie(), {m, e}), y(dtype, sizes, any_lie(), {n, e}),
            mask(choice ? DType::boolean : dtype, sizes, any_lie(), of_mask),
            log(kept, sizes, any_lie(), {n, e, f}), dy(y), dq(q), dk(k), dv(v);
        for (Tensor* t : {&q, &k, &v, &mask, &dy}) t->random();
        Tensor* given = random_int(0, 1) ? &mask : nullptr;
        const std::vector<kernels::Param> params{integer(causal),
                                                 real(random_int(0, 1) ? NAN : 0.1)};
        const double tolerance = dtype == DType::f64 ? 1e-13 : 2e-5;
        const double rounded = is_short_float(dtype) ? 6 * epsilon(dtype) : 0;  // the weights
        compare("attention", sizes, {&q, &k, &v, given, &y, &log}, 2, params, tolerance, nullptr,
                random_int(0, 1) ? random_int(0, 100) : 0);
        if (causal)  // as of all queries, which the gradient has
            compare("attention", sizes, {&q, &k, &v, given, &y, &log}, 2, params, tolerance);
        compare("attention_backward", sizes, {&dy, &q, &k, &v, given, &y, &log, &dq, &dk, &dv}, 3,
                params, 10 * tolerance + rounded);
    }
}

// Keys that no query sees may be anything, as what a cache of keys has not got yet.
TEST(test_attention_before_the_end) {
    for (int round = 0; round < cases_of_a_row / 6; ++round) {
        const int64_t queries = random_int(1, 70), keys = 100, from = random_int(0, 20);
        const Index sizes{queries, keys, 8, 8};
        const DType dtype = any_real(), kept = dtype == DType::f64 ? dtype : DType::f32;
        Tensor q(dtype, sizes, any_lie(), {1, 3}), k(dtype, sizes, any_lie(), {0, 3}),
            v(dtype, sizes, any_lie(), {0, 2}), y(dtype, sizes, any_lie(), {1, 2}),
            log(kept, sizes, any_lie(), {1, 2, 3}), dy(y), dq(q), dk(k), dv(v);
        for (Tensor* t : {&q, &k, &v, &dy}) t->random();
        for (Tensor* t : {&k, &v})
            t->each([&](const Index& at) {
                if (at[1] >= from + queries) t->set(at, NAN);
            });
        const std::vector<kernels::Param> params{integer(1), real(0.1)};
        const double tolerance = dtype == DType::f64 ? 1e-13 : 2e-5;
        const double rounded = is_short_float(dtype) ? 6 * epsilon(dtype) : 0;
        compare("attention", sizes, {&q, &k, &v, nullptr, &y, &log}, 2, params, tolerance, nullptr,
                from);
        compare("attention_backward", sizes, {&dy, &q, &k, &v, nullptr, &y, &log, &dq, &dk, &dv}, 3,
                params, 10 * tolerance + rounded, nullptr, from);
    }
}

// An operand that has these dims, of an image batch and channels first: row-major, with the
// channels last, the other way round, or with something between the dims.
Tensor any_image(DType dtype, const Index& sizes, Index dims) {
    const int64_t order = random_int(0, 3);
    if (order == 1 && dims.size() > 2) std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    if (order == 2) std::reverse(dims.begin(), dims.end());
    Index strides(sizes.size(), 0);
    int64_t step = 1;
    for (size_t k = dims.size(); k-- > 0;) {
        strides[dims[k]] = step;
        step = step * sizes[dims[k]] + (order == 3 ? 3 : 0);
    }
    return {dtype, sizes, strides};
}

struct ConvolutionCase {
    Index sizes{1, 1, 1, 1}, of_x{0, 2}, of_y{0, 1}, of_w{1, 2};
    std::vector<kernels::Param> window;
    double pixels = 1, taps = 1;

    ConvolutionCase() {
        const int64_t channels[] = {1, 2, 3, 5, 16, 33, 70, 130};
        const int64_t rank = random_int(1, 3), kind = random_int(0, 3), last = rank == 3 ? 4 : 7;
        int64_t co = channels[random_int(0, last)], c = channels[random_int(0, last)], groups = 1;
        if (kind == 0) {  // some channels in each group
            groups = random_int(2, 4);
            co = random_int(1, 9) * groups;
            c = random_int(1, 9) * groups;
        }
        if (kind == 1) groups = co = c;
        const int64_t most = co * c / groups > 1000 ? 4 : rank == 3 ? 5 : 9;
        sizes = {random_int(1, 2), co, c, groups > 1 ? c / groups : 1};
        if (groups > 1) of_w[1] = 3;
        Index x, w, y, params[3];
        for (int64_t d = 0; d < rank; ++d) {
            const bool single = kind == 2;  // a plain product
            const int64_t taps_of_it = single ? 1 : random_int(1, 4), apart = random_int(1, 2),
                          around = single ? 0 : random_int(0, 2),
                          stride = single ? 1 : random_int(1, 4),
                          least = (taps_of_it - 1) * apart + 1 - 2 * around;
            x.push_back(std::max<int64_t>(random_int(1, most), least));
            w.push_back(taps_of_it);
            y.push_back((x.back() - least) / stride + 1);
            for (int k = 0; k < 3; ++k)
                params[k].push_back(std::array{stride, around, apart}[static_cast<size_t>(k)]);
            pixels *= static_cast<double>(y.back());
            taps *= static_cast<double>(w.back());
            of_y.push_back(4 + d);
            of_x.push_back(4 + rank + d);
            of_w.push_back(4 + 2 * rank + d);
        }
        for (const Index& all : {y, x, w}) sizes.insert(sizes.end(), all.begin(), all.end());
        window.push_back(integer(groups));
        for (const Index& all : params)
            for (int64_t v : all) window.push_back(integer(v));
    }
};

TEST(test_convolution) {
    for (int round = 0; round < 2 * cases_of_a_row; ++round) {
        const ConvolutionCase c;
        const DType dtype = any_of({DType::f32, DType::f32, DType::f16, DType::bf16});
        const bool accumulate = random_int(0, 1);
        Tensor x = any_image(dtype, c.sizes, c.of_x), y = any_image(dtype, c.sizes, c.of_y),
               w = any_image(dtype, c.sizes, c.of_w), b = any_image(dtype, c.sizes, {1}),
               dx = any_image(dtype, c.sizes, c.of_x), dy = any_image(dtype, c.sizes, c.of_y),
               dw = any_image(accumulate ? DType::f32 : dtype, c.sizes, c.of_w);
        const auto tolerance = [&](double terms) {
            return 20 * std::sqrt(terms) * epsilon(DType::f32);
        };
        const auto channels = [&](size_t of) { return static_cast<double>(c.sizes[of]); };
        for (Tensor* t : {&x, &w, &b, &dy, &dw}) t->random();
        compare("convolution_backward_input", c.sizes, {&dy, &w, &dx}, 1, c.window,
                tolerance(channels(1) * c.taps));
        std::vector<kernels::Param> summed = c.window;
        summed.insert(summed.begin(), integer(accumulate));
        compare("convolution_backward_weight", c.sizes, {&dy, &x, &dw}, 1, summed,
                tolerance(channels(0) * c.pixels));
        compare("convolution", c.sizes, {&x, &w, random_int(0, 1) ? &b : nullptr, &y}, 1, c.window,
                tolerance(channels(2) * c.taps));
    }
}

// An infinite number that only padding meets is no part of a result. (What the CPU says depends on
// the code that oneDNN has for the shape.)
TEST(test_convolution_beside_infinity) {
    for (const int64_t channels : {8, 16}) {  // the second one in two parts
        const Index sizes{1, 16, channels, 1, 5, 5, 5, 5, 3, 3};
        const auto ones = [&](const Index& dims) {
            Tensor t = any_image(DType::f32, sizes, dims);
            t.fill([] { return 1; });
            return t;
        };
        const Index of_x{0, 2, 6, 7}, of_y{0, 1, 4, 5}, of_w{1, 2, 8, 9};
        Tensor x = ones(of_x), y = ones(of_y), w = ones(of_w), result = ones(of_y), dx = ones(of_x),
               dw = ones(of_w);
        w.set(Index(sizes.size(), 0), INFINITY);
        std::vector<kernels::Param> window(7, integer(1));
        CHECK(run("convolution", sizes, {&x, &w, nullptr, &result}, window) == 0);
        const auto side = [](int64_t p) { return p == 0 || p == 4 ? 2.0 : 3.0; };
        CHECK_VALUES("convolution", result, 0, 0, [&](const Index& at) {
            const bool met = at[1] == 0 && at[4] > 0 && at[5] > 0;
            return met ? INFINITY : side(at[4]) * side(at[5]) * static_cast<double>(channels);
        });
        CHECK(run("convolution_backward_input", sizes, {&y, &w, &dx}, window) == 0);
        CHECK_VALUES("convolution_backward_input", dx, 0, 0, [&](const Index& at) {
            const bool met = at[2] == 0 && at[6] < 4 && at[7] < 4;
            return met ? INFINITY : side(at[6]) * side(at[7]) * 16;
        });
        y.set(Index(sizes.size(), 0), INFINITY);
        window.insert(window.begin(), integer(0));
        CHECK(run("convolution_backward_weight", sizes, {&y, &x, &dw}, window) == 0);
        CHECK_VALUES("convolution_backward_weight", dw, 0, 0, [&](const Index& at) {
            const bool met = at[1] == 0 && at[8] > 0 && at[9] > 0;
            return met ? INFINITY : (at[8] == 1 ? 5.0 : 4.0) * (at[9] == 1 ? 5.0 : 4.0);
        });
    }
}

TEST(test_nll) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const RowCase c;
        const int64_t classes = c.sizes.back(), reduction = random_int(0, 2);
        const bool wrong = random_int(0, 9) == 0, each = reduction == 0;
        Tensor x = c.rows(), target = c.one(random_int(0, 1) ? DType::i64 : DType::i32),
               w = c.line(c.dtype), total = c.single(c.dtype),
               y = each ? c.one(c.dtype) : c.single(c.dtype), dx = c.rows();
        target.fill([&] { return double(random_int(wrong ? classes : 0, classes - !wrong)); });
        for (Tensor* t : {&x, &y}) t->random();
        for (Tensor* t : {&w, &total}) t->random(0.5, 2);
        Tensor *weight = random_int(0, 1) ? &w : nullptr, *mean = reduction == 1 ? &total : nullptr;
        const kernels::Param ignored = integer(random_int(0, 3) ? -100 : 0);
        compare("nll_loss_backward", c.sizes, {&y, &target, weight, mean, &dx}, 1,
                {integer(reduction), ignored}, c.tolerance());
        compare("nll_loss", c.sizes, {&x, &target, weight, mean, &y}, 1,
                {integer(reduction), ignored, integer(random_int(0, 1))}, c.tolerance());
    }
}

// Dims that an operand may lack.
Index some_of(int64_t first, int64_t last) {
    Index dims;
    for (int64_t d = first; d < last; ++d)
        if (random_int(0, 2) == 0) dims.push_back(d);
    return dims;
}
Index joined(Index a, const Index& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}
Index between(int64_t first, int64_t last) {
    Index dims;
    for (int64_t d = first; d < last; ++d) dims.push_back(d);
    return dims;
}

// Index tensors for the last dims, `count` of them. A wrong one is always the same.
std::vector<Tensor> any_indices(const Index& sizes, int64_t count, bool wrap) {
    const auto rank = static_cast<int64_t>(sizes.size()) - count;
    const bool wrong = random_int(0, 9) == 0;
    std::vector<Tensor> all;
    for (int64_t k = 0; k < count; ++k) {
        const int64_t size = sizes[static_cast<size_t>(rank + k)];
        all.emplace_back(random_int(0, 1) ? DType::i64 : DType::i32, sizes, any_lie(),
                         joined(some_of(0, rank), between(rank, rank + count)));
        all.back().fill([&] {
            if (wrong && k == 0 && random_int(0, 3) == 0) return double(size);
            return double(random_int(wrap ? -size : 0, size - 1));
        });
    }
    return all;
}

TEST(test_gather) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 3);
        const auto rank = static_cast<int64_t>(sizes.size());
        const int64_t count = random_int(1, 2);
        for (int64_t k = 0; k < count; ++k) sizes.push_back(random_int(1, 9));
        const bool wrap = random_int(0, 1);
        const DType dtype = any_dtype();
        Tensor x(dtype, sizes, any_lie(), some_of(0, rank)),
            y(dtype, sizes, any_lie(), between(rank, rank + count));
        std::vector<Tensor> indices = any_indices(sizes, count, wrap);
        std::vector<Tensor*> operands{&x.random(-100, 100)};
        for (Tensor& t : indices) operands.push_back(&t);
        operands.push_back(&y);
        compare("gather", sizes, operands, 1, {integer(random_int(0, 1)), integer(wrap)}, 0);
    }
}

TEST(test_scatter) {
    for (int round = 0; round < 3 * cases_of_a_row; ++round) {
        const bool much = round % 3 == 0;  // comes to each point, and is sorted before
        Index sizes = much ? any_sizes(0, 1) : any_sizes(1, 2);
        const auto own = static_cast<int64_t>(sizes.size());
        for (int64_t d = random_int(0, 2); d > 0; --d) sizes.push_back(random_int(0, 6));
        if (much) sizes.push_back(random_int(64, 400));
        const auto rank = static_cast<int64_t>(sizes.size());
        const int64_t count = random_int(1, 2);
        for (int64_t k = 0; k < count; ++k) sizes.push_back(random_int(1, much ? 40 : 5));
        const bool wrap = random_int(0, 1);
        const DType dtype = any_dtype(), from = random_int(0, 3) ? dtype : any_dtype();
        Tensor base(dtype, sizes, any_lie(), between(own, rank)),
            x(from, sizes, any_lie(), between(rank, rank + count)), y(base);
        std::vector<Tensor> indices = any_indices(sizes, count, wrap);
        std::vector<Tensor*> operands{&base.random(), &x.random()};
        for (Tensor& t : indices) operands.push_back(&t);
        operands.push_back(&y.random());
        if (random_int(0, 1)) operands[0] = &y;
        compare("scatter", sizes, operands, 1,
                {integer(random_int(0, 1)), integer(wrap), integer(rank - own),
                 integer(random_int(0, 4)), integer(random_int(0, 1)), real(random_int(1, 2))},
                20 * epsilon(dtype));
    }
}

TEST(test_triangle) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        for (int64_t& size : sizes) size = std::min<int64_t>(size, 3);
        for (int d = 0; d < 2; ++d) sizes.push_back(std::min<int64_t>(any_size(), 40));
        const DType dtype = any_dtype();
        Tensor x(dtype, sizes, any_lie()), y(dtype, sizes, any_lie());
        compare("triangle", sizes, {&x.random(), &y}, 1,
                {integer(random_int(-50, 50)), integer(random_int(0, 1))}, 0, nullptr,
                random_int(0, 30));
    }
}

TEST(test_copies) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        const int64_t count = random_int(1, 4);
        // Parts of a row whose elements lie apart are as wide as each other.
        const Lie lie = any_lie();
        const bool dense = lie == Lie::dense || lie == Lie::apart;
        const int64_t width = random_int(0, 5);
        std::vector<int64_t> columns;
        int64_t total = 0;
        for (int64_t k = 0; k < count; ++k) {
            columns.push_back(dense ? random_int(0, 5) : width);
            total += columns.back();
        }
        sizes.push_back(total);
        const DType dtype = any_dtype();
        Tensor y(dtype, sizes, lie);
        std::vector<Tensor> parts;
        std::vector<Tensor*> operands;
        std::vector<kernels::Param> params;
        int64_t at = 0;
        for (int64_t n : columns) {  // each has more columns than are read
            parts.emplace_back(dtype, sizes, any_lie()).random();
            params.push_back(integer(n));
            params.push_back(integer(at * y.strides.back()));
            at += n;
        }
        for (Tensor& t : parts) operands.push_back(&t);
        operands.push_back(&y);
        compare("copies", sizes, operands, 1, params, 0);
    }
}

TEST(test_flip) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const Index sizes = any_sizes(1, 4);
        const DType dtype = any_dtype();
        Tensor x(dtype, sizes, any_lie()), y(dtype, sizes, any_lie());
        compare("flip", sizes, {&x.random(), &y}, 1,
                {integer(random_int(0, static_cast<int64_t>(sizes.size())))}, 0);
    }
}

// Few values, of which many are equal, and some nan.
Tensor& few_values(Tensor& t) {
    const bool nan = is_floating(t.dtype) && random_int(0, 1);
    return t.fill([=] {
        return nan && random_int(0, 19) == 0 ? NAN : static_cast<double>(random_int(0, 5));
    });
}

TEST(test_argmax) {
    for (const char* name : {"argmax", "argmin"})
        for (int round = 0; round < cases_of_a_row; ++round) {
            const Index sizes = any_sizes(1, 3);
            const auto rank = static_cast<int64_t>(sizes.size());
            const int64_t reduced = random_int(1, rank);
            Tensor x(any_dtype(), sizes, any_lie()),
                y(DType::i64, sizes, any_lie(), between(rank - reduced, rank));
            compare(name, sizes, {&few_values(x), &y}, 1, {integer(reduced)}, 0);
        }
}

TEST(test_scan) {
    for (int round = 0; round < 2 * cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        sizes.push_back(random_int(0, 5) ? random_int(0, 40) : random_int(100, 300));
        if (sizes.size() > 1) sizes[0] = std::min<int64_t>(sizes[0], 16);
        const DType dtype = any_dtype();
        Tensor x(dtype, sizes, any_lie()),
            y(is_floating(dtype) ? dtype : DType::i64, sizes, any_lie()),
            best(dtype, sizes, any_lie()), places(DType::i64, sizes, any_lie());
        const int64_t op = random_int(0, is_floating(dtype) ? 2 : 1);
        if (op == 1 && !is_floating(dtype)) x.random(1, 1);
        else x.random(op == 1 ? 0.9 : -1, 1.1);
        compare("scan", sizes, {&x, &y}, 1, {integer(op)}, 1e-12);
        compare("cumulative_extreme", sizes, {&few_values(x), &best, &places}, 2,
                {integer(random_int(0, 1))}, 0);
    }
    Tensor x(DType::f32, {5000, 40}, Lie::reversed), y(x);  // rows side by side
    compare("scan", {5000, 40}, {&x.random(), &y}, 1, {integer(0)}, 1e-12);
}

TEST(test_sort) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        for (int64_t& size : sizes) size = std::min<int64_t>(size, 4);
        const auto k = static_cast<int64_t>(sizes.size()), d = k + 1;
        const int64_t length = any_size();
        sizes.insert(sizes.end(), {length, length});
        const DType dtype = any_dtype();
        Tensor x(dtype, sizes, any_lie(), {k}), y(dtype, sizes, any_lie(), {d}),
            places(DType::i64, sizes, any_lie(), {d});
        if (round % 2) x.random();
        else few_values(x);
        compare("sort", sizes, {&x, &y, &places}, 2, {integer(random_int(0, 1))}, 0);
        const int64_t most = round % 2 ? 2 : 17;
        sizes[size_t(k)] = std::min<int64_t>(random_int(0, 4) ? random_int(1, most) : 24, length);
        const int64_t kept = sizes[size_t(k)];
        Tensor few(dtype, sizes, any_lie(), {d}), few_places(DType::i64, sizes, any_lie(), {d});
        if (kept > 0) {
            compare("topk", sizes, {&x, &few, &few_places}, 2,
                    {integer(random_int(0, 1)), integer(random_int(0, 1))}, 0);
            sizes[size_t(k)] = 1;
            compare("kthvalue", sizes, {&x, &few, &few_places}, 2, {integer(random_int(1, length))},
                    0);
        }
        sizes[size_t(k)] = length;
        Tensor sequence(dtype, sizes, any_lie(), {k}), value(dtype, sizes, any_lie(), {d});
        sizes[size_t(d)] = random_int(0, 1) ? length : 0;
        int64_t count = 0;  // pairs of equals, in order
        sequence.fill([&] { return double(count++ % length / 2); });
        few_values(value);
        compare("searchsorted", sizes, {&sequence, &value, nullptr, &places}, 1,
                {integer(random_int(0, 1))}, 0);
    }
}

TEST(test_draw) {
    for (int round = 0; round < 2 * cases_of_a_row; ++round) {
        Index sizes = any_sizes(0, 2);
        for (int64_t& size : sizes) size = std::min<int64_t>(size, 4);
        const auto k = static_cast<int64_t>(sizes.size()), d = k + 1;
        sizes.insert(sizes.end(), {random_int(0, 3) ? random_int(0, 9) : 300, random_int(1, 700)});
        Tensor p(any_real(), sizes, any_lie(), {k}), u(DType::f64, sizes, any_lie(), {d}),
            y(DType::i64, sizes, any_lie(), {d});
        p.fill([] { return double(random_int(0, 2) * random_int(1, 1000)) / 1000; });
        compare("draw", sizes, {&p, &u.random(0, 0.9999999), &y}, 1, {}, 0);
    }
}

// x -> y, places of the last dims k and d, as `rows` lie in memory.
void compare_first(const char* name, Index rows, int64_t k, int64_t d, DType dtype,
                   const std::function<double()>& next, const std::vector<kernels::Param>& params) {
    const auto of_k = static_cast<int64_t>(rows.size());
    rows.insert(rows.end(), {k, d});
    Tensor x(dtype, rows, any_lie(), {of_k}), y(dtype, rows, any_lie(), {of_k + 1}),
        places(DType::i64, rows, any_lie(), {of_k + 1});
    compare(name, rows, {&x.fill(next), &y, &places}, 2, params, 0);
}
const auto some = [] { return random_int(0, 30) ? double(random_int(-50, 50)) : NAN; };
const auto many = [] { return double(random_int(-1000000, 1000000)); };

// Rows of more than one chunk, whole ones and not.
TEST(test_sort_of_long_rows) {
    for (const int64_t d : {2048, 2049, 4096, 5001, 9000})
        for (const int64_t descending : {0, 1}) {
            const DType dtype = any_of({DType::f32, DType::f64, DType::bf16});
            compare_first("sort", {2}, d, d, dtype, some, {integer(descending)});
            compare_first("sort", {}, d, d, DType::i64, many, {integer(descending)});
        }
}

// A block of each, with and without a heap, that it shares or does not, and threads of many rows.
TEST(test_topk_of_long_rows) {
    for (const int64_t largest : {0, 1})
        for (const int64_t sorted : {0, 1}) {
            const std::vector<kernels::Param> params{integer(largest), integer(sorted)};
            for (const int64_t k : {1, 40, 200, 900, 2999, 3000}) {
                compare_first("topk", {2}, k, 3000, DType::f32, some, params);
                compare_first("topk", {1}, k, 3000, DType::i32, many, params);
            }
            compare_first("topk", {}, 20, 30, DType::f64, some, params);
            compare_first("topk", {41, 50}, 30, 70, DType::bf16, some, params);
        }
    int64_t falling = 0;  // each belongs into the heap
    compare_first("topk", {}, 60, 4000, DType::f32, [&] { return double(--falling); },
                  {integer(0), integer(1)});
    compare_first("topk", {13}, 3100, 200000, DType::f32, [] { return 1; },
                  {integer(1), integer(1)});
    for (const int64_t k : {1, 2, 1500, 2999, 3000}) {
        compare_first("kthvalue", {2}, 1, 3000, DType::f32, some, {integer(k)});
        compare_first("kthvalue", {2}, 1, 3000, DType::f32, many, {integer(k)});
        compare_first("kthvalue", {}, 1, 3000, DType::f32, [] { return 1; }, {integer(k)});
    }
}

// Rows of which each part is as uneven as can be: std::nth_element and std::sort take a heap then.
TEST(test_topk_of_uneven_rows) {
    for (const int64_t d : {60, 3000})
        for (const int64_t k : {d / 2, d}) {
            // A value is chosen as late as can be: when two are compared that have none.
            std::vector<int64_t> values(static_cast<size_t>(d), d), keys(values.size());
            std::iota(keys.begin(), keys.end(), 0);
            int64_t chosen = 0, candidate = 0;
            const auto first = [&](int64_t a, int64_t b) {
                int64_t &x = values[size_t(a)], &y = values[size_t(b)];
                if (x == d && y == d) (a == candidate ? x : y) = chosen++;
                if (x == d) candidate = a;
                else if (y == d) candidate = b;
                return x < y;
            };
            std::nth_element(keys.begin(), keys.begin() + k - 1, keys.end(), first);
            std::sort(keys.begin(), keys.begin() + k - 1, first);
            size_t at = 0;
            for (const int64_t divisor : {1, 2})  // then with equals
                compare_first("topk", {}, k, d, DType::f32,
                              [&] { return double(values[at++ % values.size()] / divisor); },
                              {integer(0), integer(1)});
        }
}

TEST(test_pool) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const int64_t rank = random_int(1, 3), most = rank == 3 ? 5 : 9;
        const bool adaptive = random_int(0, 3) == 0, average = round % 2 == 0;
        Index sizes{random_int(0, 9) ? random_int(1, 3) : 0, random_int(1, 9)}, x, y, of_x{0, 1},
            of_y{0, 1}, params[4];
        for (int64_t d = 0; d < rank; ++d) {
            const int64_t size = random_int(1, 4), stride = random_int(1, 4),
                          around = random_int(0, size / 2), apart = random_int(1, 2),
                          least = (size - 1) * apart + 1 - 2 * around;
            x.push_back(std::max<int64_t>(random_int(1, most), least));
            // The last window may begin in the image and end behind the padding.
            int64_t count = (x.back() - least) / stride + 1;
            if (random_int(0, 1) && count * stride < x.back() + around) ++count;
            y.push_back(adaptive ? random_int(1, 6) : count);
            for (int k = 0; k < 4; ++k)
                params[k].push_back(std::array{size, stride, around, apart}[size_t(k)]);
            of_y.push_back(2 + d);
            of_x.push_back(2 + rank + d);
        }
        for (const Index& all : {y, x}) sizes.insert(sizes.end(), all.begin(), all.end());
        std::vector<kernels::Param> windows;
        for (const Index& all : params)
            for (int64_t v : all)
                if (!adaptive) windows.push_back(integer(v));
        const DType dtype = any_real();
        Tensor image = any_image(dtype, sizes, of_x), dx = any_image(dtype, sizes, of_x),
               means = any_image(dtype, sizes, of_y), dy = any_image(dtype, sizes, of_y),
               indices = any_image(DType::i64, sizes, of_y);
        image.random(), dy.random();
        if (average) {
            windows.insert(windows.begin(), {integer(random_int(0, 2)), integer(random_int(0, 1))});
            compare("avg_pool", sizes, {&image, &means}, 1, windows, 4 * epsilon(DType::f32));
            compare("avg_pool_backward", sizes, {&dy, &dx}, 1, windows, 4 * epsilon(DType::f32));
            continue;
        }
        if (random_int(0, 3) == 0) image.random(-1, 1).fill([] { return random_int(-1, 1); });
        compare("max_pool", sizes, {&image, &means, &indices}, 2, windows, 0);
        if (random_int(0, 9) == 0) indices.fill([] { return -1; });
        compare("max_pool_backward", sizes, {&dy, &indices, &dx}, 1, windows,
                4 * epsilon(DType::f32));
    }
}

// Indices of one's own may lead anywhere in the image.
TEST(test_pool_to_anywhere) {
    for (int round = 0; round < cases_of_a_row / 6; ++round) {
        const Index sizes{2, random_int(1, 5), 4, 3, 8, 7};
        const std::vector<kernels::Param> windows{integer(2), integer(3), integer(2), integer(2),
                                                  integer(0), integer(1), integer(1), integer(1)};
        const DType dtype = any_real();
        Tensor dy = any_image(dtype, sizes, {0, 1, 2, 3}),
               dx = any_image(dtype, sizes, {0, 1, 4, 5}),
               indices = any_image(DType::i64, sizes, {0, 1, 2, 3});
        indices.fill([&] { return double(random_int(0, sizes[4] * sizes[5] - 1)); });
        compare("max_pool_backward", sizes, {&dy.random(), &indices, &dx}, 1, windows,
                4 * epsilon(DType::f32));
    }
}

TEST(test_channels) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes = any_sizes(3, 3);
        sizes[0] = std::min<int64_t>(sizes[0], 9);
        if (round % 4 == 0) sizes = {2, 40, random_int(50, 200)};  // in several parts
        if (round == 1) sizes = {3, 2, 2500};
        const DType dtype = any_real();
        const Index all{0, 1, 2}, absent = random_int(0, 1) ? Index{2} : Index{0, 2};
        const auto image = [&] { return any_image(dtype, sizes, all); };
        const auto numbers = [&](DType of) { return Tensor(of, sizes, any_lie(), absent); };
        Tensor a = image(), b = image(), y = image(), p = numbers(DType::f64),
               q = numbers(any_real()), s = numbers(any_real()), r = numbers(any_real()),
               first = numbers(DType::f64), second = numbers(DType::f64);
        for (Tensor* t : {&a, &b, &p, &q, &s, &r, &first, &second}) t->random();
        const bool two = random_int(0, 1);
        const auto given = [&](Tensor& t) { return two ? &t : nullptr; };
        compare("channel_blend", sizes, {&a, given(b), &p, given(q), given(s), &r, &y}, 1, {},
                20 * epsilon(dtype == DType::f64 ? dtype : DType::f32));
        compare("channel_sums", sizes, {&a, random_int(0, 1) ? &a : &b, given(p), &first, &second},
                2, {integer(random_int(0, 1))}, 1e-11);
    }
}

TEST(test_group_norm) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        Index sizes{random_int(0, 9) ? random_int(1, 3) : 0, random_int(1, 3), random_int(1, 5),
                    std::max<int64_t>(any_size(), 1)};
        const DType dtype = any_real(), kept = dtype == DType::f64 ? DType::f64 : DType::f32;
        Index all{0, 1, 2, 3};
        if (random_int(0, 1)) std::rotate(all.begin() + 1, all.begin() + 3, all.end());
        const auto image = [&] { return any_image(dtype, sizes, all); };
        const auto some = [&](DType of, Index absent) {
            return Tensor(of, sizes, any_lie(), absent);
        };
        Tensor x = image(), y = image(), dy = image(), dx = image(), w = some(dtype, {0, 3}),
               b = some(dtype, {0, 3}), mean = some(kept, {2, 3}), rstd = some(kept, {2, 3}),
               sloped = some(DType::f64, {3}), flat = some(DType::f64, {3});
        for (Tensor* t : {&x, &dy, &w, &b, &mean}) t->random();
        const double tolerance = 1000 * epsilon(kept);
        compare("group_norm", sizes,
                {&x, random_int(0, 1) ? &w : nullptr, random_int(0, 1) ? &b : nullptr, &y, &mean,
                 &rstd},
                3, {real(1e-3)}, tolerance);
        mean.random();
        rstd.random(0.5, 2);
        compare("group_norm_backward", sizes,
                {&dy, &x, &mean, &rstd, random_int(0, 1) ? &w : nullptr, &dx, &sloped, &flat}, 3,
                {}, tolerance);
    }
}

TEST(test_recurrent_cells) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const int64_t n = any_size(), h = random_int(1, 20), gates = round % 2 ? 4 : 3;
        const Index sizes{n, gates * h, h, 5 * h};
        const DType dtype = any_real();
        const auto operand = [&](Index absent) {
            Tensor t(dtype, sizes, any_lie(), absent);
            return t.random();
        };
        const Index of_gates{2, 3}, of_state{1, 3}, of_bias{0, 2, 3}, of_kept{1, 2};
        Tensor x = operand(of_gates), added = operand(of_gates), before = operand(of_state),
               x_bias = operand(of_bias), added_bias = operand(of_bias), hidden = operand(of_state),
               cell = operand(of_state), kept = operand(round % 2 ? of_gates : of_kept),
               dy = operand(of_state), dcell = operand(of_state), dx = operand(of_gates),
               dadded = operand(of_gates), dbefore = operand(of_state);
        const auto given = [](Tensor& t) { return random_int(0, 1) ? &t : nullptr; };
        const double tolerance = 20 * epsilon(dtype == DType::f64 ? dtype : DType::f32);
        Tensor *first = given(x_bias), *second = given(added_bias);
        if (round % 2) {
            compare("lstm_cell", sizes, {&x, &added, &before, first, second, &hidden, &cell, &kept},
                    3, {}, tolerance);
            compare("lstm_cell_backward", sizes,
                    {given(dy), given(dcell), &before, &cell, &kept, &dx, &dbefore}, 2, {},
                    tolerance);
        } else {
            compare("gru_cell", sizes, {&x, &added, &before, first, second, &hidden, &kept}, 2, {},
                    tolerance);
            compare("gru_cell_backward", sizes, {&dy, &kept, &dx, &dadded, &dbefore}, 3, {},
                    tolerance);
        }
    }
}

TEST(test_recurrent_layers) {
    for (int round = 0; round < 2 * cases_of_a_row; ++round) {
        const int kind = round % 3;  // LSTM, GRU, plain
        const int64_t n = any_size(), t = random_int(1, 5), h = random_int(1, 12),
                      gates = std::array{4, 3, 1}[size_t(kind)] * h;
        const Index sizes{n, t, gates, h, 4 * h};
        const DType dtype = any_real();
        const auto operand = [&](Index absent) {
            Tensor x(dtype, sizes, any_lie(), absent);
            return x.random();
        };
        const Index of_gates{3, 4}, of_steps{2, 4}, of_state{1, 2, 4}, of_weight{0, 1, 4},
            of_bias{0, 1, 3, 4}, of_kept{2, 3};
        Tensor x = operand(of_gates), w = operand(of_weight), bias = operand(of_bias),
               hx = operand(of_state), cx = operand(of_state), y = operand(of_steps),
               cy = operand(of_state), cells = operand(of_steps),
               kept = operand(kind == 1 ? of_kept : of_gates), dy = operand(of_steps),
               dcy = operand(of_state), dx = operand(of_gates), dadded = operand(of_gates),
               dhx = operand(of_state), dcx = operand(of_state);
        w.random(-0.3, 0.3);  // or numbers grow from step to step
        const auto given = [](Tensor& of) { return random_int(0, 1) ? &of : nullptr; };
        std::vector<kernels::Param> params{integer(random_int(0, 1))};
        // What a step rounds goes on to the next ones.
        const double tolerance =
            20 * epsilon(dtype) + 100 * epsilon(dtype == DType::f64 ? dtype : DType::f32);
        if (kind == 0) {
            compare("lstm_sequence", sizes, {&x, &w, &hx, &cx, &y, &cy, &cells, &kept}, 4, params,
                    tolerance);
            compare("lstm_sequence_backward", sizes,
                    {given(dy), given(dcy), &w, &cx, &cells, &kept, &dx, &dhx, &dcx}, 3, params,
                    tolerance);
        } else if (kind == 1) {
            compare("gru_sequence", sizes, {&x, &w, given(bias), &hx, &y, &kept}, 2, params,
                    tolerance);
            compare("gru_sequence_backward", sizes, {&dy, &w, &hx, &y, &kept, &dx, &dadded, &dhx},
                    3, params, tolerance);
        } else {
            params.push_back(integer(random_int(0, 1)));
            compare("rnn_sequence", sizes, {&x, &w, &hx, &y}, 1, params, tolerance);
            compare("rnn_sequence_backward", sizes, {&dy, &w, &y, &dx, &dhx}, 2, params, tolerance);
        }
    }
}

// More rows than scratch memory has room for: some take all steps, then the others.
TEST(test_recurrent_layer_of_many_rows) {
    const Index sizes{360000, 2, 2, 2};
    static_assert(360000 * 3 * 2 * sizeof(double) > kernels::CudaPlace::scratch_bytes);
    const auto operand = [&](Index absent) {
        Tensor t(DType::f64, sizes, Lie::dense, absent);
        return t.random();
    };
    Tensor x = operand({3}), w = operand({0, 1}), hx = operand({1, 2}), y = operand({2}),
           dy = operand({2}), dx = operand({3}), dhx = operand({1, 2});
    const std::vector<kernels::Param> params{integer(1), integer(0)};
    compare("rnn_sequence", sizes, {&x, &w, &hx, &y}, 1, params, 1e-14);
    compare("rnn_sequence_backward", sizes, {&dy, &w, &y, &dx, &dhx}, 2, params, 1e-14);
}

TEST(test_resample) {
    for (int round = 0; round < cases_of_a_row; ++round) {
        const int64_t count = random_int(1, 3), mode = random_int(0, 5), most = count == 3 ? 5 : 9;
        const bool pads = mode > 3, transposed = random_int(0, 1);
        Index sizes{random_int(0, 9) ? random_int(1, 3) : 0, random_int(1, 5)}, of_x{0, 1},
            of_y{0, 1};
        std::vector<kernels::Param> params{
            integer(mode), integer(mode > 1 && !pads && random_int(0, 1)),
            integer((mode == 2 || mode == 3) && random_int(0, 3) == 0), integer(transposed),
            integer(count)};
        for (int64_t d = 0; d < count; ++d) {
            const int64_t n = random_int(2, most);
            Index own{pads ? n + random_int(1, 2) : random_int(1, 2 * most), n};
            if (transposed) std::swap(own[0], own[1]);
            sizes.insert(sizes.end(), own.begin(), own.end());
            of_y.push_back(2 + 2 * d);
            of_x.push_back(3 + 2 * d);
            params.push_back(integer(pads));
        }
        for (int64_t d = 0; d < count; ++d) params.push_back(real(0));
        const bool moves = mode != 2 && mode != 3;
        const DType dtype = moves && random_int(0, 2) == 0 ? any_dtype() : any_real();
        Tensor x = any_image(dtype, sizes, of_x), y = any_image(dtype, sizes, of_y);
        compare("resample", sizes, {&x.random(), &y}, 1, params,
                is_floating(dtype) ? 1000 * epsilon(dtype == DType::f64 ? dtype : DType::f32) : 0);
    }
}

TEST(test_grid_sample) {
    for (int round = 0; round < 3 * cases_of_a_row; ++round) {
        // At last so many channels and pixels that a thread has some channels.
        const bool large = round % cases_of_a_row == 0;
        const int64_t rank = large ? 2 : random_int(1, 3), mode = random_int(0, 2);
        Index sizes{random_int(0, 9) || large ? random_int(1, 3) : 0, large ? 9 : random_int(1, 6),
                    large ? 150 : random_int(0, rank == 3 && mode == 2 ? 20 : 300)};
        Index of_x{0, 1};
        for (int64_t d = 0; d < rank; ++d) {
            of_x.push_back(3 + d);
            sizes.push_back(large ? 180 : random_int(1, 9));
        }
        sizes.push_back(rank);
        const Index of_y{0, 1, 2}, of_grid{0, 2, 3 + rank};
        const DType dtype = any_real();
        const double tolerance = 1000 * epsilon(dtype == DType::f64 ? dtype : DType::f32);
        const std::vector<kernels::Param> params{integer(mode), integer(random_int(0, 2)),
                                                 integer(random_int(0, 1))};
        Tensor x = any_image(dtype, sizes, of_x), grid = any_image(dtype, sizes, of_grid),
               y = any_image(dtype, sizes, of_y);
        x.random();
        grid.random(-1.3, 1.3);
        compare("grid_sample", sizes, {&x, &grid, &y}, 1, params, tolerance);
        Tensor dx = any_image(dtype, sizes, of_x), dgrid = any_image(dtype, sizes, of_grid);
        compare("grid_sample_backward", sizes, {&y.random(), &x, &grid, &dx, &dgrid}, 2, params,
                tolerance);
    }
}

}  // namespace

int main(int count, char** arguments) {
    if (count > 1 && arguments[1] == std::string("convolutions")) {
        test_convolution();
        void* const cudnn = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_NOLOAD);
        const auto* const started =
            static_cast<const long long*>(cudnn ? dlsym(cudnn, "emulation_convolutions") : nullptr);
        std::printf("%lld by cuDNN\n", started ? *started : 0);
        CHECK(started && *started > cases_of_a_row);
        return result();
    }
    for (const auto test : tests()) test();
    for (const kernels::KernelRow& row : kernels::kernel_rows()) {
        if (!row.cuda) continue;
        const int64_t taken = calls_on_device(row.name);
        std::printf("%s: %lld cases on the device\n", row.name, static_cast<long long>(taken));
        if (taken < cases_of_a_row / 4)
            report(__FILE__, __LINE__,
                   text_of(row.name, " has a CUDA column, and only ", taken, " cases were taken"));
    }
    return result();
}
