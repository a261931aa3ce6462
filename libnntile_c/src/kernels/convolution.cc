// SPDX-License-Identifier: BSD-3-Clause
// Convolutions by oneDNN, the library of the field, where they are no products of matrices
// (convolution_product.cc). A task is one call of it on one thread.
// Primitives are made once for each thread and geometry; images lie inside as the library has fast
// code for, and its memory is kept between calls.
#include "kernels/functions.hh"
#include "kernels/space.hh"

#ifdef NNTILE_HAVE_ONEDNN

#include <map>

#include "kernels/convolution_plan.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {
namespace {

using namespace convolutions;

constexpr size_t most_primitives = 512;  // of a thread; a loop of one model needs some dozens

// Copies between a block and dense float32.
int convert(const Args& args, const Way& way, std::byte* block, std::byte* dense, bool load) {
    Args one = args;
    const Block a{block, way.dtype, way.layout.strides.data()},
        b{dense, way.read, way.dense.strides.data()};
    const Block blocks[] = {load ? a : b, load ? b : a};
    one.sizes = way.layout.sizes;
    one.blocks = blocks;
    one.params = {};
    return copy(one);
}

int add(const Args& args, std::byte* into, const Way& way, const std::byte* dense) {
    const int64_t* all[] = {way.layout.strides.data(), way.dense.strides.data()};
    Args one = args;
    one.sizes = way.layout.sizes;
    Space space;
    if (int status = space.make(one, all, {0})) return status;
    if (space.empty()) return 0;
    auto* y = reinterpret_cast<float*>(into);
    const auto* x = reinterpret_cast<const float*>(dense);
    const int last = space.dims - 1;
    const int64_t count = space.sizes[last], sy = space.strides[0][last],
                  sx = space.strides[1][last];
    Walk walk(space, last);
    do {
        float* to = y + walk.offset[0];
        const float* from = x + walk.offset[1];
        for (int64_t i = 0; i < count; ++i) to[i * sy] += from[i * sx];
    } while (walk.next());
    return 0;
}

std::vector<int64_t> key_of(const Args& args, Kind kind, bool accumulate) {
    std::vector<int64_t> key{kind, accumulate};
    key.insert(key.end(), args.sizes.begin(), args.sizes.end());
    for (const Param& p : args.params) key.push_back(p.i);
    for (const Block& b : args.blocks) {
        key.push_back(b.data ? static_cast<int64_t>(b.dtype) : -1);
        if (b.data) key.insert(key.end(), b.strides, b.strides + args.sizes.size());
    }
    return key;
}

const Prepared& prepared(const Args& args, Kind kind, bool accumulate) {
    thread_local std::map<std::vector<int64_t>, std::unique_ptr<Prepared>> known;
    auto key = key_of(args, kind, accumulate);
    if (known.size() >= most_primitives && !known.count(key)) known.clear();
    auto& slot = known[std::move(key)];
    if (!slot) slot = prepare(args, kind, accumulate);
    return *slot;
}

int run(const Args& args, Kind kind) {
    if (is_product(args, kind)) return run_product(args, kind);
    if (is_sum_of_planes(args, kind)) return run_planes(args, kind);
    return run_library(args, kind, kind == backward_weight && args.params[0].i);
}

}  // namespace

int convolutions::run_library(const Args& args, Kind kind, bool accumulate) {
    thread_local Scratch scratch;
    dnnl::stream& stream = dnn_stream();
    const OneDnnThread one_thread;
    const Prepared& p = prepared(args, kind, accumulate);
    scratch.begin(p.bytes);
    std::unordered_map<int, memory> arguments;
    std::byte *dense_result = nullptr, *into = nullptr;
    memory own_result, inside_result;
    for (size_t k = 0; k < p.ways.size(); ++k) {
        const Way& way = p.ways[k];
        if (way.dtype == DType::none) continue;
        std::byte* data = args.blocks[k].data;
        if (k == p.weight) data += p.first_tap;
        const bool result = k == p.result;
        if (result) into = data;
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
    arguments.emplace(DNNL_ARG_SCRATCHPAD,
                      memory(p.scratchpad, dnn_engine(), scratch.take(p.scratchpad.get_size())));
    const Way& last = p.ways[p.result];
    if (p.clear)  // taps that are left out are no part of the primitive's result
        if (int status = clear(args, args.blocks[p.result])) return status;
    p.primitive.execute(stream, arguments);
    if (last.reordered) last.reorder.execute(stream, inside_result, own_result);
    stream.wait();
    if (p.accumulate) {
        if (last.dtype != DType::f32)
            return fail_task(args, static_cast<int>(Status::internal), "convolution: short sums");
        return add(args, into, last, dense_result);
    }
    return last.packed ? convert(args, last, into, dense_result, false) : 0;
}

int convolutions::clear(const Args& args, const Block& block) {
    Args one = args;
    const Param zero{.i = 0};
    SmallVector<int64_t, 16> sizes(args.sizes.begin(), args.sizes.end());
    for (size_t d = 0; d < sizes.size(); ++d)
        if (block.strides[d] == 0) sizes[d] = 1;
    one.sizes = sizes;
    one.blocks = {&block, 1};
    one.params = {&zero, 1};
    return fill(one);
}

bool has_convolution() { return true; }
int convolution(const Args& args) { return run(args, forward); }
int convolution_backward_input(const Args& args) { return run(args, backward_input); }
int convolution_backward_weight(const Args& args) { return run(args, backward_weight); }

std::string convolution_code(const Args& args, std::string_view kernel) {
    const Kind kind = kernel == "convolution"     ? forward
                      : kernel.ends_with("input") ? backward_input
                                                  : backward_weight;
    if (is_product(args, kind)) return "product";
    if (is_sum_of_planes(args, kind)) return "planes";
    const OneDnnThread one_thread;
    const Prepared& p = prepared(args, kind, false);
    std::string names = p.name;
    for (const Way& way : p.ways)
        if (way.reordered) names += " " + way.reorder_name;
    return names;
}

}  // namespace nntile::kernels

#else

namespace nntile::kernels {

bool has_convolution() { return false; }
int convolution(const Args& args) {
    return fail_task(args, 1, "convolution: built without oneDNN");
}
int convolution_backward_input(const Args& args) { return convolution(args); }
int convolution_backward_weight(const Args& args) { return convolution(args); }
std::string convolution_code(const Args&, std::string_view) { return ""; }

}  // namespace nntile::kernels

#endif
