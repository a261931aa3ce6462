// SPDX-License-Identifier: BSD-3-Clause
// Batch norm: sums of channels, some arithmetic on numbers of channels, and one product and sum for
// each element, in PyTorch's order of operations.
#include <tuple>

#include "ops/numbers.hh"

namespace nntile::ops {
namespace {

size_t dim_of(const Call& call, const Dims& x) {
    return static_cast<size_t>(
        wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(x.size())));
}
double count_of(const Dims& x, size_t dim) {
    return static_cast<double>(product(x) / std::max<int64_t>(x[dim], 1));
}
void check_channels(const Call& call, const Dims& x, size_t first) {
    const Dims channels{x[dim_of(call, x)]};
    for (size_t k = first; k < call.inputs.size(); ++k)
        check(!call.has(k) || call.inputs[k].sizes == channels, Status::invalid_argument,
              call.row.name, ": ", call.row.inputs[k].name, " must have shape ",
              text_of_dims(channels), ", got ", text_of_dims(call.inputs[k].sizes));
}
// Of what a call gives of each channel, as PyTorch keeps it.
DType of_channels(const Call& call, size_t x, size_t weight) {
    return call.inputs[call.has(weight) ? weight : x].dtype;
}
// Of the arithmetic on numbers of channels.
DType wide(const Call& call) {
    const bool any = std::any_of(call.inputs.begin(), call.inputs.end(),
                                 [](const Type& t) { return t.dtype == DType::f64; });
    return any ? DType::f64 : DType::f32;
}
uint32_t blend(Builder& graph, std::vector<uint32_t> operands, size_t dim, DType compute) {
    return graph.op("channel_blend", operands, {{.ints = {static_cast<int64_t>(dim)}}}, compute)[0];
}
std::vector<uint32_t> sums(Builder& graph, uint32_t x, uint32_t y, uint32_t shift, size_t dim,
                           DType compute) {
    return graph.op("channel_sums", std::vector<uint32_t>{x, y, shift},
                    {{.ints = {static_cast<int64_t>(dim)}}}, compute);
}

// ---- x, weight?, bias?, running_mean?, running_var? -> y, mean, rstd, and both anew
enum { of_x, of_weight, of_bias, of_mean, of_var };

void forward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = call.inputs[of_x].sizes;
    check_channels(call, x, of_weight);
    check(call.attr("training").i || (call.has(of_mean) && call.has(of_var)),
          Status::invalid_argument, call.row.name,
          ": without training it needs running_mean and running_var");
    const Dims channels{x[dim_of(call, x)]};
    const DType stats = of_channels(call, of_x, of_weight);
    const auto dtype = [&](size_t k) { return call.has(k) ? call.inputs[k].dtype : stats; };
    outputs = {{call.compute, x, false},
               {stats, channels, false},
               {stats, channels, false},
               {dtype(of_mean), channels, false},
               {dtype(of_var), channels, false}};
}

// Mean and biased variance, in f64. Sums of squares of f64 would have to be longer than that.
std::pair<uint32_t, uint32_t> moments(Builder& graph, const Call& call, uint32_t x, size_t dim) {
    const Dims& sizes = call.inputs[of_x].sizes;
    const double count = count_of(sizes, dim);
    Numbers n(graph, DType::f64);
    const auto first = sums(graph, x, x, no_value, dim, call.compute);
    const uint32_t mean = n.div(first[0], count);
    if (call.compute == DType::f64) {
        Dims broadcast(sizes.size() - dim, 1);
        broadcast[0] = sizes[dim];
        const uint32_t centred = n.sub(x, reshaped(graph, mean, broadcast));
        return {mean, n.div(sums(graph, centred, centred, no_value, dim, DType::f64)[1], count)};
    }
    const uint32_t var = n.sub(n.div(first[1], count), n.mul(mean, mean));
    return {mean, n.op("clamp_min", {var, n.number(0)})};
}

// running * (1 - momentum) + value * momentum, as two calls in place are
uint32_t moved(Builder& graph, const Call& call, size_t k, uint32_t running, uint32_t value,
               double factor) {
    const DType own = call.inputs[k].dtype;
    Numbers kept(graph, own), n(graph, wide(call));
    const uint32_t old = kept.mul(running, kept.number(1 - call.attr("momentum").f));
    return graph.in_dtype(n.add(old, value, factor), own);
}

