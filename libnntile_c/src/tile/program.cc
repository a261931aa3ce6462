// SPDX-License-Identifier: BSD-3-Clause
#include "tile/program.hh"

#include "graph/program.hh"

namespace nntile::tile {

std::shared_ptr<const kernels::Program> one_instruction(int map_row, DType compute) {
    const kernels::MapRow& row = kernels::map_rows()[map_row];
    auto program = std::make_shared<kernels::Program>();
    kernels::Instruction code;
    code.primitive = static_cast<uint16_t>(map_row);
    code.compute = graph::compute_class(compute);
    program->n_in = static_cast<uint8_t>(row.inputs.size());
    program->n_out = static_cast<uint8_t>(row.outputs.size());
    program->n_registers = program->n_in + program->n_out;
    for (uint8_t r = 0; r < program->n_in; ++r) code.in.push_back(r);
    for (uint8_t r = program->n_in; r < program->n_registers; ++r) code.out.push_back(r);
    program->code.push_back(std::move(code));
    return program;
}

}  // namespace nntile::tile
