// SPDX-License-Identifier: BSD-3-Clause
// Pooling over windows of two or three spatial dims, and its gradients. Kernel dims: planes (n, c),
// then the spatial dims of y and of x, which are whole.
#include "ops/images.hh"

namespace nntile::ops {
namespace {

// x (planes.., spatial..) and what its windows give. Planes are one or two dims.
struct Pool {
    size_t rank;
    Dims x, y, size, stride, padding, dilation;

    // Windows of one size.
    Pool(const Call& call, const Dims& image) : rank(call.attr("spatial").i), x(image) {
        check_rank(call);
        size = spatial(call, "kernel_size", rank, 1);
        stride = call.attr("stride").ints.empty() ? size : spatial(call, "stride", rank, 1);
        padding = spatial(call, "padding", rank, 0);
        dilation = spatial(call, "dilation", rank, 1);
        const bool ceil = call.attr("ceil_mode").i != 0;
        y = planes();
        for (size_t d = 0; d < rank; ++d) {
            check(2 * padding[d] <= size[d], Status::invalid_argument, call.row.name,
                  ": pad should be at most half of effective kernel size, got padding ",
                  text_of_dims(padding), " and kernel_size ", text_of_dims(size));
            const int64_t extent = x[x.size() - rank + d];
            const int64_t room = extent + 2 * padding[d] - dilation[d] * (size[d] - 1) - 1;
            int64_t n = room < 0 ? 0 : room / stride[d] + 1;
            // The last window begins inside of the image or its left padding; the one there is may
            // be larger than both.
            if (ceil && room + stride[d] > 0) {
                n = (room + stride[d] - 1) / stride[d] + 1;
                if ((n - 1) * stride[d] >= extent + padding[d]) --n;
            }
            check(n > 0, Status::invalid_argument, call.row.name, ": a window of ",
                  text_of_dims(size), " is larger than the padded image ", text_of_dims(x));
            y.push_back(n);
        }
    }
    // As many windows as are asked for, of nearly equal size.
    Pool(const Call& call, const Dims& image, const Dims& wanted)
        : rank(call.attr("spatial").i), x(image) {
        check_rank(call);
        check(wanted.size() == rank, Status::invalid_argument, call.row.name, ": output_size has ",
              wanted.size(), " values for ", rank, " spatial dims");
        y = planes();
        for (int64_t n : wanted) y.push_back(n);
        for (int64_t n : wanted)
            check(n > 0, Status::unsupported, call.row.name,
                  ": a result without pixels has no kernel");
    }

private:
    Dims planes() const { return Dims(x.begin(), x.end() - static_cast<std::ptrdiff_t>(rank)); }
    void check_rank(const Call& call) const {
        check((rank == 2 || rank == 3) && (x.size() == rank + 1 || x.size() == rank + 2),
              Status::invalid_argument, call.row.name, ": expected an image with ", rank,
              " spatial dims, got ", text_of_dims(x));
        for (size_t d = x.size() - rank; d < x.size(); ++d)
            check(x[d] > 0, Status::unsupported, call.row.name,
                  ": an image without pixels has no kernel");
    }
};

struct PoolLabels {
    Labels x, y;
};
PoolLabels labels_of(const Pool& p, Relation& r) {
    PoolLabels l;
    const auto add = [&](int64_t extent, LabelKind kind) {
        r.labels.push_back({extent, kind});
        return static_cast<int8_t>(r.labels.size() - 1);
    };
    const size_t planes = p.x.size() - p.rank;
    if (planes == 1) add(1, LabelKind::parallel);  // n
    for (size_t d = 0; d < planes; ++d) l.x.push_back(add(p.x[d], LabelKind::parallel));
    l.y = l.x;
    for (size_t d = planes; d < p.y.size(); ++d) l.y.push_back(add(p.y[d], LabelKind::whole));
    for (size_t d = planes; d < p.x.size(); ++d) l.x.push_back(add(p.x[d], LabelKind::whole));
    double points = 1, window = 1;
    for (size_t d = planes; d < p.x.size(); ++d) points *= static_cast<double>(p.x[d]);
    for (int64_t n : p.size) window *= static_cast<double>(n);
    // A comparison or sum takes some cycles: its loop is not one over elements that lie beside each
    // other.
    r.flops = 12 * window / points;
    return l;
}

void window_params(const Pool& p, std::vector<ParamSpec>& out) {
    for (const Dims* values : {&p.size, &p.stride, &p.padding, &p.dilation})
        for (int64_t v : *values) out.push_back(fixed_param(v));
}

// Of one size, or as many as output_size says.
Pool pool_of(const Call& call, const Dims& x) {
    return call.attr("output_size").ints.empty() ? Pool(call, x)
                                                 : Pool(call, x, call.attr("output_size").ints);
}

// ---- max
Pool max_of(const Call& call) { return pool_of(call, call.inputs[0].sizes); }
void max_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims y = stored(call, max_of(call).y);
    outputs = {{call.compute, y, false}, {DType::i64, y, false}};
}
void max_relate(const Call& call, std::span<const Type>, Relation& r) {
    const PoolLabels l = labels_of(max_of(call), r);
    r.operands = {l.x, stored(call, l.y), stored(call, l.y)};
}
void max_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    window_params(max_of(call), out);
}

