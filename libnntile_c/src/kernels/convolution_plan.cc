// SPDX-License-Identifier: BSD-3-Clause
// Which code of oneDNN a convolution takes, and how its operands get there. For a pair of layouts
// that the library does not know it has reference code only, a hundred times slower.
#ifdef NNTILE_HAVE_ONEDNN

#include "kernels/convolution_plan.hh"

#include <algorithm>

#include "base/error.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels::convolutions {
namespace {

// The task's dims: n, co, c, group, then spatial ones of y, x and the window. Taps that meet
// padding only, wherever the window is, are left out: of a window of 3 x 3 on a map of 1 x 1 one of
// nine is left. For the library a row is an image of one row: it has more code for images.
struct Geometry {
    Kind kind;
    size_t rank;
    bool accumulate, sums_inside, cropped = false;
    int64_t groups;
    SmallVector<int64_t, 16> sizes;
    SmallVector<int64_t, 3> skipped;  // taps, of each spatial dim
    memory::dims stride, dilation, left, right;

    Geometry(const Args& args, Kind k, bool adds)
        : kind(k),
          rank((args.sizes.size() - 4) / 3),
          accumulate(adds),
          sums_inside(adds && k == forward),
          groups(args.params[k == backward_weight].i),
          sizes(args.sizes.begin(), args.sizes.end()) {
        const Param* window = args.params.data() + (k == backward_weight) + 1;
        for (size_t d = 0; d < rank; ++d) {
            const int64_t step = window[d].i, padding = window[rank + d].i,
                          apart = window[2 * rank + d].i;
            const int64_t ys = sizes[y(d)], xs = sizes[x(d)];
            const auto meets = [&](int64_t tap) {
                for (int64_t o = 0; o < ys; ++o) {
                    const int64_t at = o * step - padding + tap * apart;
                    if (at >= 0 && at < xs) return true;
                }
                return false;
            };
            int64_t first = 0, taps = sizes[w(d)];
            while (first < taps && !meets(first)) ++first;
            if (first == taps) first = 0;
            else
                while (!meets(taps - 1)) --taps;
            while (first > 0 && first * apart > padding) --first;
            // A row beyond the last window is no padding to oneDNN, a whole step of them an error
            const auto beyond = [&] {
                return padding + xs - (ys - 1) * step - (taps - 1) * apart - 1;
            };
            while (taps < sizes[w(d)] && beyond() >= step) ++taps;
            taps -= first;
            cropped |= taps != sizes[w(d)];
            sizes[w(d)] = taps;
            skipped.push_back(first);
            stride.push_back(step);
            dilation.push_back(apart - 1);  // of oneDNN, a dilation of 0 is none
            left.push_back(padding - first * apart);
            right.push_back((ys - 1) * step + (taps - 1) * apart + 1 - xs - left.back());
        }
        if (rank == 1) {
            stride.insert(stride.begin(), 1);
            for (memory::dims* values : {&dilation, &left, &right})
                values->insert(values->begin(), 0);
        }
    }

    size_t y(size_t d) const { return 4 + d; }
    size_t x(size_t d) const { return 4 + rank + d; }
    size_t w(size_t d) const { return 4 + 2 * rank + d; }
    int64_t offset(const Block& weight) const {  // of the first tap that is left, in elements
        int64_t offset = 0;
        for (size_t d = 0; d < rank; ++d) offset += skipped[d] * weight.strides[w(d)];
        return offset;
    }
};

DnnLayout layout_of(const Geometry& g, char operand, const int64_t* strides) {
    DnnLayout p;
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
        if (g.rank == 1) add(1, 0);
        for (size_t d = 0; d < g.rank; ++d) own(g.w(d));
        return p;
    }
    own(0);
    own(operand == 'x' ? 2 : 1);
    if (g.rank == 1) add(1, 0);
    for (size_t d = 0; d < g.rank; ++d) own(operand == 'x' ? g.x(d) : g.y(d));
    return p;
}

// How images lie inside: with their channels last, as the library likes it, or in the usual order,
// the weight too. All of them alike: of two that differ the library has reference code, and slow
// code for a channel to itself.
enum class Inside { last, chosen, usual };

struct Candidate {
    dnnl::primitive_desc primitive;  // of any of the kinds
    std::string name = "none";

