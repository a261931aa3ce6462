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

}  // namespace nntile::test
