// SPDX-License-Identifier: BSD-3-Clause
// Layer norm and RMS norm over the last `normalized_ndim` dims, and their gradients. RMS norm takes
// no mean off, and has no bias. Kernel dims: rows.., d (d whole).
#include "ops/common.hh"

namespace nntile::ops {
namespace {

const AttrRow normalized_ndim{"normalized_ndim", AttrKind::integer, "1"};

bool centred(const Call& call) { return call.row.name.starts_with("layer"); }

// Number of leading dims that are not normalized; the rows of kernels normalize one dim and have no
// attribute.
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
          " must have shape ", text_of_dims(want), ", got ",
          text_of_dims(call.inputs[input].sizes));
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
    for (size_t input = 1; input < call.inputs.size(); ++input) check_sizes(call, input, affine);
    const Dims s = statistics(x, rows);
    if (centred(call))
        outputs = {{call.compute, x, false}, {call.compute, s, false}, {call.compute, s, false}};
    else
        outputs = {{call.compute, x, false},
                   {is_short_float(call.compute) ? DType::f32 : call.compute, s, false}};
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
void norm_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const NormLabels l = norm_labels(call.inputs[0].sizes, LabelKind::parallel, r);
    r.operands = {l.x};
    for (size_t input = 1; input < call.inputs.size(); ++input)
        r.operands.push_back(call.has(input) ? l.affine : Labels{});
    r.operands.push_back(l.x);
    for (size_t k = 1; k < outputs.size(); ++k) r.operands.push_back(l.statistics);
}

// dy, x, mean (of layer norm), rstd, weight?: what all gradients take. Gives the shape of weight
// and bias.
size_t rstd_of(const Call& call) { return centred(call) ? 3 : 2; }
Dims check_gradient(const Call& call) {
    const Dims& x = call.inputs[1].sizes;
    const size_t rows = row_count(call, x);
    const Dims affine(x.begin() + rows, x.end());
    check_sizes(call, 0, x);
    for (size_t input = 2; input <= rstd_of(call); ++input)
        check_sizes(call, input, statistics(x, rows));
    check_sizes(call, rstd_of(call) + 1, affine);
    return affine;
}

void input_shape(const Call& call, std::vector<Type>& outputs) {
    check_gradient(call);
    outputs.push_back({call.compute, call.inputs[1].sizes, false});
}
void input_relate(const Call& call, std::span<const Type>, Relation& r) {
    const NormLabels l = norm_labels(call.inputs[1].sizes, LabelKind::parallel, r);
    r.operands = {l.x, l.x};
    for (size_t input = 2; input <= rstd_of(call); ++input) r.operands.push_back(l.statistics);
    r.operands.push_back(call.has(rstd_of(call) + 1) ? l.affine : Labels{});
    r.operands.push_back(l.x);
}
void no_params(const Call&, bool, std::vector<ParamSpec>&) {}

// Without weight: dw, and db of layer norm.
void affine_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.assign(call.row.outputs.size(), {call.compute, check_gradient(call), false});
}
void affine_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const NormLabels l = norm_labels(call.inputs[1].sizes, LabelKind::reduce, r);
    r.operands = {l.x, l.x};
    for (size_t input = 2; input <= rstd_of(call); ++input) r.operands.push_back(l.statistics);
    for (size_t k = 0; k < outputs.size(); ++k) r.operands.push_back(l.affine);
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

std::vector<uint32_t> norm_of(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims& x = call.inputs[0].sizes;
    const size_t rows = row_count(call, x), rank = x.size();
    std::vector<uint32_t> flat;
    for (uint32_t v : in) flat.push_back(flatten(graph, v, rows, rank));
    auto out = graph.op(call.row.name + "_rows", flat, {call.attr("eps")}, call.compute);
    const Dims s = statistics(x, rows);
    for (size_t k = 0; k < out.size(); ++k) out[k] = reshaped(graph, out[k], k == 0 ? x : s);
    return out;
}