// dy, x, indices -> dx: of x only the shape counts
void max_backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Pool p = pool_of(call, call.attr("sizes").ints);
    for (size_t k : {0, 1})
        check(call.inputs[k].sizes == p.y, Status::invalid_argument, call.row.name, ": ",
              call.row.inputs[k].name, " must have shape ", text_of_dims(p.y), ", got ",
              text_of_dims(call.inputs[k].sizes));
    outputs.push_back({call.compute, stored(call, p.x), false});
}
void max_backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const PoolLabels l = labels_of(pool_of(call, call.attr("sizes").ints), r);
    r.operands = {l.y, l.y, stored(call, l.x)};
}
void max_backward_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    window_params(pool_of(call, call.attr("sizes").ints), out);
}

// ---- average
void average_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, stored(call, pool_of(call, call.inputs[0].sizes).y), false});
}
void average_relate(const Call& call, std::span<const Type>, Relation& r) {
    const PoolLabels l = labels_of(pool_of(call, call.inputs[0].sizes), r);
    r.operands = {l.x, stored(call, l.y)};
}
void average_params_of(const Call& call, const Pool& p, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("divisor_override").i),
           fixed_param(call.attr("count_include_pad").i)};
    window_params(p, out);
}
void average_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    average_params_of(call, pool_of(call, call.inputs[0].sizes), out);
}
void average_backward_shape(const Call& call, std::vector<Type>& outputs) {
    const Pool p = pool_of(call, call.attr("sizes").ints);
    check(call.inputs[0].sizes == p.y, Status::invalid_argument, call.row.name,
          ": dy must have shape ", text_of_dims(p.y), ", got ", text_of_dims(call.inputs[0].sizes));
    outputs.push_back({call.compute, stored(call, p.x), false});
}
void average_backward_relate(const Call& call, std::span<const Type>, Relation& r) {
    const PoolLabels l = labels_of(pool_of(call, call.attr("sizes").ints), r);
    r.operands = {l.y, stored(call, l.x)};
}
void average_backward_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    average_params_of(call, pool_of(call, call.attr("sizes").ints), out);
}

// ---- as PyTorch calls them: results lie with the channels last where the image does
struct Compose {
    Builder& graph;
    const Call& call;
    bool channels_last;

    std::vector<uint32_t> op(const char* name, std::vector<uint32_t> in, const Dims* sizes,
                             bool average) const {
        std::vector<Attr> attrs{call.attr("spatial")};
        const auto add = [&](const char* attr) { attrs.push_back(call.attr(attr)); };
        for (const char* attr : {"kernel_size", "stride", "padding", "dilation", "ceil_mode"})
            add(attr);
        attrs.push_back(integer(channels_last));
        add("output_size");
        if (average)
            for (const char* attr : {"count_include_pad", "divisor_override"}) add(attr);
        if (sizes) attrs.push_back({.ints = *sizes});
        auto made = graph.op(name, in, attrs, call.compute);
        if (channels_last)
            for (uint32_t& v : made) v = in_usual_order(graph, v);
        return made;
    }
};
bool lies_last_with_planes(const Builder& graph, const Call& call, size_t input, uint32_t value) {
    return call.inputs[input].sizes.size() == static_cast<size_t>(call.attr("spatial").i) + 2 &&
           lies_last(graph, value);
}
std::vector<uint32_t> max_pool(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    return Compose{graph, call, lies_last_with_planes(graph, call, 0, in[0])}.op(
        "max_pool_rows", {in[0]}, nullptr, false);
}
// The schema of an adaptive one does not say the sizes that it asked for: dy has them.
std::vector<Attr> sized_attrs(const Call& call) {
    std::vector<Attr> attrs(call.attrs.begin(), call.attrs.end());
    if (!call.attr("adaptive").i) return attrs;
    const Dims& dy = call.inputs[0].sizes;
    const auto rank = static_cast<size_t>(call.attr("spatial").i);
    check(dy.size() > rank, Status::invalid_argument, call.row.name, ": dy has shape ",
          text_of_dims(dy));
    attrs[attr_index(call.row, "output_size")].ints =
        Dims(dy.end() - static_cast<std::ptrdiff_t>(rank), dy.end());
    return attrs;
}
std::vector<uint32_t> max_pool_backward(Builder& graph, const Call& call,
                                        std::span<const uint32_t> in) {
    const std::vector<Attr> attrs = sized_attrs(call);
    const Call sized{call.row, call.inputs, attrs, call.compute};
    return Compose{graph, sized, lies_last_with_planes(graph, call, 1, in[1])}.op(
        "max_pool_input_grad", {in[0], in[2]}, &call.inputs[1].sizes, false);
}
std::vector<uint32_t> average_pool(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    return Compose{graph, call, lies_last_with_planes(graph, call, 0, in[0])}.op(
        "avg_pool_rows", {in[0]}, nullptr, true);
}
std::vector<uint32_t> average_pool_backward(Builder& graph, const Call& call,
                                            std::span<const uint32_t> in) {
    const std::vector<Attr> attrs = sized_attrs(call);
    const Call sized{call.row, call.inputs, attrs, call.compute};
    return Compose{graph, sized, lies_last_with_planes(graph, call, 1, in[1])}.op(
        "avg_pool_input_grad", {in[0]}, &call.inputs[1].sizes, true);
}

