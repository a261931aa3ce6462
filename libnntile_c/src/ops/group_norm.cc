// SPDX-License-Identifier: BSD-3-Clause
// Group norm and its gradients. x has images, groups, channels of a group, pixels: the last two are
// whole, so that a group is read once and its statistics have the same bits for any cut.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

// Sizes of the first `n` dims of x, from `first` on.
Dims part(const Dims& x, size_t first, size_t n) {
    return Dims(x.begin() + first, x.begin() + first + n);
}

void check_sizes(const Call& call, size_t input, const Dims& want) {
    if (!call.has(input)) return;
    check(call.inputs[input].sizes == want, Status::invalid_argument, call.row.name, ": ",
          call.row.inputs[input].name, " must have shape ", text_of_dims(want), ", got ",
          text_of_dims(call.inputs[input].sizes));
}
const Dims& checked(const Call& call, size_t input) {
    const Dims& x = call.inputs[input].sizes;
    check(x.size() == 4, Status::invalid_argument, call.row.name,
          ": x must have images, groups, channels of a group and pixels, got ", text_of_dims(x));
    return x;
}
DType statistics(DType compute) { return is_short_float(compute) ? DType::f32 : compute; }

// Operands of these numbers of dims: all four, images and groups, images to channels; -2: groups
// and channels.
void relate(const Call& call, const Dims& x, std::initializer_list<int> operands, Relation& r) {
    for (size_t d = 0; d < 4; ++d)
        r.labels.push_back({x[d], d < 2 ? LabelKind::parallel : LabelKind::whole});
    size_t k = 0;
    for (int dims : operands) {
        const bool absent = k < call.inputs.size() && !call.has(k);
        r.operands.push_back(absent     ? Labels{}
                             : dims < 0 ? Labels{1, 2}
                                        : iota_labels(static_cast<size_t>(dims)));
        ++k;
    }
}

void norm_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = checked(call, 0);
    for (size_t input : {1, 2}) check_sizes(call, input, part(x, 1, 2));
    const Type s{statistics(call.compute), part(x, 0, 2), false};
    outputs = {{call.compute, x, false}, s, s};
}
void norm_relate(const Call& call, std::span<const Type>, Relation& r) {
    relate(call, call.inputs[0].sizes, {4, -2, -2, 4, 2, 2}, r);
}

void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = checked(call, 1);
    check_sizes(call, 0, x);
    for (size_t input : {2, 3}) check_sizes(call, input, part(x, 0, 2));
    check_sizes(call, 4, part(x, 1, 2));
    const Type sums{statistics(call.compute), part(x, 0, 3), false};
    outputs = {{call.compute, x, false}, sums, sums};
}
void backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    relate(call, call.inputs[1].sizes, {4, 4, 2, 2, -2, 4, 3, 3}, r);
}
void no_params(const Call&, bool, std::vector<ParamSpec>&) {}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(group_norm) {
    return {
        {.name = "group_norm",
         .doc = "y = (x - mean) * rstd * weight + bias, mean and rstd over channels and pixels",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"weight?"}, {"bias?"}},
         .outputs = {{"y"}, {"mean", "any"}, {"rstd", "any"}},
         .attrs = {{"eps", AttrKind::real, "1e-5"}},
         .shape = norm_shape,
         .relate = norm_relate,
         .kernel = "group_norm",
         .kernel_dims = all_dims,
         .flops = 8},
        {.name = "group_norm_backward",
         .doc = "dx of group_norm; of each image and channel the sums of dy * (x - mean) * rstd, "
                "and of dy",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}, {"mean", "any"}, {"rstd", "any"}, {"weight?"}},
         .outputs = {{"dx"}, {"products", "any"}, {"sums", "any"}},
         .shape = backward_shape,
         .relate = backward_relate,
         .kernel = "group_norm_backward",
         .kernel_dims = all_dims,
         .params = no_params,
         .flops = 10},
    };
}
