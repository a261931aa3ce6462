// SPDX-License-Identifier: BSD-3-Clause
// Convolutions of one to three spatial dims and their gradients. Kernel dims: n, co (channels of
// y), c (of x), w (of a group of x, where there are several), then the spatial dims of y, of x and
// of the window; spatial dims are whole. A transposed convolution is the gradient of the input of
// one that goes the other way.
#include "kernels/functions.hh"
#include "ops/images.hh"

namespace nntile::ops {
namespace {

constexpr size_t first_spatial = 2;

// What the three rows know of a convolution of x with w that gives y; one of the three shapes is
// made from the others.
struct Convolution {
    size_t rank = 0;
    int64_t groups = 1;
    Dims x, w, y, stride, padding, dilation;

    Convolution(const Call& call, const Dims* known_x, const Dims* known_w, const Dims* known_y) {
        const Dims& any = known_x ? *known_x : *known_y;
        check(any.size() >= 3 && any.size() <= 5, Status::invalid_argument, call.row.name,
              ": images have 1 to 3 spatial dims behind batch and channels, got ",
              text_of_dims(any));
        rank = any.size() - first_spatial;
        groups = call.attr("groups").i;
        check(groups >= 1, Status::invalid_argument, call.row.name,
              ": groups must be at least 1, got ", groups);
        stride = spatial(call, "stride", rank, 1);
        padding = spatial(call, "padding", rank, 0);
        dilation = spatial(call, "dilation", rank, 1);
        x = known_x ? *known_x : call.attr("sizes").ints;
        w = known_w ? *known_w : call.attr("sizes").ints;
        for (const Dims* d : {&x, &w})
            check(d->size() == any.size(), Status::invalid_argument, call.row.name, ": shapes ",
                  text_of_dims(any), " and ", text_of_dims(*d), " do not match");
        check(x[1] == w[1] * groups && w[0] % groups == 0, Status::invalid_argument, call.row.name,
              ": x ", text_of_dims(x), " and weight ", text_of_dims(w), " do not match in ", groups,
              " groups");
        y = {x[0], w[0]};
        for (size_t d = 0; d < rank; ++d) {
            const int64_t room = x[d + 2] + 2 * padding[d] - dilation[d] * (w[d + 2] - 1) - 1;
            check(room >= 0, Status::invalid_argument, call.row.name, ": a window of ",
                  text_of_dims(w), " is larger than the padded image ", text_of_dims(x));
            y.push_back(room / stride[d] + 1);
        }
        if (known_y)
            check(y == *known_y, Status::invalid_argument, call.row.name, ": dy has shape ",
                  text_of_dims(*known_y), ", expected ", text_of_dims(y));
        check(kernels::has_convolution(), Status::unsupported, call.row.name,
              ": built without oneDNN");
        check(call.compute != DType::f64, Status::unsupported, call.row.name,
              ": float64 has no kernel");
        check(product(x) > 0 && product(w) > 0 && product(y) > 0, Status::unsupported,
              call.row.name, ": an image or window without elements has no kernel");
    }
};

struct ConvolutionLabels {
    Labels x, w, y, bias;
};
// `summed`: the label over which a result is a sum of partial ones. With several groups, channels
// are whole: a task would have to know which of the groups it has.
ConvolutionLabels labels_of(const Convolution& k, bool batch_is_summed, LabelKind out, LabelKind in,
                            Relation& r) {
    const auto add = [&](int64_t extent, LabelKind kind) {
        r.labels.push_back({extent, kind});
        return static_cast<int8_t>(r.labels.size() - 1);
    };
    const bool one = k.groups == 1;
    const int8_t n = add(k.x[0], batch_is_summed ? LabelKind::reduce : LabelKind::parallel);
    const int8_t co = add(k.w[0], one ? out : LabelKind::whole),
                 c = add(k.x[1], one ? in : LabelKind::whole);
    const int8_t group = add(one ? 1 : k.w[1], LabelKind::whole);
    ConvolutionLabels l{{n, c}, {co, one ? c : group}, {n, co}, {co}};
    double points = 1;
    for (size_t d = 0; d < k.rank; ++d) l.y.push_back(add(k.y[d + 2], LabelKind::whole));
    for (size_t d = 0; d < k.rank; ++d) {
        l.x.push_back(add(k.x[d + 2], LabelKind::whole));
        points *= static_cast<double>(k.x[d + 2]);
    }
    for (size_t d = 0; d < k.rank; ++d) l.w.push_back(add(k.w[d + 2], LabelKind::whole));
    // A multiply and an add for each point of y, of the window, and channel of the group.
    r.flops = 2 / points / static_cast<double>(one ? 1 : k.x[1]);
    return l;
}

void window_params(const Call& call, std::vector<ParamSpec>& out) {
    const size_t rank = call.inputs[0].sizes.size() - first_spatial;
    out.push_back(fixed_param(call.attr("groups").i));
    for (const char* name : {"stride", "padding", "dilation"})
        for (int64_t v : spatial(call, name, rank, 0)) out.push_back(fixed_param(v));
}
void params(const Call& call, bool, std::vector<ParamSpec>& out) { window_params(call, out); }
void summed_params(const Call& call, bool accumulate, std::vector<ParamSpec>& out) {
    out.push_back(fixed_param(accumulate));
    window_params(call, out);
}

// x, w, bias? -> y
Convolution forward_of(const Call& call) {
    const Convolution k(call, &call.inputs[0].sizes, &call.inputs[1].sizes, nullptr);
    if (call.has(2))
        check(call.inputs[2].sizes == Dims{k.w[0]}, Status::invalid_argument, call.row.name,
              ": bias must have shape ", text_of_dims(Dims{k.w[0]}), ", got ",
              text_of_dims(call.inputs[2].sizes));
    return k;
}
void forward_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, stored(call, forward_of(call).y), false});
}
void forward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const auto l = labels_of(forward_of(call), false, LabelKind::parallel, LabelKind::whole, r);
    r.operands = {l.x, l.w, call.has(2) ? l.bias : Labels{}, stored(call, l.y)};
}

