// SPDX-License-Identifier: BSD-3-Clause
// Softmax and log-softmax over one dim, and their gradients. Kernel dims: rows.., d.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

void softmax_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = call.inputs[0].sizes;
    wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(x.size()));
    for (const Type& t : call.inputs)
        check(t.sizes == x, Status::invalid_argument, call.row.name, ": inputs have shapes ",
              text_of_dims(x), " and ", text_of_dims(t.sizes));
    outputs.push_back({call.compute, x, false});
}

void softmax_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const size_t n = x.size();
    const size_t dim = n ? wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(n)) : 0;
    Labels l(n);
    for (size_t d = 0; d < n; ++d)
        if (d != dim) {
            l[d] = static_cast<int8_t>(r.labels.size());
            r.labels.push_back({x[d], LabelKind::parallel});
        }
    if (n) l[dim] = static_cast<int8_t>(n - 1);
    r.labels.push_back({n ? x[dim] : 1, LabelKind::whole});
    r.operands.assign(call.inputs.size() + 1, l);
}

OpRow row_of(const char* name, const char* doc, std::vector<ArgRow> inputs) {
    const std::string y = inputs.size() == 1 ? "y" : "dx";
    return {.name = name,
            .doc = doc,
            .rule = Rule::whole,
            .types = Types::floating,
            .inputs = std::move(inputs),
            .outputs = {{y}},
            .attrs = {{"dim", AttrKind::integer, "-1"}},
            .shape = softmax_shape,
            .relate = softmax_relate,
            .kernel = name,
            .flops = 16,
            .overwrites = true};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(softmax) {
    return {row_of("softmax", "y = exp(x) / sum(exp(x)) over dim", {{"x"}}),
            row_of("log_softmax", "y = x - log(sum(exp(x))) over dim", {{"x"}}),
            row_of("softmax_backward", "dx = (dy - sum(dy * y)) * y over dim", {{"dy"}, {"y"}}),
            row_of("log_softmax_backward", "dx = dy - exp(y) * sum(dy) over dim", {{"dy"}, {"y"}})};
}
