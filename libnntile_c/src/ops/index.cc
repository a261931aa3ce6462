// SPDX-License-Identifier: BSD-3-Clause
// Elements read and written by index. Kernel dims: those that share an index or a place, then the
// dims that indices lead into, which are whole. What is written comes in the order of the indices,
// so these are whole as well: no cut changes the bits of a sum.
#include "ops/common.hh"

namespace nntile::ops {
namespace {

constexpr size_t not_indexed = SIZE_MAX;

// Labels in kernel order; a visit is one of the result's (or of the source's) elements, whatever
// the table's sizes are.
void finish(Relation& r, size_t first_of_table) {
    double table = 1;
    for (size_t l = first_of_table; l < r.labels.size(); ++l)
        table *= static_cast<double>(std::max<int64_t>(r.labels[l].extent, 1));
    r.flops = 1 / table;
}
int8_t add_label(Relation& r, int64_t extent, LabelKind kind) {
    r.labels.push_back({extent, kind});
    return static_cast<int8_t>(r.labels.size() - 1);
}

// ---- along one dim: index has all dims of x, or of what is written

size_t dim_of(const Call& call, size_t rank) {
    return static_cast<size_t>(wrap_dim(call.row, call.attr("dim").i, static_cast<int64_t>(rank)));
}
void check_rank(const Call& call, const char* name, const Dims& a, const Dims& b) {
    check(a.size() == b.size(), Status::invalid_argument, call.row.name, ": ", name, " ",
          text_of_dims(a), " and index ", text_of_dims(b), " must have the same number of dims");
}

void gather_rows_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &x = call.inputs[0].sizes, &index = call.inputs[1].sizes;
    check_rank(call, "x", x, index);
    const size_t dim = dim_of(call, x.size());
    for (size_t d = 0; d < x.size(); ++d)
        check(d == dim || x[d] == index[d], Status::invalid_argument, call.row.name, ": x ",
              text_of_dims(x), " and index ", text_of_dims(index), " may only differ in dim ", dim);
    outputs.push_back({call.compute, index, false});
}
void gather_rows_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    parallel_labels(outputs[0].sizes, r);
    Labels of_x = iota_labels(x.size());
    const int8_t table = add_label(r, x.empty() ? 1 : x[dim_of(call, x.size())], LabelKind::whole);
    if (!x.empty()) of_x[dim_of(call, x.size())] = table;
    r.operands = {of_x, iota_labels(x.size()), iota_labels(x.size())};
    finish(r, r.labels.size() - 1);
}
void gather_rows_params(const Call&, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(1), fixed_param(0)};
}

// y, x, index -> y
void scatter_rows_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &y = call.inputs[0].sizes, &x = call.inputs[1].sizes, &index = call.inputs[2].sizes;
    check_rank(call, "y", y, index);
    const size_t dim = dim_of(call, y.size());
    for (size_t d = 0; d < y.size(); ++d)
        check(d == dim || y[d] == index[d], Status::invalid_argument, call.row.name, ": y ",
              text_of_dims(y), " and index ", text_of_dims(index), " may only differ in dim ", dim);
    check(call.inputs[1].scalar || x.empty() || x == index, Status::invalid_argument, call.row.name,
          ": x ", text_of_dims(x), " and index ", text_of_dims(index), " must have one shape");
    outputs.push_back({call.compute, y, false});
}
void scatter_rows_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims &y = outputs[0].sizes, &index = call.inputs[2].sizes;
    const size_t n = y.size(), dim = dim_of(call, n);
    Labels of_y(n), of_index(n);
    for (size_t d = 0; d < n; ++d)
        if (d != dim) of_y[d] = of_index[d] = add_label(r, y[d], LabelKind::parallel);
    const int8_t more = add_label(r, n ? index[dim] : 1, LabelKind::whole);
    const int8_t table = add_label(r, n ? y[dim] : 1, LabelKind::whole);
    if (n) {
        of_y[dim] = table;
        of_index[dim] = more;
    }
    r.operands = {of_y, call.inputs[1].sizes.empty() ? Labels{} : of_index, of_index, of_y};
    finish(r, r.labels.size() - 1);
}