// dy, w -> dx of shape `sizes`
Convolution input_of(const Call& call) {
    return {call, nullptr, &call.inputs[1].sizes, &call.inputs[0].sizes};
}
void input_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, stored(call, input_of(call).x), false});
}
void input_relate(const Call& call, std::span<const Type>, Relation& r) {
    const auto l = labels_of(input_of(call), false, LabelKind::whole, LabelKind::parallel, r);
    r.operands = {l.y, l.w, stored(call, l.x)};
}

// dy, x -> dw of shape `sizes`
Convolution weight_of(const Call& call) {
    return {call, &call.inputs[1].sizes, nullptr, &call.inputs[0].sizes};
}
void weight_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, stored(call, weight_of(call).w), false});
}
void weight_relate(const Call& call, std::span<const Type>, Relation& r) {
    const auto l = labels_of(weight_of(call), true, LabelKind::parallel, LabelKind::parallel, r);
    r.operands = {l.y, l.x, stored(call, l.w)};
}

// ---- compositions: what PyTorch calls convolution, transposed ones too

struct Compose {
    Builder& graph;
    const Call& call;
    bool channels_last = false;

    std::vector<Attr> attrs(const Dims* sizes = nullptr) const {
        std::vector<Attr> found{call.attr("stride"), call.attr("padding"), call.attr("dilation"),
                                call.attr("groups"), integer(channels_last)};
        if (sizes) found.push_back({.ints = *sizes});
        return found;
    }
    uint32_t op(const char* name, std::vector<uint32_t> in, const Dims* sizes = nullptr) const {
        const uint32_t made = graph.op(name, in, attrs(sizes), call.compute)[0];
        return channels_last ? in_usual_order(graph, made) : made;
    }
};

// x of a transposed convolution: what one that goes the other way would have had as its y.
Dims transposed_sizes(const Call& call, const Dims& x, const Dims& w) {
    check(x.size() >= 3 && x.size() <= 5 && w.size() == x.size(), Status::invalid_argument,
          call.row.name, ": shapes ", text_of_dims(x), " and ", text_of_dims(w), " do not match");
    const size_t rank = x.size() - first_spatial;
    const Dims stride = spatial(call, "stride", rank, 1),
               padding = spatial(call, "padding", rank, 0),
               dilation = spatial(call, "dilation", rank, 1),
               more = spatial(call, "output_padding", rank, 0);
    Dims y{x[0], w[1] * call.attr("groups").i};
    for (size_t d = 0; d < rank; ++d) {
        check(more[d] < std::max(stride[d], dilation[d]), Status::invalid_argument, call.row.name,
              ": output_padding must be smaller than either stride or dilation, got ",
              text_of_dims(more));
        // The kernels know a window's last step only where it fits: one of the dilation's kind has
        // none.
        check(more[d] < stride[d], Status::unsupported, call.row.name,
              ": an output_padding that is not smaller than the stride has no kernel");
        y.push_back((x[d + 2] - 1) * stride[d] - 2 * padding[d] + dilation[d] * (w[d + 2] - 1) +
                    more[d] + 1);
    }
    return y;
}
bool is_transposed(const Call& call) { return call.attr("transposed").i != 0; }

void convolution_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &x = call.inputs[0].sizes, &w = call.inputs[1].sizes;
    if (is_transposed(call)) outputs.push_back({call.compute, transposed_sizes(call, x, w), false});
    else outputs.push_back({call.compute, forward_of(call).y, false});
}
std::vector<uint32_t> convolution(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Compose c{graph, call, lies_last(graph, in[0]) || lies_last(graph, in[1])};
    if (!is_transposed(call)) return {c.op("convolution_rows", {in[0], in[1], in[2]})};
    const Dims sizes = transposed_sizes(call, call.inputs[0].sizes, call.inputs[1].sizes);
    const uint32_t y = c.op("convolution_input_grad", {in[0], in[1]}, &sizes);
    if (in[2] == no_value) return {y};
    Dims of_channels(sizes.size() - 1, 1);
    of_channels[0] = sizes[1];
    const uint32_t bias = graph.view(in[2], Layout::dense(of_channels));
    return graph.op("add", std::vector<uint32_t>{y, bias}, {}, call.compute);
}