    // Code of one's own comes before im2col and a product, and that before loops.
    int rank() const { return is_slow(name) ? 2 : name.find("gemm") != name.npos; }
};

Candidate candidate(const Geometry& g, const std::vector<Way>& ways, Inside inside) {
    using Forward = dnnl::convolution_forward::primitive_desc;
    const auto desc = [&](char operand) {
        const size_t k = operands_of[g.kind].find(operand);
        if (k != std::string_view::npos && ways[k].dtype == DType::none) return memory::desc();
        const DnnLayout& p = ways[k].layout;
        const bool weight = operand == 'w' || operand == 'b';
        if (inside == Inside::chosen || (weight && inside == Inside::last))
            return memory::desc(p.sizes, type_of(ways[k].read), memory::format_tag::any);
        return p.dense(inside == Inside::last).desc(ways[k].read);
    };
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (g.sums_inside) {
        dnnl::post_ops sum;
        sum.append_sum();
        attr.set_post_ops(sum);
    }
    const auto algorithm = dnnl::algorithm::convolution_direct;
    const memory::desc x = desc('x'), w = desc('w'), y = desc('y'),
                       b = g.kind == forward ? desc('b') : memory::desc();
    const bool or_none = true;
    const Forward there(dnn_engine(), dnnl::prop_kind::forward_training, algorithm, x, w, b, y,
                        g.stride, g.dilation, g.left, g.right, attr, or_none);
    Candidate made;
    if (!there.get(true)) return made;
    if (g.kind == forward) made.primitive = there;
    else if (g.kind == backward_input)
        made.primitive = dnnl::convolution_backward_data::primitive_desc(
            dnn_engine(), algorithm, x, w, y, g.stride, g.dilation, g.left, g.right, there, attr,
            or_none);
    else
        made.primitive = dnnl::convolution_backward_weights::primitive_desc(
            dnn_engine(), algorithm, x, w, y, g.stride, g.dilation, g.left, g.right, there, attr,
            or_none);
    if (made.primitive.get(true)) made.name = made.primitive.impl_info_str();
    return made;
}

Candidate best_candidate(const Geometry& g, const std::vector<Way>& ways) {
    // Of dx: kernels made for blocks of channels compute some for nothing
    constexpr int64_t few_channels = 8;
    // Of y: to bring the weight into another layout costs more than to use it
    constexpr int64_t few_pixels = 4;
    bool last = false;
    for (size_t k = 0; k < ways.size(); ++k) {
        const char operand = operands_of[g.kind][k];
        last |= (operand == 'x' || operand == 'y') && ways[k].layout.lies_last();
    }
    SmallVector<Inside, 4> order{last ? Inside::last : Inside::chosen, Inside::last, Inside::chosen,
                                 Inside::usual};
    int64_t pixels = g.sizes[0];
    for (size_t d = 0; d < g.rank; ++d) pixels *= g.sizes[g.y(d)];
    if (g.groups == 1 &&
        (pixels <= few_pixels || (g.kind == backward_input && g.sizes[2] < few_channels)))
        order = {Inside::usual, order[0]};
    Candidate best;
    for (const Inside inside : order) {
        Candidate next = candidate(g, ways, inside);
        if (next.rank() < best.rank() || best.name == "none") best = std::move(next);
        if (best.rank() == 0 || (inside == Inside::usual && best.rank() == 1)) break;
    }
    return best;
}

// The same elements in the same places; the stride of a dim of one element says nothing.
bool lies_so(const DnnLayout& place, const memory::desc& desc) {
    if (desc.get_inner_nblks() != 0 || desc.get_padded_dims() != place.sizes) return false;
    const auto strides = desc.get_strides();
    for (size_t d = 0; d < strides.size(); ++d)
        if (place.sizes[d] > 1 && place.strides[d] != strides[d]) return false;
    return true;
}

// Whether the primitive can add to the result as it lies.
bool adds_in_place(const Candidate& made, const Way& result) {
    return !is_slow(made.name) && result.dtype == result.read && result.layout.lies_apart() &&
           lies_so(result.layout, made.primitive.query_md(dnnl::query::exec_arg_md, DNNL_ARG_DST));
}