// Shapes of compositions: those of the rows, in the usual order.
void max_pool_shape(const Call& call, std::vector<Type>& outputs) {
    const Pool p = max_of(call);
    outputs = {{call.compute, p.y, false}, {DType::i64, p.y, false}};
}
void average_pool_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, pool_of(call, call.inputs[0].sizes).y, false});
}
void like_x_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, call.inputs[1].sizes, false});
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(pool) {
    const std::vector<AttrRow> window{
        {"spatial", AttrKind::integer, "2"},   {"kernel_size", AttrKind::integers, "1"},
        {"stride", AttrKind::integers, ""},    {"padding", AttrKind::integers, "0"},
        {"dilation", AttrKind::integers, "1"}, {"ceil_mode", AttrKind::integer, "0"}};
    const std::vector<AttrRow> asked{{"output_size", AttrKind::integers, ""}};
    const std::vector<AttrRow> average{{"output_size", AttrKind::integers, ""},
                                       {"count_include_pad", AttrKind::integer, "1"},
                                       {"divisor_override", AttrKind::integer, "0"}};
    const std::vector<AttrRow> last{{"channels_last", AttrKind::integer, "0"}},
        sizes{{"sizes", AttrKind::integers, ""}}, adaptive{{"adaptive", AttrKind::integer, "0"}};
    const auto joined = [](std::initializer_list<std::vector<AttrRow>> lists) {
        std::vector<AttrRow> all;
        for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
        return all;
    };
    return {
        {.name = "max_pool_rows",
         .doc = "y = largest of each window of x, and its place in the image; with output_size so "
                "many windows",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}},
         .outputs = {{"y"}, {"indices", "i64"}},
         .attrs = joined({window, last, asked}),
         .shape = max_shape,
         .relate = max_relate,
         .kernel = "max_pool",
         .kernel_dims = all_dims,
         .params = max_params},
        {.name = "max_pool_input_grad",
         .doc = "dx[indices] += dy, in the order of dy",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}, {"indices", "i64"}},
         .outputs = {{"dx"}},
         .attrs = joined({window, last, asked, sizes}),
         .shape = max_backward_shape,
         .relate = max_backward_relate,
         .kernel = "max_pool_backward",
         .kernel_dims = all_dims,
         .params = max_backward_params},
        {.name = "avg_pool_rows",
         .doc =
             "y = mean of each window of x; with output_size so many windows of nearly equal size",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"x"}},
         .outputs = {{"y"}},
         .attrs = joined({window, last, average}),
         .shape = average_shape,
         .relate = average_relate,
         .kernel = "avg_pool",
         .kernel_dims = all_dims,
         .params = average_params},
        {.name = "avg_pool_input_grad",
         .doc = "dx of avg_pool_rows",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"dy"}},
         .outputs = {{"dx"}},
         .attrs = joined({window, last, average, sizes}),
         .shape = average_backward_shape,
         .relate = average_backward_relate,
         .kernel = "avg_pool_backward",
         .kernel_dims = all_dims,
         .params = average_backward_params},
        {.name = "max_pool",
         .doc = "max_pool_rows in the layout of x",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"x"}},
         .outputs = {{"y"}, {"indices", "i64"}},
         .attrs = joined({window, asked}),
         .shape = max_pool_shape,
         .compose = max_pool},
        {.name = "max_pool_backward",
         .doc = "dx of max_pool",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}, {"indices", "i64"}},
         .outputs = {{"dx"}},
         .attrs = joined({window, asked, adaptive}),
         .shape = like_x_shape,
         .compose = max_pool_backward},
        {.name = "avg_pool",
         .doc = "avg_pool_rows in the layout of x",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"x"}},
         .outputs = {{"y"}},
         .attrs = joined({window, average}),
         .shape = average_pool_shape,
         .compose = average_pool},
        {.name = "avg_pool_backward",
         .doc = "dx of avg_pool",
         .rule = Rule::compose,
         .types = Types::floating,
         .inputs = {{"dy"}, {"x"}},
         .outputs = {{"dx"}},
         .attrs = joined({window, average, adaptive}),
         .shape = like_x_shape,
         .compose = average_pool_backward},
    };
}
