// SPDX-License-Identifier: BSD-3-Clause
// Data movement: copy, empty, view_write, cat.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

void copy_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, call.inputs[0].sizes, false});
}
void copy_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    parallel_labels(x, r);
    r.operands.assign(2, iota_labels(x.size()));
}
void no_params(const Call&, bool, std::vector<ParamSpec>&) {}

void empty_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, call.attr("sizes").ints, false});
}

void write_shape(const Call& call, std::vector<Type>& outputs) {
    const Type &base = call.inputs[0], &data = call.inputs[1];
    const Layout view{data.sizes, call.attr("strides").ints, call.attr("offset").i};
    check(view.strides.size() == data.sizes.size(), Status::invalid_argument, call.row.name,
          ": data ", text_of_dims(data.sizes), " and strides ", text_of_dims(view.strides),
          " differ in rank");
    check(in_bounds(view, product(base.sizes)), Status::invalid_argument, call.row.name,
          ": the view ends beyond the ", product(base.sizes), " elements of base ",
          text_of_dims(base.sizes));
    outputs.push_back({base.dtype, base.sizes, false});
}

void bits_shape(const Call& call, std::vector<Type>& outputs) {
    const Type& x = call.inputs[0];
    const int64_t bytes = product(x.sizes) * size_of(x.dtype);
    outputs.push_back({call.compute, {bytes / size_of(call.compute)}, false});
}
void cat_shape(const Call& call, std::vector<Type>& outputs) {
    check(!call.inputs.empty(), Status::invalid_argument, call.row.name,
          ": expected a non-empty list of tensors");
    Dims sizes;
    bool first = true;
    int64_t dim = 0, extent = 0;
    for (const Type& t : call.inputs) {
        // PyTorch's legacy: an empty 1-D tensor is nothing
        if (t.sizes.size() == 1 && t.sizes[0] == 0) continue;
        if (first) {
            sizes = t.sizes;
            check(!sizes.empty(), Status::invalid_argument, call.row.name,
                  ": zero-dimensional tensors cannot be concatenated");
            dim = wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(sizes.size()));
        }
        first = false;
        bool same = t.sizes.size() == sizes.size();
        for (size_t d = 0; same && d < sizes.size(); ++d)
            same = static_cast<int64_t>(d) == dim || t.sizes[d] == sizes[d];
        check(same, Status::invalid_argument, call.row.name, ": tensors have shapes ",
              text_of_dims(sizes), " and ", text_of_dims(t.sizes),
              "; sizes must match except in dim ", dim);
        extent += t.sizes[dim];
    }
    if (first) sizes = {0};
    else sizes[dim] = extent;
    outputs.push_back({call.compute, sizes, false});
}

std::vector<uint32_t> cat(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    std::vector<Type> out;
    cat_shape(call, out);
    const Dims sizes = out[0].sizes, strides = dense_strides(sizes);
    Attr shape;
    shape.ints = sizes;
    uint32_t y = graph.op("empty", {}, {shape}, call.compute)[0];
    if (product(sizes) == 0) return {y};  // dim may be one that a result of nothing does not have
    const int64_t dim = wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(sizes.size()));
    int64_t at = 0;
    for (size_t k = 0; k < in.size(); ++k) {
        const Dims& own = call.inputs[k].sizes;
        if (product(own) == 0) continue;
        Attr view;
        view.ints = strides;
        y = graph.op("view_write", std::vector<uint32_t>{y, in[k]},
                     {view, integer(at * strides[dim])}, call.compute)[0];
        at += own[dim];
    }
    return {y};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(move) {
    return {
        {.name = "copy",
         .doc = "y = x in the dtype of y",
         .rule = Rule::whole,
         .inputs = {{"x", "any"}},
         .outputs = {{"y"}},
         .shape = copy_shape,
         .relate = copy_relate,
         .kernel = "copy",
         .params = no_params,
         .flops = 0},
        {.name = "empty",
         .doc = "y of unspecified bytes",
         .rule = Rule::empty,
         .outputs = {{"y"}},
         .attrs = {{"sizes", AttrKind::integers, ""}},
         .shape = empty_shape},
        {.name = "view_write",
         .doc = "y = base, but data where the view (sizes of data, strides, offset) lies",
         .rule = Rule::write,
         .inputs = {{"base", "any"}, {"data", "any"}},
         .outputs = {{"y"}},
         .attrs = {{"strides", AttrKind::integers, ""}, {"offset", AttrKind::integer, "0"}},
         .shape = write_shape,
         .prologue = 1},
        {.name = "bits",
         .doc = "y (1-D) = the bytes of x seen as another dtype",
         .rule = Rule::bits,
         .inputs = {{"x", "any"}},
         .outputs = {{"y"}},
         .shape = bits_shape},
        {.name = "cat",
         .doc = "y = tensors one after the other along dim",
         .rule = Rule::compose,
         .inputs = {{"tensors*", "any"}},
         .outputs = {{"y"}},
         .attrs = {{"dim", AttrKind::integer, "0"}},
         .shape = cat_shape,
         .compose = cat},
    };
}
