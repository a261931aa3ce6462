// SPDX-License-Identifier: BSD-3-Clause
// gemm with a program: the bits of gemm, then map.
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Program;

namespace {

// r3 = the product * r0 + r1; r4 = gelu(r3); the second result, if wanted, is r4 * the product.
Program program_of(DType dtype, bool two) {
    const DType compute = dtype == DType::f64  ? DType::f64
                          : is_floating(dtype) ? DType::f32
                                               : DType::i64;
    const auto instruction = [&](const char* name, std::initializer_list<uint8_t> in, uint8_t out,
                                 uint16_t param) {
        kernels::Instruction i;
        i.primitive = static_cast<uint16_t>(kernels::find_map(name));
        i.compute = compute;
        i.first_param = param;
        for (uint8_t r : in) i.in.push_back(r);
        i.out.push_back(out);
        i.result = dtype;
        return i;
    };
    Program p;
    p.n_in = 3;
    p.n_out = two ? 2 : 1;
    const bool floating = is_floating(dtype);
    p.code = {instruction("mul", {2, 0}, 3, 0), instruction("add", {3, 1}, 4, 0),
              instruction(floating ? "gelu" : "relu", {4}, 5, 1)};
    if (two) p.code.push_back(instruction("mul", {5, 2}, 6, 2));
    p.n_registers = two ? 7 : 6;
    return p;
}

struct Case {
    DType dtype;
    Index sizes;  // batch.., m, n, k
    Lie a = Lie::dense, b = Lie::dense;
    double alpha = 1, beta = 0;
    bool accumulate = false, two = false;
};

void check(const Case& c) {
    const auto dims = static_cast<int64_t>(c.sizes.size());
    const auto m = dims - 3, n = dims - 2, k = dims - 1;
    Tensor a(c.dtype, c.sizes, c.a, {n}), b(c.dtype, c.sizes, c.b, {m}),
        add(c.dtype, c.sizes, Lie::dense, {k}), scale(c.dtype, c.sizes, Lie::gapped, {m, k}),
        residual(c.dtype, c.sizes, Lie::reversed, {k}), y(c.dtype, c.sizes, Lie::dense, {k}),
        z(c.dtype, c.sizes, Lie::dense, {k}), u(c.dtype, c.sizes, Lie::gapped, {k});
    for (Tensor* t : {&a, &b, &add, &scale, &residual, &y, &z, &u}) t->random();
    Tensor y2 = y, z2 = z, u2 = u;
    const Program program = program_of(c.dtype, c.two);
    const std::vector<kernels::Param> own = {real(c.alpha), real(c.beta), integer(c.accumulate)};
    std::vector<kernels::Param> more =
        is_floating(c.dtype) ? std::vector{real(0.5), integer(1)} : std::vector{real(2)};
    std::vector<kernels::Param> all = own;
    all.insert(all.end(), more.begin(), more.end());
    std::vector<Tensor*> operands = {&a, &b, &add, &scale, &residual, &y, &z},
                         map = {&scale, &residual, &y2, &z2};
    if (c.two) {
        operands.push_back(&u);
        map.push_back(&u2);
    }
    CHECK(run("gemm", c.sizes, operands, all, nullptr, &program) == 0);
    CHECK(run("gemm", c.sizes, {&a, &b, &add, &y2}, own) == 0);
    CHECK(run("map", Index(c.sizes.begin(), c.sizes.end() - 1), map, more, nullptr, &program) == 0);
    std::string what = name_of(c.dtype);
    for (int64_t n : c.sizes) what += " " + std::to_string(n);
    if (!y.same_bytes(y2)) report(__FILE__, __LINE__, "the product of " + what);
    if (!z.same_bytes(z2)) report(__FILE__, __LINE__, "the program after " + what);
    if (c.two && !u.same_bytes(u2)) report(__FILE__, __LINE__, "the second result after " + what);
}

// The result in the memory of the product.
void in_place(DType dtype) {
    const Index sizes{70, 50, 30};
    Tensor a(dtype, sizes, Lie::dense, {1}), b(dtype, sizes, Lie::dense, {0}),
        y(dtype, sizes, Lie::dense, {2}), z = y;
    a.random(), b.random();
    Program p;
    p.n_in = p.n_out = 1;
    p.n_registers = 2;
    kernels::Instruction& i = p.code.emplace_back();
    i.primitive = static_cast<uint16_t>(kernels::find_map("exp"));
    i.compute = dtype == DType::f64 ? DType::f64 : DType::f32;
    i.in.push_back(0);
    i.out.push_back(1);
    i.result = dtype;
    const std::vector<kernels::Param> params = {real(1), real(0), integer(0)};
    CHECK(run("gemm", sizes, {&a, &b, nullptr, &y}, params) == 0);
    Tensor wanted = y;
    CHECK(run("map", {70, 50}, {&y, &wanted}, {}, nullptr, &p) == 0);
    kernels::Block blocks[] = {a.block(), b.block(), {}, z.block(), z.block()};
    kernels::Args args;
    args.sizes = sizes;
    args.blocks = blocks;
    args.params = params;
    args.program = &p;
    CHECK(kernels::find_kernel("gemm")->cpu(args) == 0);
    CHECK(z.same_bytes(wanted));
}

}  // namespace

int main() {
    kernels::single_thread_blas();  // as the runtime does; what its threads share TSan cannot see
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::i64, DType::i32}) {
        for (Lie a : {Lie::dense, Lie::reversed})
            for (Lie b : {Lie::dense, Lie::reversed}) check({dtype, {53, 41, 37}, a, b});
        check({dtype, {3, 7, 11, 5}, Lie::gapped, Lie::dense, 2, 3});
        check({dtype, {2, 3, 9, 5, 4}, Lie::dense, Lie::dense, 1, 0, true, true});
        check({dtype, {400, 390, 3}, Lie::dense, Lie::dense, 1, 1, false, true});
        check({dtype, {1, 6, 0}, Lie::dense, Lie::dense, 1, 1});
        check({dtype, {0, 6, 3}});
        if (is_floating(dtype)) in_place(dtype);
    }
    check({DType::f32, {600, 300, 500}});
    return result();
}
