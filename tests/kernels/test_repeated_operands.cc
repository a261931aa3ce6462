// SPDX-License-Identifier: BSD-3-Clause
// Operands of programs that broadcast along a row.
#include "programs.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Instruction;
using kernels::Program;

namespace {

// An operand that repeats one element along a row is not written out in full: the bits are the same
// as if it were.
void test_rows() {
    for (const kernels::MapRow& row : kernels::map_rows()) {
        const bool integral = row.types == kernels::Types::integral;
        if (row.uses_index || row.inputs.empty() || row.check != kernels::MapCheck::none) continue;
        std::vector<kernels::Param> params;
        for (const kernels::MapParam& p : row.params)
            params.push_back(p.kind == 'f' ? real(p.initial)
                                           : integer(static_cast<int64_t>(p.initial)));
        const auto n_in = static_cast<uint8_t>(row.inputs.size()),
                   n_out = static_cast<uint8_t>(row.outputs.size());
        Instruction i = make(row.name, integral ? DType::i64 : DType::f32, {}, {});
        for (uint8_t r = 0; r < n_in + n_out; ++r) (r < n_in ? i.in : i.out).push_back(r);
        const Program p = program({i}, n_in, n_out, n_in + n_out);
        for (const Index& sizes : {Index{3, 700}, Index{3, 1100}, Index{9, 40}})
            for (int absent = 0; absent < n_in; ++absent)  // this operand, or all but this one
                for (bool others : {false, true}) {
                    std::vector<Tensor> repeated, full;
                    for (uint8_t r = 0; r < n_in + n_out; ++r) {
                        const bool mask = r < n_in && *row.inputs[r] == '*';
                        const DType dtype = mask       ? DType::boolean
                                            : integral ? DType::i64
                                                       : DType::f32;
                        const bool repeats = r < n_in && (r == absent) != others;
                        Index dims;
                        if (repeats) dims = r % 2 ? Index{0, 1} : Index{1};
                        repeated.push_back(Tensor(dtype, sizes, Lie::dense, dims));
                        if (r < n_in) repeated.back().random(0, 3);
                        full.push_back(Tensor(dtype, sizes));
                        if (r < n_in)
                            full.back().each([&](const Index& at) {
                                full.back().set(at, repeated.back().get(at));
                            });
                    }
                    std::vector<Tensor*> first, second;
                    for (Tensor& t : repeated) first.push_back(&t);
                    for (Tensor& t : full) second.push_back(&t);
                    CHECK(run("map", sizes, first, params, nullptr, &p) == 0);
                    CHECK(run("map", sizes, second, params, nullptr, &p) == 0);
                    CHECK_VALUES(std::string(row.name), repeated.back(), 0, 0,
                                 [&](const Index& at) { return full.back().get(at); });
                }
    }
}

// Of a program, beside registers: dx = a * g + (x - m) * b, one a, m and b a row.
void test_a_program() {
    const Program p =
        program({make("mul", DType::f32, {0, 1}, {5}), make("sub", DType::f32, {2, 3}, {6}),
                 make("mul", DType::f32, {6, 4}, {7}), make("add", DType::f32, {5, 7}, {8})},
                5, 1, 9);
    for (const Index& sizes : {Index{2, 5, 900}, Index{2, 5, 3136}, Index{2, 50, 49}})
        for (DType dtype : {DType::f32, DType::bf16}) {
            Tensor g(dtype, sizes), a(DType::f32, sizes, Lie::dense, {0, 2}), x(dtype, sizes),
                m(DType::f64, sizes, Lie::dense, {0, 2}), b(DType::f32, sizes, Lie::dense, {2}),
                dx(dtype, sizes);
            g.random(), a.random(), x.random(), m.random(), b.random();
            CHECK(run("map", sizes, {&g, &a, &x, &m, &b, &dx}, {real(1), real(1)}, nullptr, &p) ==
                  0);
            CHECK_VALUES("repeated in a program", dx, epsilon(dtype) + 1e-5, 1e-5,
                         [&](const Index& at) {
                             return a.get(at) * g.get(at) + (x.get(at) - m.get(at)) * b.get(at);
                         });
        }
}

}  // namespace

int main() {
    test_rows();
    test_a_program();
    return result();
}