constexpr const char* modes = "put|sum|prod|amin|amax";

void scatter_params(const Call& call, bool of_dim, int64_t wrap, int64_t more,
                    std::vector<ParamSpec>& out) {
    out = {fixed_param(of_dim),
           fixed_param(wrap),
           fixed_param(more),
           fixed_param(call.attr("mode").i),
           fixed_param(call.attr("include_self").i),
           attr_param(call.row, "alpha")};
}
void scatter_rows_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    scatter_params(call, true, 0, 1, out);
}

uint32_t dense(Builder& graph, uint32_t value) {
    const Layout own = graph.layout_of(value);
    return own.strides == dense_strides(own.sizes) ? value
                                                   : graph.copy(value, graph.type_of(value).dtype);
}
uint32_t seen_as(Builder& graph, uint32_t value, const Dims& sizes) {
    if (graph.type_of(value).sizes == sizes) return value;
    return graph.view(dense(graph, value), Layout::dense(sizes));
}
// The part of a value that has these sizes and begins where it does.
uint32_t narrowed(Builder& graph, uint32_t value, const Dims& sizes) {
    if (graph.type_of(value).sizes == sizes) return value;
    return graph.view(dense(graph, value), {sizes, dense_strides(graph.type_of(value).sizes), 0});
}
// Sizes of `all`, but for dim those of index.
Dims along(const Dims& index, const Dims& all, size_t dim) {
    Dims sizes = index;
    if (!sizes.empty()) sizes[dim] = all[dim];
    return sizes;
}

// A number is a tensor of one element and one dim.
Dims at_least_1d(const Dims& sizes) { return sizes.empty() ? Dims{1} : sizes; }

void gather_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, call.inputs[1].sizes, false});
}
Attr ints(const Dims& values) { return {.ints = values}; }
uint32_t nothing(Builder& graph, const Call& call, const Dims& sizes) {
    return graph.op("empty", {}, {ints(sizes)}, call.compute)[0];
}
std::vector<uint32_t> gather(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims sizes = call.inputs[1].sizes, x = at_least_1d(call.inputs[0].sizes),
               index = at_least_1d(sizes);
    if (product(index) == 0) return {nothing(graph, call, sizes)};
    check_rank(call, "x", x, index);
    const uint32_t part =
        narrowed(graph, seen_as(graph, in[0], x), along(index, x, dim_of(call, x.size())));
    const uint32_t y =
        graph.op("gather_rows", std::vector<uint32_t>{part, seen_as(graph, in[1], index)},
                 {call.attr("dim")}, call.compute)[0];
    return {seen_as(graph, y, sizes)};
}

void same_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute, call.inputs[0].sizes, false});
}
std::vector<uint32_t> scatter(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims given = call.inputs[0].sizes, y = at_least_1d(given),
               index = at_least_1d(call.inputs[2].sizes);
    if (product(index) == 0) return {graph.copy(in[0], call.compute)};
    check_rank(call, "y", y, index);
    const Dims sizes = along(index, y, dim_of(call, y.size()));
    const uint32_t base = narrowed(graph, seen_as(graph, in[0], y), sizes);
    const uint32_t x = call.inputs[1].scalar || call.inputs[1].sizes.empty()
                           ? in[1]
                           : narrowed(graph, in[1], index);
    const uint32_t part = graph.op(
        "scatter_rows", std::vector<uint32_t>{base, x, seen_as(graph, in[2], index)},
        {call.attr("dim"), call.attr("mode"), call.attr("include_self"), real(1)}, call.compute)[0];
    if (sizes == y) return {seen_as(graph, part, given)};
    const uint32_t whole = graph.copy(in[0], call.compute);
    return graph.op("view_write", std::vector<uint32_t>{whole, part},
                    {ints(dense_strides(y)), integer(0)}, call.compute);
}

// ---- x[:, i, j]: indices broadcast with each other, and lead into the dims of attribute `dims`

