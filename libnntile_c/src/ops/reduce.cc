// SPDX-License-Identifier: BSD-3-Clause
// Reductions over dims: sum, prod, amax, amin, any, all, sumsq; mean, var and std, logsumexp;
// argmax, argmin.
#include "kernels/fold.hh"
#include "ops/numbers.hh"

namespace nntile::ops {
namespace {

std::vector<bool> reduced_dims(const Call& call) {
    const int64_t rank = static_cast<int64_t>(call.inputs[0].sizes.size());
    const Dims& dims = call.attr("dims").ints;
    std::vector<bool> reduced(rank, dims.empty());
    for (int64_t d : dims) {
        const int64_t w = wrap_dim(call.row, d, rank);
        if (rank == 0) continue;
        check(!reduced[w], Status::invalid_argument, call.row.name, ": dim ", w,
              " appears multiple times in the list of dims");
        reduced[w] = true;
    }
    return reduced;
}

Dims reduced_sizes(const Call& call) {
    const auto reduced = reduced_dims(call);
    Dims sizes;
    for (size_t d = 0; d < reduced.size(); ++d) {
        if (!reduced[d]) sizes.push_back(call.inputs[0].sizes[d]);
        else if (call.attr("keepdim").i) sizes.push_back(1);
    }
    return sizes;
}

void reduce_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, reduced_sizes(call), false});
}

void check_not_empty(const Call& call) {
    const auto reduced = reduced_dims(call);
    for (size_t d = 0; d < reduced.size(); ++d)
        check(!reduced[d] || call.inputs[0].sizes[d] > 0, Status::index_error, call.row.name,
              ": Expected reduction dim ", d, " to have non-zero size.");
}

void extreme_shape(const Call& call, std::vector<Type>& outputs) {
    check_not_empty(call);
    reduce_shape(call, outputs);
}

void truth_shape(const Call& call, std::vector<Type>& outputs) {
    const bool byte = call.inputs[0].dtype == DType::u8;
    outputs.push_back({byte ? DType::u8 : DType::boolean, reduced_sizes(call), false});
}

void arg_shape(const Call& call, std::vector<Type>& outputs) {
    check_not_empty(call);
    outputs.push_back({DType::i64, reduced_sizes(call), false});
}

// Labels in the order of x's dims; `last`: the reduced dims after the others, and whole.
void relate(const Call& call, std::span<const Type> outputs, Relation& r, LabelKind kind,
            bool last) {
    const auto reduced = reduced_dims(call);
    const Dims& sizes = call.inputs[0].sizes;
    Labels x(sizes.size()), y;
    for (int pass = 0; pass < (last ? 2 : 1); ++pass)
        for (size_t d = 0; d < sizes.size(); ++d) {
            if (last && reduced[d] != (pass == 1)) continue;
            x[d] = static_cast<int8_t>(r.labels.size());
            r.labels.push_back({sizes[d], reduced[d] ? kind : LabelKind::parallel});
        }
    const bool keep = outputs[0].sizes.size() == sizes.size();
    for (size_t d = 0; d < sizes.size(); ++d) {
        if (!reduced[d]) y.push_back(x[d]);
        else if (keep) y.push_back(-1);
    }
    r.operands = {x, y};
}
void reduce_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    relate(call, outputs, r, LabelKind::reduce, false);
}
void arg_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    relate(call, outputs, r, LabelKind::whole, true);
}

void reduce_params(const Call& call, bool accumulate, std::vector<ParamSpec>& out) {
    const auto* kind =
        std::find(std::begin(kernels::fold_names), std::end(kernels::fold_names), call.row.name);
    out = {fixed_param(kind - kernels::fold_names), fixed_param(accumulate)};
}

void arg_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    const auto reduced = reduced_dims(call);
    out = {fixed_param(std::count(reduced.begin(), reduced.end(), true))};
}

