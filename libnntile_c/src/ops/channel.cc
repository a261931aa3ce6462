// SPDX-License-Identifier: BSD-3-Clause
// Sums over all dims but some, in float64: what batch norm, group norm, variances and their
// gradients need in one pass.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

const Dims& kept_of(const Call& call, const Dims& x) {
    const Dims& kept = call.attr("kept").ints;
    for (size_t k = 0; k < kept.size(); ++k)
        check(kept[k] >= (k ? kept[k - 1] + 1 : 0) && kept[k] < static_cast<int64_t>(x.size()),
              Status::invalid_argument, call.row.name, ": kept ", text_of_dims(kept),
              " must be growing dims of x ", text_of_dims(x));
    return kept;
}

void sums_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &x = call.inputs[0].sizes, &y = call.inputs[1].sizes;
    check(x == y, Status::invalid_argument, call.row.name, ": x ", text_of_dims(x), " and y ",
          text_of_dims(y), " must be of one shape");
    Dims sums;
    for (int64_t d : kept_of(call, x)) sums.push_back(x[d]);
    check(!call.has(2) || call.inputs[2].sizes == sums, Status::invalid_argument, call.row.name,
          ": shift must have shape ", text_of_dims(sums), ", got ",
          text_of_dims(call.has(2) ? call.inputs[2].sizes : sums));
    const Type sum{DType::f64, sums, false};
    outputs = {sum, sum};
}
void sums_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const Dims& kept = kept_of(call, x);
    // Where the first dim is kept it is enough to cut: parts of the others would be short runs.
    const LabelKind other = !kept.empty() && kept[0] == 0 ? LabelKind::whole : LabelKind::reduce;
    for (int64_t n : x) r.labels.push_back({n, other});
    Labels own;
    for (int64_t d : kept) {
        r.labels[d].kind = LabelKind::parallel;
        own.push_back(static_cast<int8_t>(d));
    }
    const Labels all = iota_labels(x.size());
    r.operands = {all, all, call.has(2) ? own : Labels{}, own, own};
}
void sums_params(const Call&, bool accumulate, std::vector<ParamSpec>& out) {
    out = {fixed_param(accumulate)};
}

// ---- a, b?, p, q?, s?, r -> y
void blend_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& a = call.inputs[0].sizes;
    check(call.has(1) == call.has(3) && call.has(1) == call.has(4), Status::invalid_argument,
          call.row.name, ": b, q and s are given together, or none of them");
    check(!call.has(1) || call.inputs[1].sizes == a, Status::invalid_argument, call.row.name,
          ": a ", text_of_dims(a), " and b ", text_of_dims(call.has(1) ? call.inputs[1].sizes : a),
          " must be of one shape");
    Dims channels;
    for (int64_t d : kept_of(call, a)) channels.push_back(a[d]);
    for (size_t k = 2; k < 6; ++k)
        check(!call.has(k) || call.inputs[k].sizes == channels, Status::invalid_argument,
              call.row.name, ": ", call.row.inputs[k].name, " must have shape ",
              text_of_dims(channels), ", got ",
              text_of_dims(call.has(k) ? call.inputs[k].sizes : channels));
    outputs.push_back({call.compute, a, false});
}
void blend_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& a = call.inputs[0].sizes;
    parallel_labels(a, r);
    Labels own;
    for (int64_t d : kept_of(call, a)) own.push_back(static_cast<int8_t>(d));
    const Labels all = iota_labels(a.size());
    const auto given = [&](size_t k, const Labels& labels) {
        return call.has(k) ? labels : Labels{};
    };
    r.operands = {all, given(1, all), own, given(3, own), given(4, own), own, all};
}
void no_params(const Call&, bool, std::vector<ParamSpec>&) {}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(channel) {
    return {
        {.name = "channel_sums",
         .doc = "first = sum of x, second = sum of x * (y - shift) over all dims but those in "
                "kept, in float64",
         .rule = Rule::reduce,
         .types = Types::floating,
         .inputs = {{"x"}, {"y"}, {"shift?", "f64"}},
         .outputs = {{"first", "f64"}, {"second", "f64"}},
         .attrs = {{"kept", AttrKind::integers, ""}},
         .shape = sums_shape,
         .relate = sums_relate,
         .kernel = "channel_sums",
         .kernel_dims = all_dims,
         .params = sums_params,
         .combine = "add",
         .flops = 4},
        {.name = "channel_blend",
         .doc = "y = p * a + q * (b - s) + r, without b: p * a + r, where p, q, s and r have the "
                "dims in kept of a",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"a"}, {"b?"}, {"p", "any"}, {"q?", "any"}, {"s?", "any"}, {"r", "any"}},
         .outputs = {{"y"}},
         .attrs = {{"kept", AttrKind::integers, ""}},
         .shape = blend_shape,
         .relate = blend_relate,
         .kernel = "channel_blend",
         .params = no_params,
         .flops = 4},
    };
}