struct IndexedDims {                // where dims of x, of the indices and of the result meet
    SmallVector<size_t, 8> number;  // of each dim of x: which index leads into it
    Dims broadcast, result;
    size_t at = 0;  // where the indices' dims begin in the result

    IndexedDims(const Call& call, const Dims& x, std::span<const Type> indices)
        : number(x.size(), not_indexed) {
        const Dims& dims = call.attr("dims").ints;
        check(dims.size() == indices.size() && !dims.empty(), Status::invalid_argument,
              call.row.name, ": ", indices.size(), " indices for dims ", text_of_dims(dims));
        for (size_t k = 0; k < dims.size(); ++k) {
            check(dims[k] >= 0 && dims[k] < static_cast<int64_t>(x.size()) &&
                      (k == 0 || dims[k] > dims[k - 1]),
                  Status::index_error, call.row.name, ": dims ", text_of_dims(dims),
                  " are not ascending ones of x ", text_of_dims(x));
            number[static_cast<size_t>(dims[k])] = k;
        }
        broadcast = schema::broadcast(call.row, indices);
        const bool together = dims.back() - dims[0] + 1 == static_cast<int64_t>(dims.size());
        at = together ? static_cast<size_t>(dims[0]) : 0;
        Dims kept;
        for (size_t d = 0; d < x.size(); ++d)
            if (number[d] == not_indexed) kept.push_back(x[d]);
        for (size_t d = 0; d <= kept.size(); ++d) {
            if (d == at)
                for (int64_t n : broadcast) result.push_back(n);
            if (d < kept.size()) result.push_back(kept[d]);
        }
    }
    // The label of each dim of x, from those of the result's dims in order, and the table's first
    // one.
    Labels of_x(std::span<const int8_t> result_labels, int8_t table) const {
        Labels l;
        size_t next = 0;
        for (size_t k : number) {
            if (k != not_indexed) {
                l.push_back(static_cast<int8_t>(table + static_cast<int8_t>(k)));
                continue;
            }
            if (next == at) next += broadcast.size();
            l.push_back(result_labels[next++]);
        }
        return l;
    }
    Labels of_index(const Dims& sizes, std::span<const int8_t> result_labels) const {
        Labels l = broadcast_labels(sizes, broadcast);
        for (int8_t& label : l)
            if (label >= 0) label = result_labels[at + static_cast<size_t>(label)];
        return l;
    }
    void add_table(const Dims& x, Relation& r) const {
        for (size_t d = 0; d < x.size(); ++d)
            if (number[d] != not_indexed) add_label(r, x[d], LabelKind::whole);
        finish(r, r.labels.size() - call_count());
    }
    size_t call_count() const {
        return static_cast<size_t>(
            std::count_if(number.begin(), number.end(), [](size_t k) { return k != not_indexed; }));
    }
};

void index_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back({call.compute,
                       IndexedDims(call, call.inputs[0].sizes, call.inputs.subspan(1)).result,
                       false});
}
void index_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& x = call.inputs[0].sizes;
    const IndexedDims p(call, x, call.inputs.subspan(1));
    parallel_labels(outputs[0].sizes, r);
    const Labels y = iota_labels(r.labels.size());
    r.operands = {p.of_x(y, static_cast<int8_t>(r.labels.size()))};
    for (size_t k = 1; k < call.inputs.size(); ++k)
        r.operands.push_back(p.of_index(call.inputs[k].sizes, y));
    r.operands.push_back(y);
    p.add_table(x, r);
}
void index_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    out = {fixed_param(0), fixed_param(call.attr("wrap").i)};
}

