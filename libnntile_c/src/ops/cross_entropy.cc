// SPDX-License-Identifier: BSD-3-Clause
// Cross entropy of logits and classes: x has the classes as its second dim, or as its only one,
// target none. Kernel dims: rows.., classes (whole). No probabilities are stored: the gradient
// makes them anew from one number a row.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

const AttrRow reduction{"reduction", AttrKind::text, "mean", "none|mean|sum"};
const AttrRow ignore_index{"ignore_index", AttrKind::integer, "-100"};
const AttrRow smoothing{"label_smoothing", AttrKind::real, "0"};

enum Reduction : int64_t { none, mean, sum };

size_t class_dim(const Dims& x) { return x.size() > 1 ? 1 : 0; }
Dims rows_of(const Dims& x) {
    Dims rows = x;
    rows.erase(class_dim(x));
    return rows;
}

// Operands x, target and weight? from this one on.
const Dims& check_classes(const Call& call, size_t first) {
    const Dims &x = call.inputs[first].sizes, &target = call.inputs[first + 1].sizes;
    check(!x.empty() && rows_of(x) == target, Status::invalid_argument, call.row.name, ": x ",
          text_of_dims(x), " and target ", text_of_dims(target),
          " do not match (target lacks the dim of classes)");
    if (call.has(first + 2)) {
        const Type& w = call.inputs[first + 2];
        check(w.sizes == Dims{x[class_dim(x)]}, Status::invalid_argument, call.row.name,
              ": weight must have shape (", x[class_dim(x)], ",), got ", text_of_dims(w.sizes));
        check(is_floating(w.dtype), Status::type_error, call.row.name,
              ": weight must be floating, got ", name_of(w.dtype));
    }
    return x;
}
void check_rows(const Call& call, size_t input, const Dims& want) {
    std::string_view name = call.row.inputs[input].name;
    if (name.back() == '?') name.remove_suffix(1);
    check(call.inputs[input].sizes == want, Status::invalid_argument, call.row.name, ": ", name,
          " must have shape ", text_of_dims(want), ", got ",
          text_of_dims(call.inputs[input].sizes));
}

// Losses of rows are summed before they are rounded.
DType wide(DType dtype) { return is_short_float(dtype) ? DType::f32 : dtype; }

// Labels of the rows, then of the classes.
struct ClassLabels {
    Labels x, rows, weight;
};
ClassLabels labels_of(const Dims& x, Relation& r) {
    const Dims rows = rows_of(x);
    parallel_labels(rows, r);
    r.labels.push_back({x[class_dim(x)], LabelKind::whole});
    const auto classes = static_cast<int8_t>(rows.size());
    Labels all = iota_labels(rows.size());
    const Labels of_rows = all;
    all.insert(class_dim(x), classes);
    return {all, of_rows, Labels{classes}};
}
Labels if_given(const Call& call, size_t input, const Labels& labels) {
    return call.has(input) ? labels : Labels{};
}

// ---- x, target, weight?, total_weight? -> loss of each row, logsumexp
void rows_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims rows = rows_of(check_classes(call, 0));
    if (call.has(3)) check_rows(call, 3, {});
    outputs = {{wide(call.compute), rows, false}, {DType::f64, rows, false}};
}
void rows_relate(const Call& call, std::span<const Type>, Relation& r) {
    const ClassLabels l = labels_of(call.inputs[0].sizes, r);
    r.operands = {l.x, l.rows, if_given(call, 2, l.weight), Labels{}, l.rows, l.rows};
}
void params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("ignore_index").i), attr_param(call.row, "label_smoothing")};
}

// ---- dy, x, target, weight?, logsumexp, total_weight? -> dx
void grad_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = check_classes(call, 1);
    const Dims rows = rows_of(x);
    if (!call.inputs[0].sizes.empty()) check_rows(call, 0, rows);
    check_rows(call, 4, rows);
    if (call.has(5)) check_rows(call, 5, {});
    outputs.push_back({call.compute, x, false});
}
void grad_relate(const Call& call, std::span<const Type>, Relation& r) {
    const ClassLabels l = labels_of(call.inputs[1].sizes, r);
    r.operands = {call.inputs[0].sizes.empty() ? Labels{} : l.rows,
                  l.x,
                  l.rows,
                  if_given(call, 3, l.weight),
                  l.rows,
                  Labels{},
                  l.x};
}