// How the operand gets there; `summed`: into memory of ours, from which it is added.
void route(Way& way, bool result, bool summed) {
    const auto reorder = [&](const memory::desc& own) {
        way.own = own;
        const memory::desc &from = result ? way.inside : own, &to = result ? own : way.inside;
        const dnnl::reorder::primitive_desc made(dnn_engine(), from, dnn_engine(), to, {}, true);
        way.reorder_name = made.get(true) ? made.impl_info_str() : "none";
        if (made.get(true)) way.reorder = dnnl::reorder(made);
        way.reordered = true;
    };
    const auto pack = [&] {
        const bool plain =
            way.inside.get_inner_nblks() == 0 && way.inside.get_padded_dims() == way.layout.sizes;
        way.packed = true;
        way.dense =
            plain ? DnnLayout{way.layout.sizes, way.inside.get_strides()} : way.layout.dense(false);
        way.dense_bytes = padded(way.inside.get_size());
        way.reordered = false;
        if (plain) way.own = way.inside;
        else reorder(way.dense.desc(way.read));
    };
    if ((is_short_float(way.dtype) && way.read != way.dtype) || !way.layout.lies_apart() || summed)
        pack();
    else if (lies_so(way.layout, way.inside)) way.own = way.inside;
    else {
        DnnLayout place = way.layout;
        int64_t whole = 1;
        for (size_t d = 0; d < place.sizes.size(); ++d)
            if (place.sizes[d] > 1) whole = std::max(whole, place.sizes[d] * place.strides[d]);
        for (size_t d = 0; d < place.sizes.size(); ++d)
            if (place.sizes[d] == 1) place.strides[d] = whole;
        reorder(place.desc(way.read));
        if (is_slow(way.reorder_name)) pack();
    }
    if (way.reordered) way.inside_bytes = padded(way.inside.get_size());
}

}  // namespace

std::unique_ptr<Prepared> prepare(const Args& args, Kind kind, bool accumulate) {
    Geometry g(args, kind, accumulate);
    auto made = std::make_unique<Prepared>();
    const std::string_view order = operands_of[g.kind];
    for (size_t k = 0; k < order.size(); ++k) {
        const Block& block = args.blocks[k];
        Way way;
        if (block.data) {
            way.layout = layout_of(g, order[k], block.strides);
            way.dtype = block.dtype;
        }
        made->ways.push_back(std::move(way));
    }
    made->result = order.size() - 1;
    made->weight = order.find('w');
    const Block& weight = args.blocks[made->weight];
    made->first_tap = g.offset(weight) * static_cast<int64_t>(size_of(weight.dtype));
    made->clear = g.kind == backward_weight && g.cropped && !g.accumulate;
    Candidate best;
    const DType dtype = made->ways[0].dtype;
    const bool alike = std::all_of(made->ways.begin(), made->ways.end(), [&](const Way& way) {
        return way.dtype == dtype || way.dtype == DType::none;
    });
    // Sums in float32 of short numbers are of two dtypes, and go through float32 as a whole.
    if (alike && is_short_float(dtype) && has_instructions(dtype)) {
        for (Way& way : made->ways) way.read = dtype;
        best = best_candidate(g, made->ways);
        if (is_slow(best.name))
            for (Way& way : made->ways) way.read = DType::f32;
    }
    if (is_slow(best.name)) best = best_candidate(g, made->ways);
    if (g.sums_inside && !adds_in_place(best, made->ways.back())) {
        g.sums_inside = false;
        best = best_candidate(g, made->ways);
    }
    check(best.primitive.get(true), Status::unsupported,
          "convolution: oneDNN has no code for this one");
    made->accumulate = g.accumulate && !g.sums_inside;
    made->name = best.name;
    made->primitive = dnnl::primitive(best.primitive);
    made->scratchpad = best.primitive.scratchpad_desc();
    constexpr int names[][4] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
                                {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
                                {DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS}};
    for (size_t k = 0; k < order.size(); ++k) {
        Way& way = made->ways[k];
        made->names.push_back(names[g.kind][k]);
        if (way.dtype == DType::none) continue;
        way.inside = best.primitive.query_md(dnnl::query::exec_arg_md, made->names[k]);
        route(way, k == made->result, k == made->result && made->accumulate);
        made->bytes += way.dense_bytes + way.inside_bytes;
    }
    made->bytes += padded(made->scratchpad.get_size());
    return made;
}

}  // namespace nntile::kernels::convolutions

#endif
