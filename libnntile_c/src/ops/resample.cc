// SPDX-License-Identifier: BSD-3-Clause
// Interpolation and padding along one to three dims, and their gradients; those dims are whole.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

constexpr size_t most_dims = 3;
constexpr const char* scales[most_dims] = {"scale", "scale_2", "scale_3"};

// The dims that are resampled, in growing order, with what each becomes.
Dims dims_of(const Call& call) {
    const auto rank = static_cast<int64_t>(call.inputs[0].sizes.size());
    Dims dims;
    for (int64_t d : call.attr("dims").ints) dims.push_back(wrap_dim(call.row, d, rank));
    const Dims &size = call.attr("size").ints, &left = call.attr("left").ints;
    bool grow = !dims.empty() && dims.size() <= most_dims;
    for (size_t k = 1; k < dims.size(); ++k) grow &= dims[k - 1] < dims[k];
    check(grow && size.size() == dims.size() && (left.empty() || left.size() == dims.size()),
          Status::invalid_argument, call.row.name, ": dims ", text_of_dims(call.attr("dims").ints),
          " must be one to ", most_dims, " that grow, with a size and a left each, got size ",
          text_of_dims(size), " and left ", text_of_dims(left));
    return dims;
}

void resample_shape(const Call& call, std::vector<Type>& outputs) {
    Dims y = call.inputs[0].sizes;
    check(!y.empty(), Status::invalid_argument, call.row.name, ": x must have a dim");
    const Dims dims = dims_of(call);
    for (size_t k = 0; k < dims.size(); ++k) {
        const auto dim = static_cast<size_t>(dims[k]);
        const int64_t n = y[dim], size = call.attr("size").ints[k];
        check(size >= 0 && (size == 0 || n > 0), Status::invalid_argument, call.row.name, ": ", n,
              " elements of dim ", dim, " cannot become ", size);
        y[dim] = size;
    }
    const std::string_view mode = choice_word(call.row.attrs[2], call.attr("mode").i);
    check(is_floating(call.compute) || (mode != "linear" && mode != "cubic"), Status::type_error,
          call.row.name, ": ", mode, " needs a floating x, got ", name_of(call.compute));
    outputs.push_back({call.compute, y, false});
}
void resample_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims &x = call.inputs[0].sizes, dims = dims_of(call), &size = call.attr("size").ints;
    Labels of_x(x.size());
    for (size_t d = 0; d < x.size(); ++d) {
        if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end()) continue;
        of_x[d] = static_cast<int8_t>(r.labels.size());
        r.labels.push_back({x[d], LabelKind::parallel});
    }
    Labels of_y = of_x;
    r.flops = 1;
    for (size_t k = 0; k < dims.size(); ++k) {
        const auto dim = static_cast<size_t>(dims[k]);
        for (int64_t extent : {size[k], x[dim]}) r.labels.push_back({extent, LabelKind::whole});
        of_y[dim] = static_cast<int8_t>(r.labels.size() - 2);
        of_x[dim] = static_cast<int8_t>(r.labels.size() - 1);
        r.flops *= 8.0 / static_cast<double>(std::max<int64_t>(std::min(size[k], x[dim]), 1));
    }
    r.operands = {of_x, of_y};
}
void resample_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    for (const char* name : {"mode", "align_corners", "antialias", "transposed"})
        out.push_back(fixed_param(call.attr(name).i));
    const Dims dims = dims_of(call), &left = call.attr("left").ints;
    out.push_back(fixed_param(static_cast<int64_t>(dims.size())));
    for (size_t k = 0; k < dims.size(); ++k) out.push_back(fixed_param(left.empty() ? 0 : left[k]));
    for (size_t k = 0; k < dims.size(); ++k) out.push_back(attr_param(call.row, scales[k]));
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(resample) {
    return {
        {.name = "resample",
         .doc = "y = A @ x along each of dims, A of size x n as interpolate() and pad() have it; "
                "transposed: "
                "y = A^T @ x",
         .rule = Rule::whole,
         .inputs = {{"x"}},
         .outputs = {{"y"}},
         .attrs = {{"dims", AttrKind::integers, "-1"},
                   {"size", AttrKind::integers, "1"},
                   {"mode", AttrKind::text, "nearest",
                    "nearest|nearest_exact|linear|cubic|reflect|replicate"},
                   {"align_corners", AttrKind::integer, "0"},
                   {"antialias", AttrKind::integer, "0"},
                   {"transposed", AttrKind::integer, "0"},
                   {"left", AttrKind::integers, ""},
                   {scales[0], AttrKind::real, "0"},
                   {scales[1], AttrKind::real, "0"},
                   {scales[2], AttrKind::real, "0"}},
         .shape = resample_shape,
         .relate = resample_relate,
         .kernel = "resample",
         .kernel_dims = 2,
         .params = resample_params},
    };
}
