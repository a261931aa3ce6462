// SPDX-License-Identifier: BSD-3-Clause
// Negative log-likelihood, classes last: x (rows.., c), target (rows..), weight (c). The sum of
// weights is an op of its own, since it reads only labels: so the gradient of a row tile need not
// wait for the loss of all others.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

const AttrRow reduction{"reduction", AttrKind::text, "mean", "none|mean|sum"};
const AttrRow ignore_index{"ignore_index", AttrKind::integer, "-100"};
const AttrRow num_classes{"num_classes", AttrKind::integer, "0"};

void check_weight(const Call& call, size_t input, int64_t classes) {
    if (!call.has(input)) return;
    const Dims& w = call.inputs[input].sizes;
    check(w.size() == 1 && w[0] == classes, Status::invalid_argument, call.row.name,
          ": weight must have shape (", classes, ",), got ", text_of_dims(w));
}

void check_target(const Call& call, const Dims& x, const Dims& target) {
    check(!x.empty() && x.size() == target.size() + 1 &&
              std::equal(target.begin(), target.end(), x.begin()),
          Status::invalid_argument, call.row.name, ": x ", text_of_dims(x), " and target ",
          text_of_dims(target), " do not match (classes are the last dim of x)");
}

// In the words of PyTorch's kernel: up to 2.11 its Meta function says nothing before.
void check_labels(const Call& call, size_t input) {
    static constexpr const char* names[dtype_count] = {
        "None", "Float", "Double", "Half", "BFloat16", "Long",
        "Int",  "Short", "Char",   "Byte", "Bool",
    };
    const DType dtype = call.inputs[input].dtype;
    check(dtype == DType::i64 || dtype == DType::u8, Status::invalid_argument,
          "expected scalar type Long but found ", names[static_cast<int>(dtype)]);
}

void check_total(const Call& call, size_t input) {
    check(call.inputs[input].sizes.empty(), Status::invalid_argument, call.row.name,
          ": total must have shape (), got ", text_of_dims(call.inputs[input].sizes));
}

// target rows.. as labels of `kind`, then c whole.
Labels row_labels(std::span<const int64_t> rows, int64_t classes, LabelKind kind, Relation& r) {
    for (int64_t n : rows) r.labels.push_back({n, kind});
    r.labels.push_back({classes, LabelKind::whole});
    return iota_labels(rows.size());
}
Labels with_class(Labels rows) {
    rows.push_back(static_cast<int8_t>(rows.size()));
    return rows;
}
Labels weight_labels(const Call& call, size_t input, size_t rows) {
    return call.has(input) ? Labels{static_cast<int8_t>(rows)} : Labels{};
}

// ---- sum of weights: target, weight? -> total
void total_shape(const Call& call, std::vector<Type>& outputs) {
    check_weight(call, 1, call.attr("num_classes").i);
    outputs.push_back({call.compute, {}, false});
}
void total_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Labels rows =
        row_labels(call.inputs[0].sizes, call.attr("num_classes").i, LabelKind::reduce, r);
    r.operands = {rows, weight_labels(call, 1, rows.size()), Labels{}};
}
void total_params(const Call& call, bool accumulate, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("ignore_index").i), fixed_param(accumulate)};
}

// ---- loss: x, target, weight?, total -> y
void value_shape(const Call& call, std::vector<Type>& outputs) {
    check_labels(call, 1);
    check_target(call, call.inputs[0].sizes, call.inputs[1].sizes);
    check_weight(call, 2, call.inputs[0].sizes.back());
    if (!call.row.compose) check_total(call, 3);
    const bool none = call.attr("reduction").i == 0;
    outputs.push_back({call.compute, none ? call.inputs[1].sizes : Dims{}, false});
}
void value_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const bool none = call.attr("reduction").i == 0;
    const Labels rows = row_labels(call.inputs[1].sizes, call.inputs[0].sizes.back(),
                                   none ? LabelKind::parallel : LabelKind::reduce, r);
    r.operands = {with_class(rows), rows, weight_labels(call, 2, rows.size()), Labels{},
                  outputs[0].sizes.empty() ? Labels{} : rows};
}
void value_params(const Call& call, bool accumulate, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("reduction").i), fixed_param(call.attr("ignore_index").i),
           fixed_param(accumulate)};
}

