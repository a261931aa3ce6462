// SPDX-License-Identifier: BSD-3-Clause
// Element-wise ops: one op row per row of kernels/map.def, made here, written nowhere.
#include "base/text.hh"
#include "ops/common.hh"

namespace nntile::ops {
namespace {

std::string arg_name(const char* name) { return *name == '*' || *name == '#' ? name + 1 : name; }
// Bool and index operands are loaded as they are; the map engine converts.
const char* arg_type(const char* name) { return *name == '*' || *name == '#' ? "any" : "T"; }

DType result_type(const kernels::MapRow& row, const char* output, DType compute) {
    if (row.types == Types::compare || *output == '*') return DType::boolean;
    return *output == '#' ? DType::i64 : compute;
}

// A row with no tensor input to take its shape from.
bool has_sizes(const kernels::MapRow& row) {
    return row.uses_index || row.inputs.empty() || std::string_view(row.name) == "fill";
}

void map_shape(const Call& call, std::vector<Type>& outputs) {
    const kernels::MapRow& row = kernels::map_rows()[call.row.map_row];
    const bool tensors = std::any_of(call.inputs.begin(), call.inputs.end(), [](const Type& t) {
        return t.dtype != DType::none && !t.scalar;
    });
    Dims sizes =
        !tensors && has_sizes(row) ? call.attr("sizes").ints : broadcast(call.row, call.inputs);
    for (const char* name : row.outputs)
        outputs.push_back({result_type(row, name, call.compute), sizes, false});
}

void map_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& sizes = outputs[0].sizes;
    parallel_labels(sizes, r);
    for (const Type& t : call.inputs) r.operands.push_back(broadcast_labels(t.sizes, sizes));
    for (size_t k = 0; k < outputs.size(); ++k) r.operands.push_back(iota_labels(sizes.size()));
}

void map_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    for (size_t k = 0; k < kernels::map_rows()[call.row.map_row].params.size(); ++k) {
        const bool word = call.row.attrs[k].kind == AttrKind::text;
        out.push_back(word ? fixed_param(call.attrs[k].i) : ParamSpec{static_cast<int>(k), {}});
    }
}

std::string initial_of(const kernels::MapParam& p) {
    if (p.choices) {
        std::string_view words = p.choices;
        for (int i = static_cast<int>(p.initial); i > 0; --i)
            words.remove_prefix(words.find('|') + 1);
        return std::string(words.substr(0, words.find('|')));
    }
    return p.kind == 'f' ? text_of_real(p.initial)
                         : std::to_string(static_cast<int64_t>(p.initial));
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(map) {
    std::vector<OpRow> rows;
    int number = 0;
    for (const kernels::MapRow& m : kernels::map_rows()) {
        OpRow row{.name = m.name,
                  .doc = m.doc,
                  .rule = Rule::map,
                  .types = m.types,
                  .shape = map_shape,
                  .relate = map_relate,
                  .map_row = number++,
                  .params = map_params,
                  .flops = static_cast<double>(m.flops)};
        for (const char* name : m.inputs) row.inputs.push_back({arg_name(name), arg_type(name)});
        for (const char* name : m.outputs)
            row.outputs.push_back({arg_name(name), name_of(result_type(m, name, DType::none))});
        for (ArgRow& arg : row.outputs)
            if (arg.type == "none") arg.type = "T";
        for (const kernels::MapParam& p : m.params)
            row.attrs.push_back({p.name,
                                 p.choices       ? AttrKind::text
                                 : p.kind == 'f' ? AttrKind::real
                                                 : AttrKind::seed,
                                 initial_of(p), p.choices ? p.choices : ""});
        if (has_sizes(m)) row.attrs.push_back({"sizes", AttrKind::integers, ""});
        rows.push_back(std::move(row));
    }
    return rows;
}
