// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by oneDNN, the library of the field. A task is one call of it on one thread. Primitives are made once
// for each thread and geometry; images lie inside as the library likes them, and its memory is kept between calls.
#include "kernels/functions.hh"
#include "kernels/space.hh"

#ifdef NNTILE_HAVE_ONEDNN

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.hh"
#include "kernels/onednn.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {
namespace {

using dnnl::memory;

enum Kind { forward, backward_input, backward_weight };

constexpr size_t most_primitives = 512;  // of a thread; a loop of one model needs some dozens

// The task's dims: n, co, c, group, then spatial ones of y, x and the window.
struct Geometry {
    Kind kind;
    size_t rank;
    bool accumulate;
    int64_t groups;
    const int64_t* sizes;
    const Param* window;  // stride, padding and dilation of each spatial dim

    Geometry(const Args& args, Kind k)
        : kind(k),
          rank((args.sizes.size() - 4) / 3),
          accumulate(k == backward_weight && args.params[0].i),
          groups(args.params[k == backward_weight].i),
          sizes(args.sizes.data()),
          window(args.params.data() + (k == backward_weight) + 1) {}

    size_t y(size_t d) const { return 4 + d; }
    size_t x(size_t d) const { return 4 + rank + d; }
    size_t w(size_t d) const { return 4 + 2 * rank + d; }
    memory::dims params(size_t which) const {
        memory::dims values;
        for (size_t d = 0; d < rank; ++d) values.push_back(window[which * rank + d].i - (which == 2));
        return values;  // of oneDNN, a dilation of 0 is none
    }
};

// Where a block's elements are, as oneDNN says it: sizes and strides of its dims.
struct Place {
    memory::dims sizes, strides;

