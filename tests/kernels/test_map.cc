// SPDX-License-Identifier: BSD-3-Clause
// The map engine and every primitive of map.def against formulas in double.
#include <map>

#include "map_cases.hh"
#include "programs.hh"
#include "special.hh"
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;
using kernels::Instruction;
using kernels::Program;

namespace {

std::vector<kernels::Param> defaults(const char* name) {
    std::vector<kernels::Param> params;
    for (const kernels::MapParam& p : kernels::map_rows()[kernels::find_map(name)].params)
        params.push_back(p.kind == 'f' ? real(p.initial)
                                       : integer(static_cast<int64_t>(p.initial)));
    return params;
}

bool takes(kernels::Types types, DType dtype) {
    if (types == kernels::Types::floating) return is_floating(dtype);
    if (types == kernels::Types::integral) return !is_floating(dtype);
    return types != kernels::Types::real || dtype != DType::boolean;
}

// As stored in the dtype: integers wrap, bool is != 0, floats may overflow.
double stored(double x, DType dtype) {
    std::byte bytes[8];
    encode(x, bytes, dtype);
    return decode(bytes, dtype);
}

void run_case(const Case& c, DType dtype, const Index& sizes, Lie in_lie, Lie out_lie,
              const Index& absent) {
    const kernels::MapRow& row = kernels::map_rows()[kernels::find_map(c.name)];
    std::vector<Tensor> tensors;
    for (size_t k = 0; k < row.inputs.size(); ++k) {
        const DType own = *row.inputs[k] == '*' ? DType::boolean : dtype;
        tensors.push_back(
            Tensor(own, sizes, in_lie, k == 0 ? Index{} : absent).random(c.low, c.high));
    }
    tensors.push_back(
        Tensor(row.types == kernels::Types::compare ? DType::boolean : dtype, sizes, out_lie));
    std::vector<Tensor*> operands;
    for (Tensor& t : tensors) operands.push_back(&t);
    const Program program = single(c.name, dtype);
    CHECK(run("map", sizes, operands, c.params.empty() ? defaults(c.name) : c.params, nullptr,
              &program) == 0);
    const Tensor& y = tensors.back();
    const double eps =
        epsilon(dtype) + (is_floating(dtype) ? epsilon(compute_of(dtype)) * c.ulps : 0);
    CHECK_VALUES(text_of(c.name, " ", name_of(dtype)), y, eps * 2, eps, [&](const Index& at) {
        Values values;
        for (size_t k = 0; k + 1 < tensors.size(); ++k) values.push_back(tensors[k].get(at));
        if (dtype == DType::boolean && std::string_view(c.name) == "bitwise_not")
            return double(!values[0]);
        return stored(c.want(values), y.dtype);
    });
}

void test_primitives() {
    std::map<std::string_view, int> tested;
    for (const Case& c : cases()) {
        ++tested[c.name];
        for (int d = 1; d < dtype_count; ++d) {
            const DType dtype = static_cast<DType>(d);
            if (!takes(kernels::map_rows()[kernels::find_map(c.name)].types, dtype)) continue;
            run_case(c, dtype, {1500}, Lie::dense, Lie::dense, {});
            run_case(c, dtype, {5, 37}, Lie::reversed, Lie::dense, {0});
            run_case(c, dtype, {3, 7, 11}, Lie::gapped, Lie::reversed, {1, 2});
            run_case(c, dtype, {4, 0, 3}, Lie::dense, Lie::gapped, {});
            run_case(c, dtype, {}, Lie::dense, Lie::dense, {});
        }
    }
    for (const kernels::MapRow& row : kernels::map_rows()) {
        static const std::vector<std::string_view> elsewhere = {
            "arange", "uniform",      "normal", "bernoulli",    "randint",       "dropout",
            "sgd",    "sgd_momentum", "adam",   "adam_amsgrad", "prelu_backward"};
        const bool other =
            std::find(elsewhere.begin(), elsewhere.end(), row.name) != elsewhere.end();
        CHECK(other || tested.count(row.name));
    }
}

// What a loop cannot refuse, the engine does, as the row says.
void test_checked_inputs() {
    using kernels::MapCheck;
    std::vector<std::string> divide, chance;
    for (const kernels::MapRow& row : kernels::map_rows()) {
        if (row.check == MapCheck::none) continue;
        (row.check == MapCheck::divisor ? divide : chance)
            .push_back(text_of(row.name, " ", row.inputs[row.checked]));
        for (DType dtype : {DType::f32, DType::i64}) {
            if (!takes(row.types, dtype)) continue;
            const Index sizes{3};
            std::vector<Tensor> tensors(row.inputs.size() + 1, Tensor(dtype, sizes));
            std::vector<Tensor*> operands;
            for (Tensor& t : tensors) operands.push_back(&t.fill([] { return 1; }));
            const Program program = single(row.name, dtype);
            const auto status = [&](double last) {
                tensors[row.checked].set({2}, last);
                return run("map", sizes, operands, defaults(row.name), nullptr, &program, 0, {1});
            };
            const int refused = static_cast<int>(Status::runtime);
            CHECK(status(1) == 0);
            if (row.check == MapCheck::divisor)
                CHECK(status(0) == (dtype == DType::i64 ? refused : 0));
            else CHECK(status(2) == refused && status(-1) == refused && status(0) == 0);
        }
    }
    const std::vector<std::string> division = {"div_trunc b", "div_floor b", "remainder b",
                                               "fmod b"};
    const std::vector<std::string> chances = {"binary_cross_entropy x", "bernoulli p"};
    CHECK(divide == division && chance == chances);
}

void test_conversions() {
    for (DType dtype : {DType::f16, DType::bf16}) {
        Tensor all(dtype, {0x10000}), same(dtype, {0x10000});
        int bits = 0;
        const int mantissa = dtype == DType::f16 ? 10 : 7, bias = dtype == DType::f16 ? 15 : 127;
        all.fill([&] { return decode16(static_cast<uint16_t>(bits++), mantissa, bias); });
        Program twice;
        twice.n_in = twice.n_out = 1;
        twice.n_registers = 2;
        twice.code = {instruction("cast", DType::f32, {0}, {1})};
        CHECK(run("map", {0x10000}, {&all, &same}, {}, nullptr, &twice) == 0);
        CHECK_VALUES(name_of(dtype), same, 0, 0, [&](const Index& at) { return all.get(at); });

        const Index sizes{20000};
        Tensor x(DType::f32, sizes), y(dtype, sizes);
        x.fill([] { return std::bit_cast<float>(static_cast<uint32_t>(random_engine()())); });
        for (int i = 0; i < 5000; ++i) {  // ties and neighbours of ties
            const double half = (decode16(static_cast<uint16_t>(i * 6), mantissa, bias) +
                                 decode16(static_cast<uint16_t>(i * 6 + 1), mantissa, bias)) /
                                2;
            x.set({i}, i % 3 == 0 ? half : std::nextafterf(float(half), i % 3 == 1 ? 0 : INFINITY));
        }
        CHECK(run("map", sizes, {&x, &y}, {}, nullptr, &twice) == 0);
        CHECK_VALUES(name_of(dtype), y, 0, 0, [&](const Index& at) {
            return decode16(encode16(x.get(at), mantissa, bias), mantissa, bias);
        });
    }
}

}  // namespace

int main() {
    test_primitives();
    test_checked_inputs();
    test_conversions();
    return result();
}
