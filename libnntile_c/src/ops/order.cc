// SPDX-License-Identifier: BSD-3-Clause
// Rows whose dim has an order: cumulative sums and extremes, sorting, searching, turning round.
// That dim is whole.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

size_t dim_of(const Call& call, size_t rank) {
    return static_cast<size_t>(wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(rank)));
}
// Labels of x with those of `dim` last; a number is a row of one element.
Labels rows_last(const Dims& x, size_t dim, Relation& r) {
    Labels l(x.size());
    for (size_t d = 0; d < x.size(); ++d)
        if (d != dim) {
            l[d] = static_cast<int8_t>(r.labels.size());
            r.labels.push_back({x[d], LabelKind::parallel});
        }
    return l;
}
int8_t whole_label(Relation& r, int64_t extent) {
    r.labels.push_back({extent, LabelKind::whole});
    return static_cast<int8_t>(r.labels.size() - 1);
}

void scan_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = call.inputs[0].sizes;
    dim_of(call, x.size());
    outputs.push_back({call.compute, x, false});
    if (call.row.outputs.size() > 1) outputs.push_back({DType::i64, x, false});
}
void scan_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const size_t dim = dim_of(call, x.size());
    Labels l = rows_last(x, dim, r);
    const int8_t d = whole_label(r, x.empty() ? 1 : x[dim]);
    if (!x.empty()) l[dim] = d;
    r.operands.assign(1 + outputs.size(), l);
}
void scan_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.row.name == "cumsum" ? 0 : call.row.name == "cumprod" ? 1 : 2)};
}
void extreme_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.row.name == "cummax")};
}

// How many of a row there are in the result.
int64_t kept(const Call& call) {
    const Dims& x = call.inputs[0].sizes;
    const int64_t n = x.empty() ? 1 : x[dim_of(call, x.size())];
    if (call.row.name == "sort") return n;
    const int64_t k = call.attr("k").i;
    const bool one = call.row.name == "kthvalue";
    check(k >= (one ? 1 : 0) && k <= n, Status::invalid_argument, call.row.name,
          ": selected index k out of range, k is ", k, " of ", n);
    return one ? 1 : k;
}
void sort_shape(const Call& call, std::vector<Type>& outputs) {
    Dims y = call.inputs[0].sizes;
    const int64_t k = kept(call);
    if (!y.empty()) y[dim_of(call, y.size())] = k;
    outputs = {{call.compute, y, false}, {DType::i64, y, false}};
}
void sort_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const size_t dim = dim_of(call, x.size());
    Labels of_x = rows_last(x, dim, r), of_y = of_x;
    const int8_t k = whole_label(r, kept(call)), d = whole_label(r, x.empty() ? 1 : x[dim]);
    if (!x.empty()) {
        of_x[dim] = d;
        of_y[dim] = k;
    }
    r.operands = {of_x, of_y, of_y};
    // About log2(k) comparisons for each element.
    double levels = 1;
    for (int64_t n = r.labels[k].extent; n > 1; n /= 2) ++levels;
    r.flops = 4 * levels / static_cast<double>(std::max<int64_t>(r.labels[k].extent, 1));
}
void sort_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    for (const AttrRow& a : call.row.attrs)
        if (a.name != "dim" && (a.name != "k" || call.row.name == "kthvalue"))
            out.push_back(fixed_param(call.attr(a.name).i));
}

void flip_shape(const Call& call, std::vector<Type>& outputs) {
    const auto rank = static_cast<int64_t>(call.inputs[0].sizes.size());
    std::vector<bool> seen(static_cast<size_t>(rank));
    for (int64_t d : call.attr("dims").ints) {
        const int64_t w = wrap_dim(call.row, d, rank);
        if (rank == 0) continue;
        check(!seen[w], Status::invalid_argument, call.row.name, ": dim ", w,
              " appears multiple times in the list of "
              "dims");
        seen[w] = true;
    }
    outputs.push_back({call.compute, call.inputs[0].sizes, false});
}
std::vector<bool> turned(const Call& call) {
    const Dims& x = call.inputs[0].sizes;
    std::vector<bool> dims(x.size());
    for (int64_t d : call.attr("dims").ints)
        if (!x.empty()) dims[wrap_dim(call.row, d, static_cast<int64_t>(x.size()))] = true;
    return dims;
}
void flip_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const auto dims = turned(call);
    Labels l(x.size());
    for (bool whole : {false, true})
        for (size_t d = 0; d < x.size(); ++d)
            if (dims[d] == whole) {
                l[d] = static_cast<int8_t>(r.labels.size());
                r.labels.push_back({x[d], whole ? LabelKind::whole : LabelKind::parallel});
            }
    r.operands = {l, l};
}
void flip_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    const auto dims = turned(call);
    out = {fixed_param(std::count(dims.begin(), dims.end(), true))};
}