// dy, x, w -> dx, dw, db
void backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &dy = call.inputs[0].sizes, &x = call.inputs[1].sizes, &w = call.inputs[2].sizes;
    check(dy.size() == x.size() && dy.size() >= 3, Status::invalid_argument, call.row.name, ": dy ",
          text_of_dims(dy), " and x ", text_of_dims(x), " do not match");
    if (is_transposed(call)) {
        const Dims y = transposed_sizes(call, x, w);
        check(dy == y, Status::invalid_argument, call.row.name, ": dy has shape ", text_of_dims(dy),
              ", expected ", text_of_dims(y));
    }
    outputs = {{call.compute, x, false}, {call.compute, w, false}, {call.compute, {dy[1]}, false}};
}
std::vector<uint32_t> convolution_backward(Builder& graph, const Call& call,
                                           std::span<const uint32_t> in) {
    const uint32_t dy = in[0], x = in[1], w = in[2];
    const Compose c{graph, call, lies_last(graph, x) || lies_last(graph, w)};
    const Dims &x_sizes = call.inputs[1].sizes, &w_sizes = call.inputs[2].sizes;
    const bool transposed = is_transposed(call);
    const uint32_t dx = transposed ? c.op("convolution_rows", {dy, w, no_value})
                                   : c.op("convolution_input_grad", {dy, w}, &x_sizes);
    const uint32_t dw = transposed ? c.op("convolution_weight_grad", {x, dy}, &w_sizes)
                                   : c.op("convolution_weight_grad", {dy, x}, &w_sizes);
    Dims dims{0};
    for (size_t d = 2; d < x_sizes.size(); ++d) dims.push_back(static_cast<int64_t>(d));
    const uint32_t db =
        graph.op("sum", std::vector<uint32_t>{dy}, {{.ints = dims}, integer(0)}, call.compute)[0];
    return {dx, dw, db};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(convolution) {
    const std::vector<AttrRow> window{{"stride", AttrKind::integers, "1"},
                                      {"padding", AttrKind::integers, "0"},
                                      {"dilation", AttrKind::integers, "1"},
                                      {"groups", AttrKind::integer, "1"}};
    const auto with = [&](std::initializer_list<AttrRow> more) {
        std::vector<AttrRow> all = window;
        all.insert(all.end(), more);
        return all;
    };
    const AttrRow last{"channels_last", AttrKind::integer, "0"},
        sizes{"sizes", AttrKind::integers, ""}, transposed{"transposed", AttrKind::integer, "0"},
        more{"output_padding", AttrKind::integers, "0"};
    return {
        {.name = "convolution_rows",
         .doc = "y[n, co, o..] = bias[co] + sum of x[n, c, o * stride - padding + k * dilation] * "
                "w[co, c, k..]; with "
                "channels_last y has the channels as its last dim",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}, {"w"}, {"bias?"}},
         .outputs = {{"y"}},
         .attrs = with({last}),
         .shape = forward_shape,
         .relate = forward_relate,
         .kernel = "convolution",
         .kernel_dims = all_dims,
         .params = params},
        {.name = "convolution_input_grad",
         .doc = "dx, of shape sizes, of convolution_rows",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"w"}},
         .outputs = {{"dx"}},
         .attrs = with({last, sizes}),
         .shape = input_shape,
         .relate = input_relate,
         .kernel = "convolution_backward_input",
         .kernel_dims = all_dims,
         .params = params},
        {.name = "convolution_weight_grad",
         .doc = "dw, of shape sizes, of convolution_rows",
         .rule = Rule::reduce,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}},
         .outputs = {{"dw"}},
         .attrs = with({last, sizes}),
         .shape = weight_shape,
         .relate = weight_relate,
         .kernel = "convolution_backward_weight",
         .kernel_dims = all_dims,
         .params = summed_params,
         .combine = "add"},
        {.name = "convolution",
         .doc = "PyTorch's convolution; transposed: the gradient of the input of one",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"x"}, {"w"}, {"bias?"}},
         .outputs = {{"y"}},
         .attrs = with({transposed, more}),
         .shape = convolution_shape,
         .compose = convolution},
        {.name = "convolution_backward",
         .doc = "dx, dw and db of convolution",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}, {"w"}},
         .outputs = {{"dx"}, {"dw"}, {"db"}},
         .attrs = with({transposed, more}),
         .shape = backward_shape,
         .compose = convolution_backward},
    };
}