    memory::desc desc(memory::data_type type) const { return {sizes, type, strides}; }
    memory::desc any() const { return {sizes, memory::data_type::f32, memory::format_tag::any}; }
};

Place place(const Geometry& g, char operand, const int64_t* strides) {
    Place p;
    const auto add = [&](int64_t size, int64_t stride) {
        p.sizes.push_back(size);
        p.strides.push_back(stride);
    };
    const auto own = [&](size_t dim) { add(g.sizes[dim], strides[dim]); };
    if (operand == 'b') {
        own(1);
        return p;
    }
    if (operand == 'w') {
        const int64_t co = g.sizes[1] / g.groups;
        if (g.groups > 1) add(g.groups, strides[1] * co);
        add(co, strides[1]);
        own(g.groups > 1 ? 3 : 2);
        for (size_t d = 0; d < g.rank; ++d) own(g.w(d));
        return p;
    }
    own(0);
    own(operand == 'x' ? 2 : 1);
    for (size_t d = 0; d < g.rank; ++d) own(operand == 'x' ? g.x(d) : g.y(d));
    return p;
}

// Windows of one's own (as_strided, unfold) may share elements, which the library refuses.
bool lies_apart(const Place& place) {
    std::vector<std::pair<int64_t, int64_t>> dims;
    for (size_t d = 0; d < place.sizes.size(); ++d)
        if (place.sizes[d] > 1 && place.strides[d] != 0) dims.push_back({place.strides[d], place.sizes[d]});
    std::sort(dims.begin(), dims.end());
    for (size_t d = 1; d < dims.size(); ++d)
        if (dims[d].first < dims[d - 1].first * dims[d - 1].second) return false;
    return true;
}

// One operand on its way to or from the primitive: as it lies; or through memory of ours in the layout that the
// primitive chose; f16 and bf16, and elements that are shared, through dense float32 first.
struct Way {
    Place place;
    DType dtype = DType::none;
    bool packed = false, reordered = false;
    memory::desc own, inside;
    dnnl::reorder reorder;
    size_t dense_bytes = 0, inside_bytes = 0;
};

struct Prepared {
    dnnl::primitive primitive;
    std::vector<Way> ways;  // in the order of the task's blocks
    std::vector<int> names;
    memory::desc scratchpad;
    size_t result;
    size_t bytes = 0;       // of scratch memory
};

// Copies between a block and dense float32.
int convert(const Args& args, const Way& way, std::byte* block, std::byte* dense, bool load) {
    Args one = args;
    const size_t n = way.place.sizes.size();
    SmallVector<int64_t, 8> sizes(way.place.sizes.begin(), way.place.sizes.end());
    SmallVector<int64_t, 8> strides(way.place.strides.begin(), way.place.strides.end()), dense_strides(n, 1);
    for (size_t d = n - 1; d-- > 0;) dense_strides[d] = dense_strides[d + 1] * sizes[d + 1];
    const Block a{block, way.dtype, strides.data()}, b{dense, DType::f32, dense_strides.data()};
    const Block blocks[] = {load ? a : b, load ? b : a};
    one.sizes = {sizes.data(), n};
    one.blocks = blocks;
    one.params = {};
    return copy(one);
}

int add(const Args& args, const Block& into, const Place& place, const std::byte* dense) {
    const size_t n = place.sizes.size();
    SmallVector<int64_t, 8> sizes(place.sizes.begin(), place.sizes.end());
    SmallVector<int64_t, 8> strides(place.strides.begin(), place.strides.end()), own(n, 1);
    for (size_t d = n - 1; d-- > 0;) own[d] = own[d + 1] * sizes[d + 1];
    const int64_t* all[] = {strides.data(), own.data()};
    Args one = args;
    one.sizes = {sizes.data(), n};
    Space space;
    if (int status = space.make(one, all, {0})) return status;
    if (space.empty()) return 0;
    auto* y = reinterpret_cast<float*>(into.data);
    const auto* x = reinterpret_cast<const float*>(dense);
    const int last = space.dims - 1;
    const int64_t count = space.sizes[last], sy = space.strides[0][last], sx = space.strides[1][last];
    Walk walk(space, last);
    do {
        float* to = y + walk.offset[0];
        const float* from = x + walk.offset[1];
        for (int64_t i = 0; i < count; ++i) to[i * sy] += from[i * sx];
    } while (walk.next());
    return 0;
}

std::unique_ptr<Prepared> prepare(const Args& args, const Geometry& g) {
    auto made = std::make_unique<Prepared>();
    constexpr std::string_view operands[] = {"xwby", "ywx", "yxw"};  // inputs, then the result
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const std::string_view order = operands[g.kind];
    std::map<char, memory::desc> any;
    for (size_t k = 0; k < order.size(); ++k) {
        const Block& block = args.blocks[k];
        Way way;
        if (block.data) {
            way.place = place(g, order[k], block.strides);
            way.dtype = block.dtype;
            way.packed = is_short_float(block.dtype) || !lies_apart(way.place);
            any[order[k]] = way.place.any();
        }
        made->ways.push_back(std::move(way));
    }
    made->result = order.size() - 1;
    const auto stride = g.params(0), padding = g.params(1), dilation = g.params(2);
    const auto prop = dnnl::prop_kind::forward_training;
    const auto algorithm = dnnl::algorithm::convolution_direct;
    using Forward = dnnl::convolution_forward::primitive_desc;
    const memory::desc bias = any.count('b') ? any['b'] : memory::desc();
    // Images that lie with their channels last stay so: the library has kernels for that. It has none of the usual
    // order, for which it chooses a layout of its own.
    const auto kept = [&](char operand) {
        const Way& way = made->ways[order.find(operand)];
        const bool last = !way.packed && way.place.strides[1] == 1 && way.place.sizes[1] > 1 && operand != 'w';
        return last ? way.place.desc(memory::data_type::f32) : any[operand];
    };
    const Forward there(dnn_engine(), prop, algorithm, kept('x'), any['w'], bias, kept('y'), stride, dilation, padding,
                        padding, g.kind == forward ? attr : dnnl::primitive_attr());
    const auto set = [&](size_t k, int name, const memory::desc& inside) {
        made->ways[k].inside = inside;
        if (made->names.size() < order.size()) made->names.resize(order.size());
        made->names[k] = name;
    };
    if (g.kind == forward) {
        made->primitive = dnnl::convolution_forward(there);
        set(0, DNNL_ARG_SRC, there.src_desc());
        set(1, DNNL_ARG_WEIGHTS, there.weights_desc());
        set(2, DNNL_ARG_BIAS, there.bias_desc());
        set(3, DNNL_ARG_DST, there.dst_desc());
        made->scratchpad = there.scratchpad_desc();
    } else if (g.kind == backward_input) {
        const dnnl::convolution_backward_data::primitive_desc back(
            dnn_engine(), algorithm, kept('x'), any['w'], kept('y'), stride, dilation, padding, padding, there, attr);
        made->primitive = dnnl::convolution_backward_data(back);
        set(0, DNNL_ARG_DIFF_DST, back.diff_dst_desc());
        set(1, DNNL_ARG_WEIGHTS, back.weights_desc());
        set(2, DNNL_ARG_DIFF_SRC, back.diff_src_desc());
        made->scratchpad = back.scratchpad_desc();
    } else {
        const dnnl::convolution_backward_weights::primitive_desc back(
            dnn_engine(), algorithm, kept('x'), any['w'], kept('y'), stride, dilation, padding, padding, there, attr);
        made->primitive = dnnl::convolution_backward_weights(back);
        set(0, DNNL_ARG_DIFF_DST, back.diff_dst_desc());
        set(1, DNNL_ARG_SRC, back.src_desc());
        set(2, DNNL_ARG_DIFF_WEIGHTS, back.diff_weights_desc());
        made->scratchpad = back.scratchpad_desc();
    }
    for (size_t k = 0; k < order.size(); ++k) {
        Way& way = made->ways[k];
        if (way.dtype == DType::none) continue;
        const bool result = k == made->result, summed = result && g.accumulate;
        Place dense = way.place;
        if (way.packed || summed) {
            int64_t step = 1;
            for (size_t d = dense.sizes.size(); d-- > 0; step *= dense.sizes[d]) dense.strides[d] = step;
            way.dense_bytes = padded(static_cast<size_t>(step) * sizeof(float));
        }
        way.own = dense.desc(memory::data_type::f32);
        way.reordered = way.own != way.inside;
        if (way.reordered) {
            const memory::desc &from = result ? way.inside : way.own, &to = result ? way.own : way.inside;
            way.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(dnn_engine(), from, dnn_engine(), to));
            way.inside_bytes = padded(way.inside.get_size());
        }
        made->bytes += way.dense_bytes + way.inside_bytes;
    }
    made->bytes += padded(made->scratchpad.get_size());
    return made;
}