void triangle_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims& x = call.inputs[0].sizes;
    check(x.size() >= 2, Status::invalid_argument, call.row.name,
          ": input tensor must have at least 2 dimensions");
    outputs.push_back({call.compute, x, false});
}
void triangle_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    parallel_labels(x, r);
    r.labels.back().kind = LabelKind::whole;
    r.operands.assign(2, iota_labels(x.size()));
}
void triangle_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("diagonal").i), fixed_param(call.row.name == "triu")};
}
OpRow triangle(const char* name, const char* doc) {
    return {.name = name,
            .doc = doc,
            .rule = Rule::whole,
            .inputs = {{"x"}},
            .outputs = {{"y"}},
            .attrs = {{"diagonal", AttrKind::integer, "0"}},
            .shape = triangle_shape,
            .relate = triangle_relate,
            .kernel = "triangle",
            .kernel_dims = 2,
            .params = triangle_params,
            .flops = 0};
}

// sequence, x, sorter? -> y. A sequence of one dim is that of all rows.
void search_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &s = call.inputs[0].sizes, &x = call.inputs[1].sizes;
    bool fits = s.size() == 1 || (!s.empty() && s.size() == x.size());
    for (size_t d = 0; fits && s.size() > 1 && d + 1 < s.size(); ++d) fits = s[d] == x[d];
    check(fits, Status::invalid_argument, call.row.name, ": boundaries ", text_of_dims(s),
          " and values ", text_of_dims(x),
          " do not match: the boundaries must be 1-D, or have the same leading dims");
    check(!call.has(2) || call.inputs[2].sizes == s, Status::invalid_argument, call.row.name,
          ": boundaries and sorter must have one shape");
    outputs.push_back({call.attr("out_int32").i ? DType::i32 : DType::i64, x, false});
}
void search_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims &s = call.inputs[0].sizes, &x = call.inputs[1].sizes;
    parallel_labels(x, r);
    const int8_t n = whole_label(r, s.back());
    Labels of_s;
    for (size_t d = 0; d + 1 < s.size(); ++d) of_s.push_back(static_cast<int8_t>(d));
    of_s.push_back(n);
    const Labels of_x = iota_labels(x.size());
    r.operands = {of_s, of_x, call.has(2) ? of_s : Labels{}, of_x};
    r.flops = 16 / static_cast<double>(std::max<int64_t>(s.back(), 1));
}
void search_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(call.attr("right").i)};
}