void backward_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.assign(call.row.outputs.size(), {call.compute, check_gradient(call), false});
    outputs[0].sizes = call.inputs[1].sizes;
}
std::vector<uint32_t> backward(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims& x = call.inputs[1].sizes;
    const size_t rows = row_count(call, x), rank = x.size();
    std::vector<uint32_t> flat;
    for (uint32_t v : in) flat.push_back(flatten(graph, v, rows, rank));
    const std::string norm = centred(call) ? "layer_norm" : "rms_norm";
    std::vector<uint32_t> out{
        reshaped(graph, graph.op(norm + "_input_grad", flat, {}, call.compute)[0], x)};
    flat.pop_back();
    const Dims a(x.begin() + rows, x.end());
    for (uint32_t affine : graph.op(norm + "_affine_grad", flat, {}, call.compute))
        out.push_back(reshaped(graph, affine, a));
    return out;
}

// What differs between both norms: their operands.
struct Norm {
    std::string name, doc;
    std::vector<ArgRow> x, y, dy, gradients;  // gradients: dx and those of the affine part
};

std::vector<OpRow> rows_of(const Norm& norm) {
    const AttrRow eps{"eps", AttrKind::real, "1e-5"};
    std::vector<ArgRow> dy_w = norm.dy;
    dy_w.push_back({"weight?"});
    const std::vector<ArgRow> affine(norm.gradients.begin() + 1, norm.gradients.end());
    return {
        {.name = norm.name + "_rows",
         .doc = norm.doc + " over the last dim",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = norm.x,
         .outputs = norm.y,
         .attrs = {eps},
         .shape = norm_shape,
         .relate = norm_relate,
         .kernel = norm.name,
         .flops = 8},
        {.name = norm.name + "_input_grad",
         .doc = "dx of " + norm.name + "_rows",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = dy_w,
         .outputs = {{"dx"}},
         .shape = input_shape,
         .relate = input_relate,
         .kernel = norm.name + "_backward_input",
         .params = no_params,
         .flops = 10},
        {.name = norm.name + "_affine_grad",
         .doc = affine.size() > 1 ? "dw = sum of dy * (x - mean) * rstd, db = sum of dy over rows"
                                  : "dw = sum of dy * x * rstd over rows",
         .rule = Rule::reduce,
         .types = Types::floating,
         .inputs = norm.dy,
         .outputs = affine,
         .shape = affine_shape,
         .relate = affine_relate,
         .kernel = norm.name + "_backward_affine",
         .params = affine_params,
         .combine = "add",
         .flops = 5},
        {.name = norm.name,
         .doc = norm.name + "_rows over the last normalized_ndim dims",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = norm.x,
         .outputs = norm.y,
         .attrs = {normalized_ndim, eps},
         .shape = norm_shape,
         .compose = norm_of},
        {.name = norm.name + "_backward",
         .doc = affine.size() > 1 ? "dx, dw and db of layer_norm" : "dx and dw of rms_norm",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = dy_w,
         .outputs = norm.gradients,
         .attrs = {normalized_ndim},
         .shape = backward_shape,
         .compose = backward},
    };
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(norm) {
    std::vector<OpRow> rows = rows_of({"layer_norm",
                                       "y = (x - mean) * rstd * weight + bias",
                                       {{"x"}, {"weight?"}, {"bias?"}},
                                       {{"y"}, {"mean"}, {"rstd"}},
                                       {{"dy"}, {"x"}, {"mean"}, {"rstd"}},
                                       {{"dx"}, {"dw"}, {"db"}}});
    for (OpRow& row : rows_of({"rms_norm",
                               "y = x * rstd * weight, rstd = 1 / sqrt(mean of x * x + eps)",
                               {{"x"}, {"weight?"}},
                               {{"y"}, {"rstd", "any"}},
                               {{"dy"}, {"x"}, {"rstd", "any"}},
                               {{"dx"}, {"dw"}}}))
        rows.push_back(std::move(row));
    return rows;
}