// ---- under PyTorch's arguments
void loss_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims rows = rows_of(check_classes(call, 0));
    outputs = {{call.compute, call.attr("reduction").i == none ? rows : Dims{}, false},
               {DType::f64, rows, false},
               {wide(call.compute), {}, false}};
}
std::vector<uint32_t> loss(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const DType sums = wide(call.compute);
    const Dims& x = call.inputs[0].sizes;
    const uint32_t weight = call.has(2) ? graph.in_dtype(in[2], sums) : no_value;
    const uint32_t total = graph.op("nll_total_weight", std::vector<uint32_t>{in[1], weight},
                                    {integer(x[class_dim(x)]), call.attr("ignore_index")}, sums)[0];
    const int64_t kind = call.attr("reduction").i;
    const auto rows =
        graph.op("cross_entropy_rows",
                 std::vector<uint32_t>{in[0], in[1], in[2], kind == mean ? total : no_value},
                 {call.attr("ignore_index"), call.attr("label_smoothing")}, call.compute);
    uint32_t y = rows[0];
    if (kind != none)
        y = graph.op("sum", std::vector<uint32_t>{y}, default_attrs(*find_op("sum")), sums)[0];
    return {graph.in_dtype(y, call.compute), rows[1], total};
}
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    grad_shape(call, outputs);
    check_rows(call, 5, {});
}
std::vector<uint32_t> backward(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const uint32_t total = call.attr("reduction").i == mean ? in[5] : no_value;
    return graph.op("cross_entropy_grad",
                    std::vector<uint32_t>{in[0], in[1], in[2], in[3], in[4], total},
                    {call.attr("ignore_index"), call.attr("label_smoothing")}, call.compute);
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(cross_entropy) {
    const std::vector<ArgRow> x{{"x"}, {"target", "index"}, {"weight?", "any"}};
    std::vector<ArgRow> dy{{"dy"}}, x_total = x;
    dy.insert(dy.end(), x.begin(), x.end());
    dy.push_back({"logsumexp", "f64"});
    std::vector<ArgRow> dy_total = dy;
    dy.push_back({"total_weight?", "any"});
    dy_total.push_back({"total_weight", "any"});
    x_total.push_back({"total_weight?", "any"});
    return {
        {.name = "cross_entropy_rows",
         .doc = "loss = sum over classes of q * (logsumexp - x) * weight, / total_weight if given; "
                "q = 1 - label_smoothing for the target, and label_smoothing / classes for each; "
                "0 where target = ignore_index",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = x_total,
         .outputs = {{"loss", "any"}, {"logsumexp", "f64"}},
         .attrs = {ignore_index, smoothing},
         .shape = rows_shape,
         .relate = rows_relate,
         .kernel = "cross_entropy",
         .params = params,
         .flops = 16,
         .part_of = "cross_entropy"},
        {.name = "cross_entropy_grad",
         .doc = "dx of cross_entropy_rows",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = dy,
         .outputs = {{"dx"}},
         .attrs = {ignore_index, smoothing},
         .shape = grad_shape,
         .relate = grad_relate,
         .kernel = "cross_entropy_backward",
         .params = params,
         .flops = 16},
        {.name = "cross_entropy",
         .doc = "cross_entropy_rows with their mean or sum, and nll_total_weight",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = x,
         .outputs = {{"y"}, {"logsumexp", "f64"}, {"total_weight", "any"}},
         .attrs = {reduction, ignore_index, smoothing},
         .shape = loss_shape,
         .compose = loss},
        {.name = "cross_entropy_backward",
         .doc = "cross_entropy_grad under the arguments of cross_entropy",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = dy_total,
         .outputs = {{"dx"}},
         .attrs = {reduction, ignore_index, smoothing},
         .shape = backward_shape,
         .compose = backward},
    };
}