void draw_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &p = call.inputs[0].sizes, &u = call.inputs[1].sizes;
    bool fits = !p.empty() && p.size() == u.size() && p.back() > 0;
    for (size_t d = 0; fits && d + 1 < p.size(); ++d) fits = p[d] == u[d];
    check(fits, Status::invalid_argument, call.row.name, ": p ", text_of_dims(p), " and u ",
          text_of_dims(u), " do not match: they differ in the last dim alone, of which p has some");
    outputs.push_back({DType::i64, u, false});
}
void draw_relate(const Call& call, std::span<const Type>, Relation& r) {
    const Dims &p = call.inputs[0].sizes, &u = call.inputs[1].sizes;
    parallel_labels(u, r);
    const int8_t d = whole_label(r, p.back());
    Labels of_p = iota_labels(p.size());
    of_p.back() = d;
    const Labels of_u = iota_labels(u.size());
    r.operands = {of_p, of_u, of_u};
    r.flops = 4 / static_cast<double>(std::max<int64_t>(u.back(), 1));
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(order) {
    const AttrRow dim{"dim", AttrKind::integer, "-1"};
    const auto scan = [&](const char* name, const char* doc, Types types) {
        return OpRow{.name = name,
                     .doc = doc,
                     .rule = Rule::whole,
                     .types = types,
                     .inputs = {{"x"}},
                     .outputs = {{"y"}},
                     .attrs = {dim},
                     .shape = scan_shape,
                     .relate = scan_relate,
                     .kernel = "scan",
                     .kernel_dims = 1,
                     .params = scan_params,
                     .flops = 4};
    };
    const auto extreme = [&](const char* name, const char* doc) {
        return OpRow{.name = name,
                     .doc = doc,
                     .rule = Rule::whole,
                     .inputs = {{"x"}},
                     .outputs = {{"y"}, {"indices", "i64"}},
                     .attrs = {dim},
                     .shape = scan_shape,
                     .relate = scan_relate,
                     .kernel = "cumulative_extreme",
                     .kernel_dims = 1,
                     .params = extreme_params,
                     .flops = 4};
    };
    const AttrRow k{"k", AttrKind::integer, "1"};
    const auto first = [&](const char* name, const char* doc, std::vector<AttrRow> attrs) {
        return OpRow{.name = name,
                     .doc = doc,
                     .rule = Rule::whole,
                     .inputs = {{"x"}},
                     .outputs = {{"y"}, {"indices", "i64"}},
                     .attrs = std::move(attrs),
                     .shape = sort_shape,
                     .relate = sort_relate,
                     .kernel = name,
                     .kernel_dims = 2,
                     .params = sort_params};
    };
    return {
        scan("cumsum", "y[.., d] = sum of x[.., 0..d]", Types::real),
        scan("cumprod", "y[.., d] = product of x[.., 0..d]", Types::real),
        scan("logcumsumexp", "y[.., d] = log(sum of exp(x[.., 0..d]))", Types::floating),
        extreme("cummax", "y[.., d] = max of x[.., 0..d], and where the last of them is; nan wins"),
        extreme("cummin", "y[.., d] = min of x[.., 0..d], and where the last of them is; nan wins"),
        first("sort",
              "x sorted along dim, and where its elements were; of equals the first stays first",
              {dim, {"descending", AttrKind::integer, "0"}}),
        first("topk",
              "the k largest (or smallest) of x along dim, in order if sorted, and where they were",
              {dim, {"largest", AttrKind::integer, "1"}, {"sorted", AttrKind::integer, "1"}, k}),
        first("kthvalue", "the k-th smallest of x along dim, which stays, and where it was",
              {dim, k}),
        {.name = "flip",
         .doc = "y = x with the order of dims turned round",
         .rule = Rule::whole,
         .inputs = {{"x"}},
         .outputs = {{"y"}},
         .attrs = {{"dims", AttrKind::integers, ""}},
         .shape = flip_shape,
         .relate = flip_relate,
         .kernel = "flip",
         .params = flip_params,
         .flops = 0},
        triangle("tril", "y = x on and below a diagonal of its matrices, 0 above"),
        triangle("triu", "y = x on and above a diagonal of its matrices, 0 below"),
        {.name = "searchsorted",
         .doc = "y[.., m] = how many of the sorted sequence[.., n] are less than x[.., m], or "
                "equal to it if right",
         .rule = Rule::whole,
         .inputs = {{"sequence"}, {"x"}, {"sorter?", "i64"}},
         .outputs = {{"y", "any"}},
         .attrs = {{"right", AttrKind::integer, "0"}, {"out_int32", AttrKind::integer, "0"}},
         .shape = search_shape,
         .relate = search_relate,
         .kernel = "searchsorted",
         .params = search_params},
        {.name = "draw",
         .doc = "y[.., k] = the first d up to which the sum of p[.., 0..d] passes u[.., k] of the "
                "whole: a draw, if u is uniform in [0, 1)",
         .rule = Rule::whole,
         .types = Types::floating,
         .inputs = {{"p"}, {"u", "f64"}},
         .outputs = {{"y", "i64"}},
         .shape = draw_shape,
         .relate = draw_relate,
         .kernel = "draw",
         .kernel_dims = 2},
    };
}