// ---- gradient: dy, target, weight?, total -> dx
void grad_shape(const Call& call, std::vector<Type>& outputs) {
    const int64_t classes = call.attr("num_classes").i;
    check_labels(call, 1);
    check_weight(call, 2, classes);
    check_total(call, 3);
    const Dims &dy = call.inputs[0].sizes, &target = call.inputs[1].sizes;
    check(dy.empty() || dy == target, Status::invalid_argument, call.row.name,
          ": dy must have shape () or ", text_of_dims(target), ", got ", text_of_dims(dy));
    Dims dx = call.inputs[1].sizes;
    dx.push_back(classes);
    outputs.push_back({call.compute, dx, false});
}
void grad_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Labels rows =
        row_labels(call.inputs[1].sizes, outputs[0].sizes.back(), LabelKind::parallel, r);
    r.operands = {call.inputs[0].sizes.empty() ? Labels{} : rows, rows,
                  weight_labels(call, 2, rows.size()), Labels{}, with_class(rows)};
}
void grad_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("reduction").i), fixed_param(call.attr("ignore_index").i)};
}

// ---- compositions under PyTorch's signatures
void loss_shape(const Call& call, std::vector<Type>& outputs) {
    value_shape(call, outputs);
    outputs.push_back({call.compute, {}, false});
}
std::vector<uint32_t> loss(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const int64_t classes = call.inputs[0].sizes.back();
    const Attr ignore = call.attr("ignore_index");
    const uint32_t total = graph.op("nll_total_weight", std::vector<uint32_t>{in[1], in[2]},
                                    {integer(classes), ignore}, call.compute)[0];
    const uint32_t y = graph.op("nll_loss_value", std::vector<uint32_t>{in[0], in[1], in[2], total},
                                {call.attr("reduction"), ignore}, call.compute)[0];
    return {y, total};
}
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    check_labels(call, 2);
    check_target(call, call.inputs[1].sizes, call.inputs[2].sizes);
    outputs.push_back({call.compute, call.inputs[1].sizes, false});
}
std::vector<uint32_t> backward(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    return graph.op(
        "nll_loss_grad", std::vector<uint32_t>{in[0], in[2], in[3], in[4]},
        {integer(call.inputs[1].sizes.back()), call.attr("reduction"), call.attr("ignore_index")},
        call.compute);
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(loss) {
    return {
        {.name = "nll_total_weight",
         .doc = "total = sum of weight[target] where target != ignore_index",
         .rule = Rule::reduce,
         .types = Types::floating,
         .inputs = {{"target", "any"}, {"weight?"}},
         .outputs = {{"total"}},
         .attrs = {num_classes, ignore_index},
         .shape = total_shape,
         .relate = total_relate,
         .kernel = "nll_total_weight",
         .params = total_params,
         .combine = "add",
         .part_of = "nll_loss"},
        {.name = "nll_loss_value",
         .doc = "y = -sum of weight[target] * x[target], / total for mean",
         .rule = Rule::reduce,
         .types = Types::floating,
         .inputs = {{"x"}, {"target", "any"}, {"weight?"}, {"total"}},
         .outputs = {{"y"}},
         .attrs = {reduction, ignore_index},
         .shape = value_shape,
         .relate = value_relate,
         .kernel = "nll_loss",
         .params = value_params,
         .combine = "add",
         .part_of = "nll_loss"},
        {.name = "nll_loss_grad",
         .doc = "dx[target] = -dy * weight[target], / total for mean; else 0",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"target", "any"}, {"weight?"}, {"total"}},
         .outputs = {{"dx"}},
         .attrs = {num_classes, reduction, ignore_index},
         .shape = grad_shape,
         .relate = grad_relate,
         .kernel = "nll_loss_backward",
         .params = grad_params},
        {.name = "nll_loss",
         .doc = "nll_loss_value with its nll_total_weight",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"x"}, {"target", "any"}, {"weight?"}},
         .outputs = {{"y"}, {"total_weight"}},
         .attrs = {reduction, ignore_index},
         .shape = loss_shape,
         .compose = loss},
        {.name = "nll_loss_backward",
         .doc = "nll_loss_grad under PyTorch's signature",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}, {"target", "any"}, {"weight?"}, {"total_weight"}},
         .outputs = {{"dx"}},
         .attrs = {reduction, ignore_index},
         .shape = backward_shape,
         .compose = backward},
    };
}