std::vector<uint32_t> mean(Builder& graph, const Call& call, std::span<const uint32_t> inputs) {
    const auto reduced = reduced_dims(call);
    int64_t n = 1;
    for (size_t d = 0; d < reduced.size(); ++d)
        if (reduced[d]) n *= call.inputs[0].sizes[d];
    std::vector<Attr> attrs(call.attrs.begin(), call.attrs.end());
    // Of short floats the sum is not rounded before it is divided.
    const DType wide = is_short_float(call.compute) ? DType::f32 : call.compute;
    const uint32_t sum = graph.op("sum", inputs, attrs, wide)[0];
    const uint32_t count = graph.scalar(wide, static_cast<double>(n), n);
    return {graph.in_dtype(graph.op("div", std::vector<uint32_t>{sum, count}, {}, wide)[0],
                           call.compute)};
}

void moments_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.assign(call.row.outputs.size(), {call.compute, reduced_sizes(call), false});
}
// var | std, and the mean with those of two outputs
std::vector<uint32_t> moments(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const uint32_t x = in[0];
    const auto reduced = reduced_dims(call);
    const Dims &all = call.inputs[0].sizes, sizes = reduced_sizes(call);
    double count = 1;
    for (size_t d = 0; d < all.size(); ++d)
        if (reduced[d]) count *= static_cast<double>(all[d]);
    const double divisor = std::max(count - call.attr("correction").f, 0.0);
    Numbers n(graph, DType::f64);
    uint32_t mean, var;
    if (call.compute == DType::f64 || product(all) == 0) {
        mean = graph.op("mean", in, {call.attr("dims"), integer(1)}, call.compute)[0];
        const uint32_t centred = n.sub(x, mean);
        var = graph.op("sumsq", std::span(&centred, 1), {call.attr("dims"), integer(1)},
                       DType::f64)[0];
    } else {
        // Read once. From the first element on: what does not vary has a variance of 0.
        const Layout own = graph.layout_of(x);
        Layout first{{}, {}, own.offset};
        Dims kept;
        for (size_t d = 0; d < all.size(); ++d) {
            if (reduced[d]) continue;
            first.sizes.push_back(own.sizes[d]);
            first.strides.push_back(own.strides[d]);
            kept.push_back(static_cast<int64_t>(d));
        }
        const uint32_t shift = graph.copy(graph.view(graph.base_of(x), first), DType::f64);
        const auto sums = graph.op("channel_sums", std::vector<uint32_t>{x, x, shift},
                                   {{.ints = kept}}, call.compute);
        mean = n.div(sums[0], count);
        var = n.op("clamp_min", {n.sub(sums[1], n.mul(sums[0], n.sub(mean, shift))), n.number(0)});
    }
    var = n.div(var, divisor);
    if (call.row.name.starts_with("std")) var = n.op("sqrt", {var});
    std::vector<uint32_t> out{var, mean};
    out.resize(call.row.outputs.size());
    for (uint32_t& v : out) v = reshaped(graph, graph.in_dtype(v, call.compute), sizes);
    return out;
}

// Dims are taken in the order in which they lie: what is made of the elements is dense.
std::vector<uint32_t> logsumexp(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const DType wide = is_short_float(call.compute) ? DType::f32 : call.compute;
    Numbers n(graph, wide);
    const auto reduced = reduced_dims(call);
    const Layout own = graph.layout_of(in[0]);
    Dims order(own.sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return own.strides[a] > own.strides[b]; });
    Layout laid{{}, {}, own.offset};
    Attr dims;
    for (size_t k = 0; k < order.size(); ++k) {
        laid.sizes.push_back(own.sizes[order[k]]);
        laid.strides.push_back(own.strides[order[k]]);
        if (reduced[order[k]]) dims.ints.push_back(static_cast<int64_t>(k));
    }
    const uint32_t x = graph.in_dtype(graph.view(graph.base_of(in[0]), laid), wide);
    const auto over_dims = [&](const char* name, uint32_t value) {
        return graph.op(name, std::span(&value, 1), {dims, integer(1)}, wide)[0];
    };
    uint32_t y;
    if (product(own.sizes) == 0) {
        y = n.op("log", {over_dims("sum", n.op("exp", {x}))});
    } else {
        const uint32_t largest = over_dims("amax", x);
        const uint32_t endless = graph.op("isinf", std::span(&largest, 1), {}, wide)[0];
        const uint32_t from =
            graph.op("where", std::vector<uint32_t>{endless, n.number(0), largest}, {}, wide)[0];
        y = n.add(n.op("log", {over_dims("sum", n.op("exp", {n.sub(x, from)}))}), from);
    }
    y = graph.in_dtype(y, call.compute);
    const Dims strides = dense_strides(graph.type_of(y).sizes);
    Layout asked{reduced_sizes(call), {}, 0};
    for (size_t d = 0; d < reduced.size(); ++d) {
        if (reduced[d] && !call.attr("keepdim").i) continue;
        asked.strides.push_back(strides[std::find(order.begin(), order.end(), d) - order.begin()]);
    }
    return {graph.view(y, asked)};
}

