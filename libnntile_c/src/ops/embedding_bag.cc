// SPDX-License-Identifier: BSD-3-Clause
// Bags of rows of a table. Kernel dims: offsets, bags, indices, e, v; all whole but e. Indices and
// offsets are data, so a wrong one is an error of the task.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

enum : int8_t { offsets_label, bags_label, indices_label, e_label, v_label };

// What is visited is a row for each index, and nothing of the other dims.
double flops_of(std::span<const int64_t> extents) {
    double others = 1;
    for (int8_t l : {offsets_label, bags_label, v_label})
        others *= static_cast<double>(std::max<int64_t>(extents[l], 1));
    return 1 / others;
}

// weight, indices, offsets, weights?
void bag_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &w = call.inputs[0].sizes, &indices = call.inputs[1].sizes,
               &offsets = call.inputs[2].sizes;
    check(w.size() == 2, Status::invalid_argument, call.row.name, ": weight must be 2-D, got ",
          text_of_dims(w));
    check(indices.size() == 1 && offsets.size() == 1, Status::invalid_argument, call.row.name,
          ": indices ", text_of_dims(indices), " and offsets ", text_of_dims(offsets),
          " must be 1-D");
    check(!call.has(3) || call.inputs[3].sizes == indices, Status::invalid_argument, call.row.name,
          ": weights must have shape ", text_of_dims(indices), ", got ",
          text_of_dims(call.has(3) ? call.inputs[3].sizes : indices));
    const int64_t last = call.attr("include_last_offset").i ? 1 : 0;
    check(offsets[0] >= last, Status::invalid_argument, call.row.name,
          ": include_last_offset needs an offset");
    const Dims y{offsets[0] - last, w[1]};
    outputs.push_back({call.compute, y, false});
    if (call.row.outputs.size() > 1) outputs.push_back({DType::i64, y, false});
}
void bag_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& w = call.inputs[0].sizes;
    const int64_t extents[] = {call.inputs[2].sizes[0], outputs[0].sizes[0],
                               call.inputs[1].sizes[0], w[1], w[0]};
    for (int64_t extent : extents) r.labels.push_back({extent, LabelKind::whole});
    r.labels[e_label].kind = LabelKind::parallel;
    // Rows are summed as vectors; for a maximum each element is asked.
    const bool vectors = call.row.outputs.size() == 1 && call.attr("mode").i != 2;
    r.flops = flops_of(extents) / (vectors ? 4 : 1);
    r.operands = {Labels{v_label, e_label}, Labels{indices_label}, Labels{offsets_label},
                  call.has(3) ? Labels{indices_label} : Labels{}};
    for (size_t k = 0; k < outputs.size(); ++k) r.operands.push_back(Labels{bags_label, e_label});
}
void bag_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("mode").i), fixed_param(call.attr("padding_idx").i)};
}

void bag_of_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& offsets = call.inputs[0].sizes;
    check(offsets.size() == 1 && offsets[0] > 0, Status::invalid_argument, call.row.name,
          ": offsets must be 1-D, with an element, got ", text_of_dims(offsets));
    outputs.push_back({call.inputs[0].dtype, {call.attr("num_indices").i}, false});
    outputs.push_back({call.inputs[0].dtype, offsets, false});
}
void bag_of_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const int64_t extents[] = {call.inputs[0].sizes[0], 1, outputs[0].sizes[0], 1, 1};
    for (int64_t extent : extents) r.labels.push_back({extent, LabelKind::whole});
    r.flops = flops_of(extents);
    r.operands = {Labels{offsets_label}, Labels{indices_label}, Labels{offsets_label}};
}
void no_params(const Call&, bool, std::vector<ParamSpec>&) {}

OpRow row_of(const char* name, const char* doc, std::vector<ArgRow> outputs) {
    return {.name = name,
            .doc = doc,
            .rule = Rule::whole,
            .types = Types::floating,
            .inputs = {{"weight"}, {"indices", "index"}, {"offsets", "index"}, {"weights?"}},
            .outputs = std::move(outputs),
            .attrs = {{"mode", AttrKind::text, "sum", "sum|mean|max"},
                      {"include_last_offset", AttrKind::integer, "0"},
                      {"padding_idx", AttrKind::integer, "-1"}},
            .shape = bag_shape,
            .relate = bag_relate,
            .kernel = name,
            .kernel_dims = 5,
            .params = bag_params};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(embedding_bag) {
    return {
        row_of("embedding_bag",
               "y[b, e] = sum, mean or max of weights[i] * weight[indices[i], e] for offsets[b] <= "
               "i < offsets[b + 1], "
               "without those where indices[i] = padding_idx; 0 of none",
               {{"y"}}),
        row_of("embedding_bag_max", "embedding_bag, and which row each element is from",
               {{"y"}, {"rows", "i64"}}),
        {.name = "bag_of",
         .doc = "y[i] = b where offsets[b] <= i < offsets[b + 1], and how many these are; the last "
                "bag "
                "ends with the indices",
         .rule = Rule::whole,
         .inputs = {{"offsets", "index"}},
         .outputs = {{"y", "any"}, {"sizes", "any"}},
         .attrs = {{"num_indices", AttrKind::integer, "0"}},
         .shape = bag_of_shape,
         .relate = bag_of_relate,
         .kernel = "bag_of",
         .kernel_dims = 5,
         .params = no_params},
    };
}
