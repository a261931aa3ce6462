// SPDX-License-Identifier: BSD-3-Clause
// Rows of a table by index, and the gradient of the table. Kernel dims: indices.., e, v (v whole).
#include "ops/common.hh"

namespace nntile::ops {
namespace {

void embedding_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& w = call.inputs[0].sizes;
    check(w.size() == 2, Status::invalid_argument, call.row.name, ": weight must be 2-D, got ",
          text_of_dims(w));
    Dims y = call.inputs[1].sizes;
    y.push_back(w[1]);
    outputs.push_back({call.compute, y, false});
}
void embedding_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const size_t n = call.inputs[1].sizes.size();
    parallel_labels(outputs[0].sizes, r);
    r.labels.push_back({call.inputs[0].sizes[0], LabelKind::whole});
    r.operands = {Labels{static_cast<int8_t>(n + 1), static_cast<int8_t>(n)}, iota_labels(n),
                  iota_labels(n + 1)};
}

void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &dy = call.inputs[0].sizes, &indices = call.inputs[1].sizes;
    check(dy.size() == indices.size() + 1 && std::equal(indices.begin(), indices.end(), dy.begin()),
          Status::invalid_argument, call.row.name, ": dy ", text_of_dims(dy), " and indices ",
          text_of_dims(indices), " do not match");
    check(!call.attr("scale_grad_by_freq").i, Status::unsupported, call.row.name,
          ": scale_grad_by_freq=True has no kernel");
    outputs.push_back({call.compute, {call.attr("num_weights").i, dy.back()}, false});
}
void backward_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const size_t n = call.inputs[1].sizes.size();
    for (int64_t s : call.inputs[1].sizes) r.labels.push_back({s, LabelKind::reduce});
    r.labels.push_back({outputs[0].sizes[1], LabelKind::parallel});
    r.labels.push_back({outputs[0].sizes[0], LabelKind::whole});
    r.operands = {iota_labels(n + 1), iota_labels(n),
                  Labels{static_cast<int8_t>(n + 1), static_cast<int8_t>(n)}};
}
void backward_params(const Call& call, bool accumulate, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("padding_idx").i), fixed_param(accumulate)};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(embedding) {
    return {
        {.name = "embedding",
         .doc = "y[i.., e] = weight[indices[i..], e]",
         .rule = Rule::whole,
         .inputs = {{"weight"}, {"indices", "index"}},
         .outputs = {{"y"}},
         .shape = embedding_shape,
         .relate = embedding_relate,
         .kernel = "embedding",
         .kernel_dims = 2,
         .sparse = true},
        {.name = "embedding_backward",
         .doc = "dw[v, e] = sum of dy[i.., e] where indices[i..] = v != padding_idx",
         .rule = Rule::reduce,
         .types = Types::floating,
         .inputs = {{"dy"}, {"indices", "index"}},
         .outputs = {{"dw"}},
         .attrs = {{"num_weights", AttrKind::integer, "0"},
                   {"padding_idx", AttrKind::integer, "-1"},
                   {"scale_grad_by_freq", AttrKind::integer, "0"}},
         .shape = backward_shape,
         .relate = backward_relate,
         .kernel = "embedding_backward",
         .kernel_dims = 2,
         .params = backward_params,
         .combine = "add",
         .sparse = true},
    };
}
