// SPDX-License-Identifier: BSD-3-Clause
// Interpolation and padding along one dim, and their gradients; that dim is whole.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

size_t dim_of(const Call& call) {
    return static_cast<size_t>(
        wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(call.inputs[0].sizes.size())));
}

void resample_shape(const Call& call, std::vector<Type>& outputs) {
    Dims y = call.inputs[0].sizes;
    check(!y.empty(), Status::invalid_argument, call.row.name, ": x must have a dim");
    const size_t dim = dim_of(call);
    const int64_t n = y[dim], size = call.attr("size").i;
    check(size >= 0 && (size == 0 || n > 0), Status::invalid_argument, call.row.name, ": ", n, " elements of dim ", dim,
          " cannot become ", size);
    const std::string_view mode = choice_word(call.row.attrs[2], call.attr("mode").i);
    check(is_floating(call.compute) || (mode != "linear" && mode != "cubic"), Status::type_error, call.row.name, ": ",
          mode, " needs a floating x, got ", name_of(call.compute));
    y[dim] = size;
    outputs.push_back({call.compute, y, false});
}
void resample_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const size_t dim = dim_of(call);
    Labels of_x(x.size());
    for (size_t d = 0; d < x.size(); ++d) {
        if (d == dim) continue;
        of_x[d] = static_cast<int8_t>(r.labels.size());
        r.labels.push_back({x[d], LabelKind::parallel});
    }
    Labels of_y = of_x;
    const int64_t size = call.attr("size").i;
    for (int64_t extent : {size, x[dim]}) r.labels.push_back({extent, LabelKind::whole});
    of_y[dim] = static_cast<int8_t>(r.labels.size() - 2);
    of_x[dim] = static_cast<int8_t>(r.labels.size() - 1);
    r.operands = {of_x, of_y};
    r.flops = 8.0 / static_cast<double>(std::max<int64_t>(std::min(size, x[dim]), 1));
}
void resample_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    for (const char* name : {"mode", "align_corners", "antialias", "transposed", "left"})
        out.push_back(fixed_param(call.attr(name).i));
    out.push_back(attr_param(call.row, "scale"));
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(resample) {
    return {
        {.name = "resample",
         .doc = "y = A @ x along dim, A of size x n as interpolate() and pad() have it; transposed: y = A^T @ x",
         .rule = Rule::whole, .inputs = {{"x"}}, .outputs = {{"y"}},
         .attrs = {{"dim", AttrKind::integer, "-1"},
                   {"size", AttrKind::integer, "1"},
                   {"mode", AttrKind::text, "nearest", "nearest|nearest_exact|linear|cubic|reflect|replicate"},
                   {"align_corners", AttrKind::integer, "0"},
                   {"antialias", AttrKind::integer, "0"},
                   {"transposed", AttrKind::integer, "0"},
                   {"left", AttrKind::integer, "0"},
                   {"scale", AttrKind::real, "0"}},
         .shape = resample_shape, .relate = resample_relate, .kernel = "resample", .kernel_dims = 2,
         .params = resample_params},
    };
}
