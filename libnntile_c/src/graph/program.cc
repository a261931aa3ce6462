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

Parts parts_of(const Node& node) {
    const OpRow& row = *node.row;
    const std::span inputs(node.inputs.begin(), node.inputs.end()),
        outputs(node.outputs.begin(), node.outputs.end());
    const std::span attrs(node.attrs);
    if (!node.program || &row == &program_row())
        return {{inputs, outputs, attrs, node.program.get()}, {}, {}};
    const bool before = row.prologue >= 0;
    const size_t n_in = row.inputs.size() - before, n_out = row.outputs.size(),
                 n_attrs = row.attrs.size();
    const Part own{inputs.first(n_in), outputs.first(n_out), attrs.first(n_attrs)},
        program{inputs.subspan(n_in), outputs.subspan(n_out), attrs.subspan(n_attrs),
                node.program.get()};
    return before ? Parts{own, program, {}} : Parts{own, {}, program};
}

void append_program(Node& node, Code code) {
    node.program = std::move(code.program);
    node.inputs.append(code.inputs.begin(), code.inputs.end());
    node.attrs.insert(node.attrs.end(), code.attrs.begin(), code.attrs.end());
}

Node prologue_of(const Node& node) {
    const Part part = parts_of(node).before;
    Node made{&program_row(), DType::none, -1, node.recorded, {}, {}, {}};
    made.outputs.append(part.outputs.begin(), part.outputs.end());
    append_program(made, {node.program,
                          {part.inputs.begin(), part.inputs.end()},
                          {part.attrs.begin(), part.attrs.end()}});
    return made;
}

static bool is_copy(const Graph& graph, const Node& node) {
    return node.row->kernel == "copy" && graph.value(node.inputs[0]).kind != ValueKind::scalar;
}

DType compute_class(const Graph& graph, const Node& node) {
    if (!is_copy(graph, node)) return compute_class(node.compute);
    return kernels::conversion_type(graph.value(node.inputs[0]).dtype,
                                    graph.value(node.outputs[0]).dtype);
}

static bool is_instruction(const Graph& graph, const Node& node) {
    if ((node.row->map_row < 0 && !is_copy(graph, node)) || node.outputs.empty()) return false;
    const DType compute = compute_class(graph, node);
    // A register holds what the instruction computes, narrowed to one dtype
    for (uint32_t v : node.outputs) {
        const DType dtype = graph.value(v).dtype;
        if (v == node.outputs[0]
                ? dtype != DType::boolean && compute_class(dtype) != compute
                : dtype != DType::boolean && dtype != graph.value(node.outputs[0]).dtype)
            return false;
    }
    return std::find(node.inputs.begin(), node.inputs.end(), no_value) == node.inputs.end();
}

bool is_element_wise(const Graph& graph, const Node& node) {
    return node.row == &program_row() || is_copy(graph, node) || is_instruction(graph, node);
}

// An op that may refuse its operands says so under its own name.
bool may_be_instruction(const Graph& graph, const Node& node) {
    if (!is_instruction(graph, node)) return false;
    // Bytes that only move have a kernel that knows transpositions.
    if (is_copy(graph, node))
        return graph.value(node.inputs[0]).dtype != graph.value(node.outputs[0]).dtype;
    const kernels::MapRow& row = kernels::map_rows()[node.row->map_row];
    const bool divides =
        row.check == kernels::MapCheck::divisor && compute_class(node.compute) == DType::i64;
    return !divides && row.check != kernels::MapCheck::probability;
}

Code code_of(const Graph& graph, const Node& node) {
    Code made;
    if (node.program) {
        made.inputs.assign(node.inputs.begin(), node.inputs.end());
        made.attrs = node.attrs;
        made.program = node.program;
        return made;
    }
    std::map<uint32_t, uint8_t> registers;
    for (uint32_t v : node.inputs)
        if (registers.emplace(v, static_cast<uint8_t>(registers.size())).second)
            made.inputs.push_back(v);
    for (uint32_t v : node.outputs) registers.emplace(v, static_cast<uint8_t>(registers.size()));
    kernels::Program program;
    program.n_in = static_cast<uint8_t>(made.inputs.size());
    program.n_out = static_cast<uint8_t>(node.outputs.size());
    program.n_registers = static_cast<uint8_t>(registers.size());
    program.code.push_back(instruction_of(graph, node, registers, made.attrs));
    made.program = std::make_shared<const kernels::Program>(std::move(program));
    return made;
}