std::vector<uint32_t> norm2(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const DType wide = is_short_float(call.compute) ? DType::f32 : call.compute;
    Numbers n(graph, wide);
    const uint32_t squares =
        graph.op("sumsq", in, {call.attr("dims"), call.attr("keepdim")}, wide)[0];
    return {graph.in_dtype(n.op("sqrt", {squares}), call.compute)};
}

OpRow row_of(const char* name, const char* doc) {
    return {.name = name,
            .doc = doc,
            .inputs = {{"x", "any"}},
            .outputs = {{"y"}},
            .attrs = {{"dims", AttrKind::integers, ""}, {"keepdim", AttrKind::integer, "0"}}};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(reduce) {
    enum class Result { value, extreme, truth };
    struct Kind {
        const char *name, *doc, *combine;
        Result result;
    };
    std::vector<OpRow> rows;
    for (Kind k : {
#define FOLD(name, formula, combine, result) Kind{#name, formula, combine, Result::result},
#include "kernels/fold.def"
#undef FOLD
         }) {
        OpRow row = row_of(k.name, k.doc);
        row.rule = Rule::reduce;
        row.shape = k.result == Result::extreme ? extreme_shape
                    : k.result == Result::truth ? truth_shape
                                                : reduce_shape;
        if (k.result == Result::truth) row.outputs[0].type = "bool";
        row.relate = reduce_relate;
        row.kernel = "reduce";
        row.params = reduce_params;
        row.combine = k.combine;
        rows.push_back(std::move(row));
    }
    const auto composed = [&](const char* name, const char* doc, auto compose) {
        OpRow row = row_of(name, doc);
        row.rule = Rule::compose;
        row.types = Types::floating;
        row.shape = reduce_shape;
        row.compose = compose;
        rows.push_back(std::move(row));
        return &rows.back();
    };
    composed("mean", "y = sum of x over dims / number of summed elements", mean);
    composed("logsumexp", "y = log(sum of exp(x) over dims)", logsumexp);
    composed("norm2", "y = root of the sum of x * x over dims", norm2);
    for (const char* name : {"var", "std", "var_mean", "std_mean"}) {
        OpRow* row = composed(name,
                              "y = variance over dims (std: its root) with divisor count - "
                              "correction, and the mean",
                              moments);
        row->inputs = {{"x"}};
        row->attrs.insert(row->attrs.begin() + 1, {"correction", AttrKind::real, "1"});
        if (row->name.ends_with("mean")) row->outputs.push_back({"mean"});
        row->shape = moments_shape;
    }
    for (const char* name : {"argmax", "argmin"}) {
        OpRow row =
            row_of(name, "y = row-major index over dims of the first extreme of x; nan wins");
        row.rule = Rule::whole;
        row.outputs[0].type = "i64";
        row.shape = arg_shape;
        row.relate = arg_relate;
        row.kernel = name;
        row.params = arg_params;
        rows.push_back(std::move(row));
    }
    return rows;
}
