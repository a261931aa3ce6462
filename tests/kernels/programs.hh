// SPDX-License-Identifier: BSD-3-Clause
// Programs of the map engine, written down.
#pragma once

#include "tensor.hh"

namespace nntile::test {

inline kernels::Instruction make(const char* name, DType compute, std::initializer_list<uint8_t> in,
                                 std::initializer_list<uint8_t> out, uint16_t first_param = 0,
                                 DType result = DType::none) {
    CHECK(kernels::find_map(name) >= 0);
    return {static_cast<uint16_t>(kernels::find_map(name)), compute, first_param, in, out, result};
}
inline kernels::Program program(std::vector<kernels::Instruction> code, uint8_t n_in, uint8_t n_out,
                                uint8_t n_registers) {
    return {std::move(code), n_in, n_out, n_registers};
}

inline kernels::Instruction instruction(const char* name, DType compute,
                                        std::initializer_list<uint8_t> in,
                                        std::initializer_list<uint8_t> out,
                                        uint16_t first_param = 0, DType result = DType::none) {
    const int row = kernels::find_map(name);
    CHECK(row >= 0);
    kernels::Instruction i;
    i.primitive = static_cast<uint16_t>(row);
    i.compute = compute;
    i.in = in;
    i.out = out;
    i.first_param = first_param;
    i.result = result;
    return i;
}

inline DType compute_of(DType dtype) {
    return dtype == DType::f64 ? DType::f64 : is_floating(dtype) ? DType::f32 : DType::i64;
}

inline kernels::Program single(const char* name, DType dtype) {
    const kernels::MapRow& row = kernels::map_rows()[kernels::find_map(name)];
    kernels::Instruction i = instruction(name, compute_of(dtype), {}, {});
    kernels::Program p;
    p.n_in = static_cast<uint8_t>(row.inputs.size());
    p.n_out = static_cast<uint8_t>(row.outputs.size());
    p.n_registers = p.n_in + p.n_out;
    for (uint8_t r = 0; r < p.n_in; ++r) i.in.push_back(r);
    for (uint8_t r = p.n_in; r < p.n_registers; ++r) i.out.push_back(r);
    p.code.push_back(i);
    return p;
}

}  // namespace nntile::test