std::vector<uint32_t> forward(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims& sizes = call.inputs[of_x].sizes;
    const size_t dim = dim_of(call, sizes);
    const DType computed = wide(call), stats = of_channels(call, of_x, of_weight);
    Numbers n(graph, computed);
    const bool training = call.attr("training").i;
    uint32_t mean = in[of_mean], var = in[of_var];
    if (training) std::tie(mean, var) = moments(graph, call, in[of_x], dim);
    uint32_t new_mean = mean, new_var = var;
    mean = graph.in_dtype(mean, computed);
    var = graph.in_dtype(var, computed);
    if (training) {
        const double count = count_of(sizes, dim), momentum = call.attr("momentum").f;
        new_mean = call.has(of_mean) ? moved(graph, call, of_mean, in[of_mean], mean, momentum)
                                     : graph.in_dtype(mean, stats);
        new_var = call.has(of_var) ? moved(graph, call, of_var, in[of_var], var,
                                           momentum * count / std::max(count - 1, 1.0))
                                   : graph.in_dtype(var, stats);
    }
    const uint32_t rstd = n.rsqrt(var, call.attr("eps").f);
    // As on the CPU: two numbers for each channel, and one product and sum for each element.
    const uint32_t scale = call.has(of_weight) ? n.mul(rstd, in[of_weight]) : rstd;
    const uint32_t offset =
        call.has(of_bias) ? n.sub(in[of_bias], n.mul(mean, scale)) : n.mul(n.neg(mean), scale);
    const uint32_t y =
        blend(graph, {in[of_x], no_value, scale, no_value, no_value, offset}, dim, call.compute);
    return {y, graph.in_dtype(mean, stats), graph.in_dtype(rstd, stats), new_mean, new_var};
}

// ---- dy, x, weight?, mean, spread -> dx, dw, db. spread: rstd, or without training the variance
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &dy = call.inputs[0].sizes, &x = call.inputs[1].sizes;
    check(dy == x, Status::invalid_argument, call.row.name, ": dy ", text_of_dims(dy), " and x ",
          text_of_dims(x), " must be of one shape");
    check_channels(call, x, 2);
    const DType stats = of_channels(call, 1, 2);
    const Dims channels{x[dim_of(call, x)]};
    outputs = {{call.compute, x, false}, {stats, channels, false}, {stats, channels, false}};
}
std::vector<uint32_t> backward(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const uint32_t dy = in[0], x = in[1], weight = in[2], mean = graph.in_dtype(in[3], DType::f64);
    const size_t dim = dim_of(call, call.inputs[1].sizes);
    const bool training = call.attr("training").i;
    Numbers n(graph, DType::f64);
    const uint32_t rstd =
        training ? graph.in_dtype(in[4], DType::f64) : n.rsqrt(in[4], call.attr("eps").f);
    const auto all = sums(graph, dy, x, mean, dim, call.compute);
    const uint32_t slope = call.has(2) ? n.mul(rstd, weight) : rstd;
    uint32_t dx;
    if (training) {
        // dx = slope * (dy - mean of dy - (x - mean) * rstd^2 * mean of dy * (x - mean))
        const double count = count_of(call.inputs[1].sizes, dim);
        const uint32_t minus = n.neg(slope),
                       bend = n.div(n.mul(n.mul(n.mul(minus, rstd), rstd), all[1]), count),
                       level = n.div(n.mul(minus, all[0]), count);
        dx = blend(graph, {dy, x, slope, bend, mean, level}, dim, call.compute);
    } else {
        const uint32_t zero = n.op("fill", {n.number(0)}, {{.ints = graph.type_of(slope).sizes}});
        dx = blend(graph, {dy, no_value, slope, no_value, no_value, zero}, dim, call.compute);
    }
    const DType stats = of_channels(call, 1, 2);
    return {dx, graph.in_dtype(n.mul(all[1], rstd), stats), graph.in_dtype(all[0], stats)};
}

const AttrRow dim{"dim", AttrKind::integer, "1"}, training{"training", AttrKind::integer, "1"},
    eps{"eps", AttrKind::real, "1e-5"};

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(batch_norm) {
    return {
        {.name = "batch_norm",
         .doc = "y = (x - mean) / sqrt(var + eps) * weight + bias along dim, rstd, and the running "
                "mean and variance as they are afterwards",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"x"},
                    {"weight?", "any"},
                    {"bias?", "any"},
                    {"running_mean?", "any"},
                    {"running_var?", "any"}},
         .outputs =
             {{"y"}, {"mean", "any"}, {"rstd", "any"}, {"new_mean", "any"}, {"new_var", "any"}},
         .attrs = {dim, training, {"momentum", AttrKind::real, "0.1"}, eps},
         .shape = forward_shape,
         .compose = forward},
        {.name = "batch_norm_backward",
         .doc = "dx, dw and db of batch_norm; spread: rstd, or without training the variance",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}, {"weight?", "any"}, {"mean", "any"}, {"spread", "any"}},
         .outputs = {{"dx"}, {"dw", "any"}, {"db", "any"}},
         .attrs = {dim, training, eps},
         .shape = backward_shape,
         .compose = backward},
    };
}
