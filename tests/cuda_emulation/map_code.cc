// SPDX-License-Identifier: BSD-3-Clause
// Programs with code of their own beside the interpreter: the same bits, and the same errors.
//
// map_code          compiles for the emulated device (nvrtc.cc), and runs
// map_code compile  only compiles, with the NVRTC that is found: NVIDIA's
#include <unistd.h>

#include <cstdlib>

#include "base/settings.hh"
#include "kernels/cuda/map_source.hh"
#include "on_device.hh"
#include "random_calls.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Instruction;
using kernels::MapRow;
using kernels::Program;

namespace {

int sources = 0;

void take_code(const char* when) {
    setenv("NNTILE_GPU_CODE", when, 1);
    read_settings();
}

// In the place of a run, where there is no device for what NVIDIA's compiler makes.
int compile_only(const kernels::KernelRow& row, const kernels::Args& args) {
    kernels::cuda::MapJob job;
    if (row.cuda(args, nullptr) != 0 || !make_map_job(job, args)) return 0;
    make_quads(job);
    std::string reason;
    const cuda::Source source = map_source(job, map_key(job));
    if (cuda::compiled(source, 90, reason).empty())
        report(__FILE__, __LINE__, text_of(reason, "\n", source.text));
    ++sources;
    return 0;
}

void compare(const Index& sizes, const std::vector<Tensor*>& operands,
             const std::vector<kernels::Param>& params, const Program& program,
             const Index& index_strides = {}) {
    const int64_t index = random_int(0, 100);
    const auto call = [&](const char* when) {
        take_code(when);
        std::string text;
        const int status =
            run("map", sizes, operands, params, &text, &program, index, index_strides);
        return text_of(status, " ", text);
    };
    std::vector<Tensor> before;
    for (Tensor* t : operands) before.push_back(*t);
    const std::string interpreted = call("0");
    std::vector<Tensor> want;
    for (Tensor* t : operands) want.push_back(*t);
    for (size_t k = 0; k < operands.size(); ++k) *operands[k] = before[k];
    const std::string name = kernels::map_rows()[program.code[0].primitive].name;
    const std::string compiled = call("first");
    if (compiled != interpreted)
        report(__FILE__, __LINE__, text_of(name, ": ", compiled, ", not ", interpreted));
    if (interpreted != "0 ") return;
    for (size_t k = program.n_in; k < operands.size(); ++k)
        CHECK_VALUES(text_of(name, " operand ", k), *operands[k], 0, 0,
                     [&](const Index& at) { return want[k].get(at); });
    ++sources;
}

void test_rows() {
    for (const MapRow& row : kernels::map_rows()) {
        MapCase c(row);
        compare(c.sizes, c.operands(), c.params, c.program, c.index_strides);
    }
}

// Rows one after the other: what is narrowed, converted, and read more than once.
Program any_chain(const std::vector<DType>& inputs, DType output) {
    Program p;
    p.n_in = static_cast<uint8_t>(inputs.size());
    p.n_out = 1;
    p.n_registers = p.n_in;
    const int64_t length = random_int(2, 6);
    while (static_cast<int64_t>(p.code.size()) < length) {
        const auto number = random_int(0, static_cast<int64_t>(kernels::map_rows().size()) - 1);
        const MapRow& row = kernels::map_rows()[number];
        const bool real = row.types == kernels::Types::floating || random_int(0, 3);
        if (!row.by_blocks || row.outputs.size() != 1 || row.check != kernels::MapCheck::none ||
            !row.params.empty() || (row.types == kernels::Types::integral && real))
            continue;
        Instruction i;
        i.primitive = static_cast<uint16_t>(number);
        const bool last = static_cast<int64_t>(p.code.size()) + 1 == length;
        const DType result = row.types == kernels::Types::compare ? DType::boolean
                             : !real                              ? DType::i32
                             : random_int(0, 1)                   ? DType::f32
                                                                  : DType::bf16;
        i.compute = real ? DType::f32 : DType::i64;
        for (size_t k = 0; k < row.inputs.size(); ++k)
            i.in.push_back(static_cast<uint8_t>(random_int(0, p.n_registers - 1)));
        i.out.push_back(p.n_registers++);
        i.result = last ? output : result;
        p.code.push_back(i);
    }
    return p;
}
void test_chains() {
    for (int round = 0; round < 60; ++round) {
        const Index sizes = any_sizes(1, 3);
        std::vector<DType> inputs;
        std::vector<Tensor> tensors;
        for (int64_t k = random_int(1, 3); k > 0; --k) {
            inputs.push_back(any_of({DType::f32, DType::bf16, DType::i32, DType::boolean}));
            const Index absent = random_int(0, 3) ? Index{} : Index{0};
            tensors
                .emplace_back(inputs.back(), sizes, random_int(0, 1) ? Lie::dense : any_lie(),
                              absent)
                .random(0.1, 3);
        }
        const DType output = any_of({DType::f32, DType::f16, DType::i64, DType::boolean});
        tensors.emplace_back(output, sizes, random_int(0, 1) ? Lie::dense : any_lie());
        std::vector<Tensor*> operands;
        for (Tensor& t : tensors) operands.push_back(&t);
        compare(sizes, operands, {}, any_chain(inputs, output));
    }
}

// Each thread has two places, the last one none.
void test_many() {
    for (const Index& sizes : {Index{(int64_t{1} << 19) + 77}, Index{1023, 514}}) {
        const bool turned = sizes.size() > 1;
        Tensor x(DType::f32, sizes, turned ? Lie::reversed : Lie::dense), y(DType::i32, sizes);
        int64_t next = 0;
        x.fill([&] { return static_cast<double>(next++ % 1000); });
        compare(sizes, {&x, &y}, {}, single("neg", DType::f32));
    }
}

// In place, too: what is refused is not changed before it is read.
void test_refused() {
    for (const double b : {0.0, 2.0}) {
        Tensor x(DType::i64, {300}), y(DType::i64, {300});
        x.random(1, 9);
        y.fill([&] { return b; });
        compare({300}, {&x, &y, &y}, {}, single("div_trunc", DType::i64));
        Tensor p(DType::f32, {3, 80}), t(DType::f32, {3, 80});
        p.random(0.1, 0.9);
        p.set({2, 79}, b);
        compare({3, 80}, {&p, &t.random(0, 1), &p}, {}, single("binary_cross_entropy", DType::f32));
    }
}

// A program that does little is interpreted; its code comes later, from another thread.
void test_later() {
    const Program p = single("exp", DType::f64);
    Tensor x(DType::f64, {7}), y(DType::f64, {7});
    take_code("1");
    const std::string none = cuda::compiler_text();
    for (int call = 0; call < 15; ++call)
        CHECK(run("map", {7}, {&x.random(), &y}, {}, nullptr, &p) == 0);
    CHECK(cuda::compiler_text() == none);
    for (int call = 0; call < 1000 && cuda::compiler_text() == none; ++call) {
        CHECK(run("map", {7}, {&x.random(), &y}, {}, nullptr, &p) == 0);
        usleep(20000);
    }
    CHECK(cuda::compiler_text() != none);
    cuda::stop_compiler();
}

}  // namespace

int main(int arguments, char**) {
    const bool only = arguments > 1;
    if (only) execute = compile_only;
    test_rows();
    test_chains();
    test_refused();
    if (!only) test_many();
    if (!only) test_later();
    std::printf("%d programs, %s\n", sources, cuda::compiler_text().c_str());
    if (sources < 150) report(__FILE__, __LINE__, "too few programs had code");
    return result();
}