std::vector<int64_t> key_of(const Args& args, Kind kind) {
    std::vector<int64_t> key{kind};
    key.insert(key.end(), args.sizes.begin(), args.sizes.end());
    for (const Param& p : args.params) key.push_back(p.i);
    for (const Block& b : args.blocks) {
        key.push_back(b.data ? static_cast<int64_t>(b.dtype) : -1);
        if (b.data) key.insert(key.end(), b.strides, b.strides + args.sizes.size());
    }
    return key;
}

int run(const Args& args, Kind kind) {
    thread_local std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> known;
    thread_local Scratch scratch;
    dnnl::stream& stream = dnn_stream();
    one_dnn_thread();
    const Geometry g(args, kind);
    auto key = key_of(args, kind);
    if (known.size() >= most_primitives && !known.count(key)) known.clear();
    auto& slot = known[std::move(key)];
    if (!slot) slot = prepare(args, g);
    const Prepared& p = *slot;
    scratch.begin(p.bytes);
    std::unordered_map<int, memory> arguments;
    std::byte *dense_result = nullptr;
    memory own_result, inside_result;
    for (size_t k = 0; k < p.ways.size(); ++k) {
        const Way& way = p.ways[k];
        if (way.dtype == DType::none) continue;
        std::byte* data = args.blocks[k].data;
        const bool result = k == p.result;
        if (way.dense_bytes) {
            std::byte* dense = scratch.take(way.dense_bytes);
            if (result) dense_result = dense;
            else if (int status = convert(args, way, data, dense, true)) return status;
            data = dense;
        }
        memory own(way.own, dnn_engine(), data), inside = own;
        if (way.reordered) {
            inside = memory(way.inside, dnn_engine(), scratch.take(way.inside_bytes));
            if (!result) way.reorder.execute(stream, own, inside);
        }
        if (result) {
            own_result = own;
            inside_result = inside;
        }
        arguments.emplace(p.names[k], inside);
    }
    arguments.emplace(DNNL_ARG_SCRATCHPAD, memory(p.scratchpad, dnn_engine(), scratch.take(p.scratchpad.get_size())));
    p.primitive.execute(stream, arguments);
    const Way& last = p.ways[p.result];
    if (last.reordered) last.reorder.execute(stream, inside_result, own_result);
    stream.wait();
    const Block& into = args.blocks[p.result];
    if (g.accumulate) {
        if (last.packed) return fail_task(args, static_cast<int>(Status::internal), "convolution: short sums");
        return add(args, into, last.place, dense_result);
    }
    return last.packed ? convert(args, last, into.data, dense_result, false) : 0;
}

}  // namespace

bool has_convolution() { return true; }
int convolution(const Args& args) { return run(args, forward); }
int convolution_backward_input(const Args& args) { return run(args, backward_input); }
int convolution_backward_weight(const Args& args) { return run(args, backward_weight); }

}  // namespace nntile::kernels

#else

namespace nntile::kernels {

bool has_convolution() { return false; }
int convolution(const Args& args) { return fail_task(args, 1, "convolution: built without oneDNN"); }
int convolution_backward_input(const Args& args) { return convolution(args); }
int convolution_backward_weight(const Args& args) { return convolution(args); }

}  // namespace nntile::kernels

#endif