// y, x, indices.. -> y; x broadcasts to what index() gives
void index_put_shape(const Call& call, std::vector<Type>& outputs) {
    const IndexedDims p(call, call.inputs[0].sizes, call.inputs.subspan(2));
    const Dims& x = call.inputs[1].sizes;
    bool fits = x.size() <= p.result.size();
    for (size_t d = 0; fits && d < x.size(); ++d)
        fits = x[d] == 1 || x[d] == p.result[p.result.size() - x.size() + d];
    check(fits, Status::invalid_argument, call.row.name, ": shape mismatch: value tensor of shape ",
          text_of_dims(x), " cannot be broadcast to indexing result of shape ",
          text_of_dims(p.result));
    outputs.push_back({call.compute, call.inputs[0].sizes, false});
}
void index_put_relate(const Call& call, std::span<const Type> outputs, Relation& r) {
    const Dims& y = outputs[0].sizes;
    const IndexedDims p(call, y, call.inputs.subspan(2));
    Labels of_result(p.result.size());
    for (size_t d = 0; d < p.result.size(); ++d)
        if (d < p.at || d >= p.at + p.broadcast.size())
            of_result[d] = add_label(r, p.result[d], LabelKind::parallel);
    for (size_t d = p.at; d < p.at + p.broadcast.size(); ++d)
        of_result[d] = add_label(r, p.result[d], LabelKind::whole);
    const Labels of_y = p.of_x(of_result, static_cast<int8_t>(r.labels.size()));
    Labels of_x = broadcast_labels(call.inputs[1].sizes, p.result);
    for (int8_t& label : of_x)
        if (label >= 0) label = of_result[static_cast<size_t>(label)];
    r.operands = {of_y, of_x};
    for (size_t k = 2; k < call.inputs.size(); ++k)
        r.operands.push_back(p.of_index(call.inputs[k].sizes, of_result));
    r.operands.push_back(of_y);
    p.add_table(y, r);
}
void index_put_params(const Call& call, bool, std::vector<ParamSpec>& out) {
    const IndexedDims p(call, call.inputs[0].sizes, call.inputs.subspan(2));
    scatter_params(call, false, call.attr("wrap").i, static_cast<int64_t>(p.broadcast.size()), out);
}

// ---- one index tensor of at most one dim, in the place of `dim`; numbers are tensors of one
// element

const Dims& check_one(const Call& call, size_t input) {
    const Dims& index = call.inputs[input].sizes;
    check(index.size() <= 1, Status::index_error, call.row.name,
          ": Index is supposed to be a vector, got ", text_of_dims(index));
    return index;
}
Dims with_index(const Call& call, const Dims& x, const Dims& index) {
    Dims sizes = x;
    if (!sizes.empty()) sizes[dim_of(call, x.size())] = product(index);
    return sizes;
}

void index_select_shape(const Call& call, std::vector<Type>& outputs) {
    outputs.push_back(
        {call.compute, with_index(call, call.inputs[0].sizes, check_one(call, 1)), false});
}
std::vector<uint32_t> index_select(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims &x = call.inputs[0].sizes, &index = call.inputs[1].sizes;
    const uint32_t table = seen_as(graph, in[0], at_least_1d(x));
    const uint32_t y = graph.op(
        "index", std::vector<uint32_t>{table, seen_as(graph, in[1], at_least_1d(index))},
        {ints({static_cast<int64_t>(dim_of(call, x.size()))}), integer(0)}, call.compute)[0];
    return {seen_as(graph, y, with_index(call, x, index))};
}

// y, x, index -> y
void index_add_shape(const Call& call, std::vector<Type>& outputs) {
    const Dims &y = call.inputs[0].sizes, &index = check_one(call, 2);
    if (!call.inputs[1].scalar && !call.inputs[1].sizes.empty())
        check(at_least_1d(call.inputs[1].sizes) ==
                  with_index(call, at_least_1d(y), at_least_1d(index)),
              Status::invalid_argument, call.row.name, ": source ",
              text_of_dims(call.inputs[1].sizes), " does not match index ", text_of_dims(index),
              " in self ", text_of_dims(y));
    outputs.push_back({call.compute, y, false});
}
std::vector<uint32_t> index_add(Builder& graph, const Call& call, std::span<const uint32_t> in) {
    const Dims &y = call.inputs[0].sizes, &index = call.inputs[2].sizes;
    const uint32_t base = seen_as(graph, in[0], at_least_1d(y));
    const uint32_t made = graph.op(
        "index_put", std::vector<uint32_t>{base, in[1], seen_as(graph, in[2], at_least_1d(index))},
        {ints({static_cast<int64_t>(dim_of(call, y.size()))}), call.attr("mode"),
         call.attr("include_self"), call.attr("alpha"), call.attr("wrap")},
        call.compute)[0];
    return {seen_as(graph, made, y)};
}

}  // namespace
}  // namespace nntile::ops

