// SPDX-License-Identifier: BSD-3-Clause
// Layer norm over the last `normalized_ndim` dims, and its gradients. Kernel dims: rows.., d (d whole).
#include "ops/common.hh"

namespace nntile::ops {
namespace {

const AttrRow normalized_ndim{"normalized_ndim", AttrKind::integer, "1"};

// Number of leading dims that are not normalized; the rows of kernels normalize one dim and have no attribute.
size_t row_count(const Call& call, const Dims& x) {
    const int64_t n = call.row.compose ? call.attr("normalized_ndim").i : 1;
    const int64_t rank = static_cast<int64_t>(x.size());
    check(n >= 1 && n <= rank, Status::invalid_argument, call.row.name, ": normalized_ndim is ", n,
          " for an input of shape ", text_of_dims(x));
    return rank - n;
}
void check_sizes(const Call& call, size_t input, const Dims& want) {
    if (!call.has(input)) return;
    std::string_view name = call.row.inputs[input].name;
    if (name.back() == '?') name.remove_suffix(1);
    check(call.inputs[input].sizes == want, Status::invalid_argument, call.row.name, ": ", name,
          " must have shape ", text_of_dims(want), ", got ", text_of_dims(call.inputs[input].sizes));
}
Dims statistics(const Dims& x, size_t rows) {
    Dims s(x.size(), 1);
    std::copy(x.begin(), x.begin() + rows, s.begin());
    return s;
}

void norm_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = call.inputs[0].sizes;
    const size_t rows = row_count(call, x);
    const Dims affine(x.begin() + rows, x.end());
    check_sizes(call, 1, affine);
    check_sizes(call, 2, affine);
    const Dims s = statistics(x, rows);
    outputs = {{call.compute, x, false}, {call.compute, s, false}, {call.compute, s, false}};
}

// rows.. and d of x; the row kernels know one d.
struct NormLabels {
    Labels x, statistics, affine;
};
NormLabels norm_labels(const Dims& x, LabelKind rows, Relation& r) {
    const size_t n = x.size() - 1;
    for (size_t d = 0; d < n; ++d) r.labels.push_back({x[d], rows});
    r.labels.push_back({x[n], LabelKind::whole});
    Labels s = iota_labels(n);
    s.push_back(-1);
    return {iota_labels(n + 1), s, Labels{static_cast<int8_t>(n)}};
}
void norm_relate(const Call& call, std::span<const Type>, Relation& r) {
    const NormLabels l = norm_labels(call.inputs[0].sizes, LabelKind::parallel, r);
    r.operands = {l.x, call.has(1) ? l.affine : Labels{}, call.has(2) ? l.affine : Labels{},
                  l.x, l.statistics, l.statistics};
}

// dy, x, mean, rstd, weight?: what all gradients take. Gives the shape of weight and bias.
Dims check_gradient(const Call& call) {
    const Dims& x = call.inputs[1].sizes;
    const size_t rows = row_count(call, x);
    const Dims affine(x.begin() + rows, x.end());
    check_sizes(call, 0, x);
    check_sizes(call, 2, statistics(x, rows));
    check_sizes(call, 3, statistics(x, rows));
    check_sizes(call, 4, affine);
    return affine;
}

// dy, x, mean, rstd, weight? -> dx
void input_shape(const Call& call, std::vector<Type>& outputs) {
    check_gradient(call);
    outputs.push_back({call.compute, call.inputs[1].sizes, false});
}
void input_relate(const Call& call, std::span<const Type>, Relation& r) {
    const NormLabels l = norm_labels(call.inputs[1].sizes, LabelKind::parallel, r);
    r.operands = {l.x, l.x, l.statistics, l.statistics, call.has(4) ? l.affine : Labels{}, l.x};
}
void no_params(const Call&, bool, std::vector<ParamSpec>&) {}

// dy, x, mean, rstd -> dw, db
void affine_shape(const Call& call, std::vector<Type>& outputs) {
    const Type affine{call.compute, check_gradient(call), false};
    outputs = {affine, affine};
}
void affine_relate(const Call& call, std::span<const Type>, Relation& r) {
    const NormLabels l = norm_labels(call.inputs[1].sizes, LabelKind::reduce, r);
    r.operands = {l.x, l.x, l.statistics, l.statistics, l.affine, l.affine};
}
void affine_params(const Call&, bool accumulate, std::vector<ParamSpec>& out) {
    out = {fixed_param(accumulate)};
}

// Several normalized dims are one: a dense copy (elided if x is dense already) seen as rows.., d.
uint32_t flatten(Builder& graph, uint32_t value, size_t rows, size_t rank) {
    if (value == no_value || rank == rows + 1) return value;
    const Type t = graph.type_of(value);
    const uint32_t dense = graph.op("copy", std::vector<uint32_t>{value}, {}, t.dtype)[0];
    const size_t keep = t.sizes.size() - (rank - rows);
    Dims sizes(t.sizes.begin(), t.sizes.begin() + keep);
    sizes.push_back(product(std::span(t.sizes.begin() + keep, t.sizes.end())));
    return graph.view(dense, Layout::dense(sizes));
}
uint32_t reshaped(Builder& graph, uint32_t value, const Dims& sizes) {
    return graph.type_of(value).sizes == sizes ? value : graph.view(value, Layout::dense(sizes));
}

std::vector<uint32_t> norm(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims& x = call.inputs[0].sizes;
    const size_t rows = row_count(call, x), rank = x.size();
    std::vector<uint32_t> flat;
    for (uint32_t v : in) flat.push_back(flatten(graph, v, rows, rank));
    auto out = graph.op("layer_norm_rows", flat, {call.attr("eps")}, call.compute);
    const Dims s = statistics(x, rows);
    return {reshaped(graph, out[0], x), reshaped(graph, out[1], s), reshaped(graph, out[2], s)};
}

void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Type affine{call.compute, check_gradient(call), false};
    outputs = {{call.compute, call.inputs[1].sizes, false}, affine, affine};
}
std::vector<uint32_t> backward(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims& x = call.inputs[1].sizes;
    const size_t rows = row_count(call, x), rank = x.size();
    std::vector<uint32_t> flat;
    for (uint32_t v : in) flat.push_back(flatten(graph, v, rows, rank));
    const uint32_t dx = graph.op("layer_norm_input_grad", flat, {}, call.compute)[0];
    flat.pop_back();
    auto affine = graph.op("layer_norm_affine_grad", flat, {}, call.compute);
    const Dims a(x.begin() + rows, x.end());
    return {reshaped(graph, dx, x), reshaped(graph, affine[0], a), reshaped(graph, affine[1], a)};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(norm) {
    const AttrRow eps{"eps", AttrKind::real, "1e-5"};
    const std::vector<ArgRow> x{{"x"}, {"weight?"}, {"bias?"}}, y{{"y"}, {"mean"}, {"rstd"}};
    const std::vector<ArgRow> dy{{"dy"}, {"x"}, {"mean"}, {"rstd"}};
    std::vector<ArgRow> dy_w = dy;
    dy_w.push_back({"weight?"});
    return {
        {.name = "layer_norm_rows", .doc = "y = (x - mean) * rstd * weight + bias over the last dim",
         .rule = Rule::whole, .types = Types::floating, .inputs = x, .outputs = y, .attrs = {eps},
         .shape = norm_shape, .relate = norm_relate, .kernel = "layer_norm", .flops = 8},
        {.name = "layer_norm_input_grad", .doc = "dx of layer_norm_rows", .rule = Rule::whole,
         .types = Types::floating, .inputs = dy_w, .outputs = {{"dx"}}, .shape = input_shape,
         .relate = input_relate, .kernel = "layer_norm_backward_input", .params = no_params, .flops = 10},
        {.name = "layer_norm_affine_grad", .doc = "dw = sum of dy * (x - mean) * rstd, db = sum of dy over rows",
         .rule = Rule::reduce, .types = Types::floating, .inputs = dy, .outputs = {{"dw"}, {"db"}},
         .shape = affine_shape, .relate = affine_relate, .kernel = "layer_norm_backward_affine",
         .params = affine_params, .combine = "add", .flops = 5},
        {.name = "layer_norm", .doc = "layer_norm_rows over the last normalized_ndim dims",
         .rule = Rule::compose, .types = Types::floating, .inputs = x, .outputs = y,
         .attrs = {normalized_ndim, eps}, .shape = norm_shape, .compose = norm},
        {.name = "layer_norm_backward", .doc = "dx, dw and db of layer_norm", .rule = Rule::compose,
         .types = Types::floating, .inputs = dy_w, .outputs = {{"dx"}, {"dw"}, {"db"}},
         .attrs = {normalized_ndim}, .shape = backward_shape, .compose = backward},
    };
}
