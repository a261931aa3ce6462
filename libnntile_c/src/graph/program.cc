// SPDX-License-Identifier: BSD-3-Clause
#include "graph/program.hh"

#include <algorithm>

#include "base/error.hh"

namespace nntile::graph {

static void all_params(const schema::Call& call, bool, std::vector<schema::ParamSpec>& out) {
    for (size_t k = 0; k < call.attrs.size(); ++k) out.push_back({static_cast<int>(k), {}});
}

const OpRow& program_row() {
    static const OpRow row = [] {
        OpRow like = *schema::find_op("cast");  // the relation of any map
        like.name = "map";
        like.doc = "a program of element-wise ops";
        like.inputs = {{"x*", "any"}};
        like.outputs = {{"y*", "any"}};
        like.attrs = {};
        like.defaults = {};
        like.map_row = -1;
        like.kernel = "map";
        like.params = all_params;
        return like;
    }();
    return row;
}

const OpRow& row_of(const kernels::Instruction& instruction) {
    return *schema::find_op(kernels::map_rows()[instruction.primitive].name);
}

DType compute_class(DType dtype) {
    if (dtype == DType::f64) return DType::f64;
    return is_floating(dtype) ? DType::f32 : DType::i64;
}

size_t param_count(const OpRow& row) { return kernels::map_rows()[row.map_row].params.size(); }

static bool broadcasts(const Dims& from, const Dims& to) {
    if (from.size() > to.size()) return false;
    for (size_t d = 1; d <= from.size(); ++d)
        if (from[from.size() - d] != 1 && from[from.size() - d] != to[to.size() - d]) return false;
    return true;
}

void check_program(const Graph& graph, const Node& node) {
    const kernels::Program& p = *node.program;
    const auto wrong = [](const auto&... parts) { fail(Status::invalid_argument, "map: ", parts...); };
    if (p.n_in != node.inputs.size() || p.n_out != node.outputs.size() || p.n_out == 0)
        wrong("a program of ", int{p.n_in}, " inputs and ", int{p.n_out}, " outputs for ", node.inputs.size(), " and ",
              node.outputs.size(), " values");
    if (p.n_in + p.n_out > kernels::max_map_blocks || p.n_registers > kernels::max_map_registers ||
        p.code.size() > kernels::max_map_instructions)
        wrong("the program is too long");
    std::vector<bool> written(p.n_registers);
    std::fill_n(written.begin(), std::min<size_t>(p.n_in, written.size()), true);
    size_t params = 0;
    for (const kernels::Instruction& i : p.code) {
        const kernels::MapRow& row = kernels::map_rows()[i.primitive];
        if (i.in.size() != row.inputs.size() || i.out.size() != row.outputs.size())
            wrong(row.name, " takes ", row.inputs.size(), " operands and gives ", row.outputs.size());
        for (uint8_t r : i.in)
            if (r >= p.n_registers || !written[r]) wrong(row.name, " reads r", int{r}, ", which is never written");
        for (uint8_t r : i.out) {
            if (r >= p.n_registers || r < p.n_in)
                wrong(row.name, " writes r", int{r}, ", which is no register of its own");
            if (written[r]) wrong(row.name, " writes r", int{r}, " a second time");
            written[r] = true;
        }
        if (!schema::takes(row.types, i.compute)) wrong(row.name, " is not computed in ", name_of(i.compute));
        const int output = i.out[0] - (p.n_registers - p.n_out);
        if (output >= 0 && graph.value(node.outputs[output]).dtype != i.result)
            wrong(row.name, " gives ", name_of(i.result), ", but its value is ",
                  name_of(graph.value(node.outputs[output]).dtype));
        if (i.first_param != params) wrong(row.name, " has parameters of another instruction");
        params += row.params.size();
    }
    if (params != node.attrs.size()) wrong(node.attrs.size(), " parameters for ", params);
    for (size_t r = p.n_registers - p.n_out; r < p.n_registers; ++r)
        if (!written[r]) wrong("output r", r, " is never written");
    const Dims& sizes = graph.value(node.outputs[0]).sizes;
    for (uint32_t v : node.outputs)
        if (graph.value(v).sizes != sizes) wrong("outputs of several shapes");
    for (uint32_t v : node.inputs)
        if (v == no_value || !broadcasts(graph.value(v).sizes, sizes))
            wrong("an input ", v == no_value ? "is absent" : "of shape " + text_of_dims(graph.value(v).sizes),
                  " for outputs of shape ", text_of_dims(sizes));
}

double flops_of(const Node& node) {
    if (!node.program) return node.row->flops;
    double flops = 0;
    for (const kernels::Instruction& i : node.program->code) flops += kernels::map_rows()[i.primitive].flops;
    return flops;
}

}  // namespace nntile::graph