NNTILE_ROWS(index) {
    const AttrRow dim{"dim", AttrKind::integer, "0"}, dims{"dims", AttrKind::integers, ""},
        wrap{"wrap", AttrKind::integer, "1"}, mode{"mode", AttrKind::text, "put", modes},
        with_self{"include_self", AttrKind::integer, "1"}, alpha{"alpha", AttrKind::real, "1"};
    return {
        {.name = "gather",
         .doc = "y[i..] = x[i.., index[i..] in the place of dim, ..]",
         .rule = Rule::compose,
         .inputs = {{"x"}, {"index", "any"}},
         .outputs = {{"y"}},
         .attrs = {dim},
         .shape = gather_shape,
         .compose = gather},
        {.name = "gather_rows",
         .doc = "gather, of an index that has the sizes of x but in dim",
         .rule = Rule::whole,
         .inputs = {{"x"}, {"index", "index"}},
         .outputs = {{"y"}},
         .attrs = {dim},
         .shape = gather_rows_shape,
         .relate = gather_rows_relate,
         .kernel = "gather",
         .params = gather_rows_params,
         .part_of = "gather"},
        {.name = "scatter",
         .doc = "y, but at [i.., index[i..] in the place of dim, ..] x[i..] is put, added.. "
                "(mode), in the order of i",
         .rule = Rule::compose,
         .inputs = {{"y"}, {"x"}, {"index", "any"}},
         .outputs = {{"y"}},
         .attrs = {dim, mode, with_self},
         .shape = same_shape,
         .compose = scatter},
        {.name = "scatter_rows",
         .doc = "scatter, of an index that has the sizes of y but in dim",
         .rule = Rule::whole,
         .inputs = {{"y"}, {"x"}, {"index", "index"}},
         .outputs = {{"y"}},
         .attrs = {dim, mode, with_self, alpha},
         .shape = scatter_rows_shape,
         .relate = scatter_rows_relate,
         .kernel = "scatter",
         .params = scatter_rows_params,
         .part_of = "scatter"},
        {.name = "index",
         .doc =
             "y = x[.., indices.., ..]; indices lead into the dims of x in dims, and wrap if asked",
         .rule = Rule::whole,
         .inputs = {{"x"}, {"indices*", "index"}},
         .outputs = {{"y"}},
         .attrs = {dims, wrap},
         .shape = index_shape,
         .relate = index_relate,
         .kernel = "gather",
         .params = index_params},
        {.name = "index_put",
         .doc =
             "y, but at [.., indices.., ..] alpha * x is put, added.., in the order of the indices",
         .rule = Rule::whole,
         .inputs = {{"y"}, {"x"}, {"indices*", "index"}},
         .outputs = {{"y"}},
         .attrs = {dims, mode, with_self, alpha, wrap},
         .shape = index_put_shape,
         .relate = index_put_relate,
         .kernel = "scatter",
         .params = index_put_params},
        {.name = "index_select",
         .doc = "y = x[.., index, ..], index in the place of dim",
         .rule = Rule::compose,
         .inputs = {{"x"}, {"index", "index"}},
         .outputs = {{"y"}},
         .attrs = {dim},
         .shape = index_select_shape,
         .compose = index_select},
        {.name = "index_add",
         .doc = "y, but at [.., index, ..] alpha * x is put, added.. (mode)",
         .rule = Rule::compose,
         .inputs = {{"y"}, {"x"}, {"index", "index"}},
         .outputs = {{"y"}},
         .attrs = {dim, mode, with_self, alpha, {"wrap", AttrKind::integer, "0"}},
         .shape = index_add_shape,
         .compose = index_add},
    };
}
