// SPDX-License-Identifier: BSD-3-Clause
// Sums of each channel of images (n, c, spatial..), in float64: what batch norm and its gradient need, in one pass.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

void sums_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &x = call.inputs[0].sizes, &y = call.inputs[1].sizes;
    check(x.size() >= 2 && x == y, Status::invalid_argument, call.row.name, ": x ", text_of_dims(x), " and y ",
          text_of_dims(y), " must be of one shape (n, c, spatial..)");
    check(!call.has(2) || call.inputs[2].sizes == Dims{x[1]}, Status::invalid_argument, call.row.name,
          ": shift must have shape ", text_of_dims(Dims{x[1]}));
    const Type sum{DType::f64, {x[1]}, false};
    outputs = {sum, sum};
}
void sums_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    for (size_t d = 0; d < x.size(); ++d) r.labels.push_back({x[d], d == 1 ? LabelKind::parallel : LabelKind::reduce});
    const Labels all = iota_labels(x.size()), channel{1};
    r.operands = {all, all, call.has(2) ? channel : Labels{}, channel, channel};
}
void sums_params(const Call&, bool accumulate, std::vector<ParamSpec>& out) { out = {fixed_param(accumulate)}; }

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(channel) {
    return {
        {.name = "channel_sums",
         .doc = "first[c] = sum of x[n, c, ..], second[c] = sum of x[n, c, ..] * (y[n, c, ..] - shift[c]), in float64",
         .rule = Rule::reduce, .types = Types::floating, .inputs = {{"x"}, {"y"}, {"shift?", "f64"}},
         .outputs = {{"first", "f64"}, {"second", "f64"}}, .shape = sums_shape, .relate = sums_relate,
         .kernel = "channel_sums", .kernel_dims = all_dims, .params = sums_params, .combine = "add", .flops = 4},
    };
}