kernels::Instruction instruction_of(const Graph& graph, const Node& node,
                                    const std::map<uint32_t, uint8_t>& registers,
                                    std::vector<Attr>& attrs) {
    kernels::Instruction code;
    const bool copies = is_copy(graph, node);
    code.primitive = static_cast<uint16_t>(copies ? kernels::find_map("cast") : node.row->map_row);
    code.compute = compute_class(graph, node);
    code.first_param = static_cast<uint16_t>(attrs.size());
    for (uint32_t v : node.inputs) code.in.push_back(registers.at(v));
    for (uint32_t v : node.outputs) code.out.push_back(registers.at(v));
    code.result = graph.value(node.outputs[0]).dtype;
    for (size_t k = 0; !copies && k < param_count(*node.row); ++k) attrs.push_back(node.attrs[k]);
    return code;
}

static bool broadcasts(const Dims& from, const Dims& to) {
    if (from.size() > to.size()) return false;
    for (size_t d = 1; d <= from.size(); ++d)
        if (from[from.size() - d] != 1 && from[from.size() - d] != to[to.size() - d]) return false;
    return true;
}

void check_program(const Graph& graph, const Node& node) {
    const kernels::Program& p = *node.program;
    const Parts parts = parts_of(node);
    const Part& part = parts.program();
    const auto wrong = [&](const auto&... parts) {
        fail(Status::invalid_argument, node.row->name, ": ", parts...);
    };
    const std::span results = part.outputs;
    const bool epilogue{parts.after};
    const size_t read = part.inputs.size() + epilogue;
    if (p.n_in != read || p.n_out != results.size() || p.n_out == 0)
        wrong("a program of ", int{p.n_in}, " inputs and ", int{p.n_out}, " outputs for ", read,
              " and ", results.size(), " values");
    if (parts.before && results.size() != 1)
        wrong("a program makes one operand, not ", results.size());
    const size_t more = epilogue;  // of each for joining parts of the result first
    if (p.n_in + p.n_out + more > kernels::max_map_blocks ||
        p.n_registers + 2 * more > kernels::max_map_registers ||
        p.code.size() + more > kernels::max_map_instructions)
        wrong("the program is too long");
    std::vector<bool> written(p.n_registers);
    std::fill_n(written.begin(), std::min<size_t>(p.n_in, written.size()), true);
    size_t params = 0;
    for (const kernels::Instruction& i : p.code) {
        const kernels::MapRow& row = kernels::map_rows()[i.primitive];
        if (i.in.size() != row.inputs.size() || i.out.size() != row.outputs.size())
            wrong(row.name, " takes ", row.inputs.size(), " operands and gives ",
                  row.outputs.size());
        for (uint8_t r : i.in)
            if (r >= p.n_registers || !written[r])
                wrong(row.name, " reads r", int{r}, ", which is never written");
        for (uint8_t r : i.out) {
            if (r >= p.n_registers || r < p.n_in)
                wrong(row.name, " writes r", int{r}, ", which is no register of its own");
            if (written[r]) wrong(row.name, " writes r", int{r}, " a second time");
            written[r] = true;
        }
        if (!schema::takes(row.types, i.compute))
            wrong(row.name, " is not computed in ", name_of(i.compute));
        const int output = i.out[0] - (p.n_registers - p.n_out);
        if (output >= 0 && graph.value(results[output]).dtype != i.result)
            wrong(row.name, " gives ", name_of(i.result), ", but its value is ",
                  name_of(graph.value(results[output]).dtype));
        if (i.first_param != params) wrong(row.name, " has parameters of another instruction");
        params += row.params.size();
    }
    if (params != part.attrs.size()) wrong(part.attrs.size(), " parameters for ", params);
    for (size_t r = p.n_registers - p.n_out; r < p.n_registers; ++r)
        if (!written[r]) wrong("output r", r, " is never written");
    const Dims& sizes = graph.value(epilogue ? node.outputs[0] : results[0]).sizes;
    for (uint32_t v : results)
        if (graph.value(v).sizes != sizes) wrong("outputs of several shapes");
    for (uint32_t v : part.inputs)
        if (v == no_value || !broadcasts(graph.value(v).sizes, sizes))
            wrong("an input ",
                  v == no_value ? "is absent" : "of shape " + text_of_dims(graph.value(v).sizes),
                  " for outputs of shape ", text_of_dims(sizes));
}

double flops_of(const Node& node) {
    return node.row == &program_row() ? flops_of(*node.program) : node.row->flops;
}

double flops_of(const kernels::Program& program) {
    double flops = 0;
    for (const kernels::Instruction& i : program.code)
        flops += kernels::map_rows()[i.primitive].flops;
    return flops;
}

}  // namespace nntile::graph
