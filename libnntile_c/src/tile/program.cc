// SPDX-License-Identifier: BSD-3-Clause
#include "tile/program.hh"

#include "graph/program.hh"

namespace nntile::tile {

bool is_plain_copy(const graph::Graph& graph, const graph::Node& node) {
    static const int cast = kernels::find_map("cast");
    if (node.row != &graph::program_row() || node.program->code.size() != 1) return false;
    if (node.program->code[0].primitive != cast) return false;
    const graph::Value &from = graph.value(node.inputs[0]), &to = graph.value(node.outputs[0]);
    return from.kind != graph::ValueKind::scalar && from.dtype == to.dtype;
}

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

std::shared_ptr<const kernels::Program> behind_join(const kernels::Program& program, int map_row,
                                                    DType compute, DType result, size_t params) {
    const auto parts = static_cast<uint8_t>(kernels::map_rows()[map_row].inputs.size());
    const auto first = static_cast<uint8_t>(program.n_in - 1),
               joined = static_cast<uint8_t>(first + parts);
    const auto moved = [&](uint8_t r) { return static_cast<uint8_t>(r < first ? r : r + parts); };
    auto made = std::make_shared<kernels::Program>();
    kernels::Instruction& join = made->code.emplace_back();
    join.primitive = static_cast<uint16_t>(map_row);
    join.compute = graph::compute_class(compute);
    join.first_param = static_cast<uint16_t>(params);
    join.result = result;
    for (uint8_t r = first; r < joined; ++r) join.in.push_back(r);
    join.out.push_back(joined);
    for (kernels::Instruction code : program.code) {
        for (uint8_t& r : code.in) r = moved(r);
        for (uint8_t& r : code.out) r = moved(r);
        made->code.push_back(std::move(code));
    }
    made->n_in = joined;
    made->n_out = program.n_out;
    made->n_registers = program.n_registers + parts;
    return made;
}

void add_default_params(int map_row, std::vector<ParamRef>& params) {
    for (const kernels::MapParam& p : kernels::map_rows()[map_row].params) {
        ParamRef ref;
        if (p.kind == 'f') ref.fixed.f = p.initial;
        else ref.fixed.i = static_cast<int64_t>(p.initial);
        params.push_back(ref);
    }
}

}  // namespace nntile::tile
