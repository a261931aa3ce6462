// SPDX-License-Identifier: BSD-3-Clause
// The graph by itself: shape rules of every family with their messages, views, names, hashes.
#include "../check.hh"
#include "graph/passes/passes.hh"
#include "sample.hh"

namespace nntile {
namespace {

using graph::Graph;
using graph::no_value;
using schema::Attr;
using schema::Type;
using Ids = std::vector<uint32_t>;

struct Given {  // an attribute by name
    const char* name;
    Attr value;
};
Given integer(const char* name, int64_t i) {
    return {name, {.i = i, .f = 0, .ints = {}, .scalar = no_value}};
}
Given list(const char* name, Dims ints) {
    return {name, {.i = 0, .f = 0, .ints = ints, .scalar = no_value}};
}
Given real(const char* name, double f) {
    return {name, {.i = 0, .f = f, .ints = {}, .scalar = no_value}};
}

const Type absent{};
Type f32(Dims sizes) { return {DType::f32, sizes, false}; }
Type i64(Dims sizes) { return {DType::i64, sizes, false}; }
Type number() { return {DType::f32, {}, true}; }

// Adds the op to a fresh graph with inputs of these types and gives its results' types.
std::vector<Type> infer(const char* op, std::vector<Type> inputs, std::vector<Given> given = {},
                        DType compute = DType::none) {
    Graph g;
    Ids in;
    for (const Type& t : inputs) {
        if (t.dtype == DType::none) in.push_back(no_value);
        else in.push_back(t.scalar ? g.add_scalar(t.dtype, 1, 1) : g.add_input(t.dtype, t.sizes));
    }
    const schema::OpRow& row = *schema::find_op(op);
    std::vector<Attr> attrs = schema::default_attrs(row);
    for (const Given& a : given) attrs[schema::attr_index(row, a.name)] = a.value;
    std::vector<Type> out;
    for (uint32_t v : g.add(row, in, attrs, compute)) out.push_back(g.type_of(v));
    return out;
}
bool gives(const std::vector<Type>& got, const std::vector<Type>& want) {
    bool same = got.size() == want.size();
    for (size_t k = 0; same && k < got.size(); ++k)
        same = got[k].dtype == want[k].dtype && got[k].sizes == want[k].sizes;
    return same;
}

void maps() {
    CHECK(gives(infer("add", {f32({3, 1}), f32({2, 1, 4})}), {f32({2, 3, 4})}));
    CHECK(gives(infer("add", {f32({3}), number()}), {f32({3})}));
    CHECK(gives(infer("add", {f32({0}), f32({1})}), {f32({0})}));
    CHECK(gives(infer("ge", {f32({3}), f32({})}), {{DType::boolean, {3}, false}}));
    CHECK(gives(infer("add", {i64({3}), i64({3})}, {}, DType::f64), {{DType::f64, {3}, false}}));
    CHECK_ERROR(invalid_argument, "add: inputs a (3, 4) and b (4, 3) do not broadcast",
                infer("add", {f32({3, 4}), f32({4, 3})}));
    CHECK_ERROR(type_error, "exp: input x must be floating, got i64", infer("exp", {i64({3})}));
    CHECK_ERROR(invalid_argument, "add: input b is missing", infer("add", {f32({3}), absent}));
    CHECK_ERROR(invalid_argument, "add: takes 2 inputs, got 1", infer("add", {f32({3})}));
}

void products() {
    CHECK(gives(infer("matmul", {f32({2, 3}), f32({3, 5}), absent}), {f32({2, 5})}));
    CHECK(gives(infer("matmul", {f32({7, 2, 0}), f32({7, 0, 5}), f32({5})}), {f32({7, 2, 5})}));
    CHECK_ERROR(invalid_argument, "matmul: a (2, 3) and b (4, 5) cannot be multiplied",
                infer("matmul", {f32({2, 3}), f32({4, 5}), absent}));
    CHECK_ERROR(invalid_argument, "addmm: c (3,) does not broadcast to (2, 5)",
                infer("addmm", {f32({2, 3}), f32({3, 5}), f32({3})}));
    CHECK_ERROR(type_error, "matmul: inputs have different dtypes: b is i64, others are f32",
                infer("matmul", {f32({2, 3}), i64({3, 5}), absent}));
}

void reductions() {
    CHECK(gives(infer("sum", {f32({2, 3})}), {f32({})}));
    CHECK(gives(infer("sum", {f32({2, 3})}, {list("dims", {-1}), integer("keepdim", 1)}),
                {f32({2, 1})}));
    CHECK(gives(infer("mean", {f32({2, 3})}, {list("dims", {0})}), {f32({3})}));
    CHECK(gives(infer("any", {f32({2, 3})}), {{DType::boolean, {}, false}}));
    CHECK(gives(infer("argmax", {f32({2, 3})}, {list("dims", {1})}), {i64({2})}));
    CHECK_ERROR(index_error,
                "sum: Dimension out of range (expected to be in range of [-2, 1], but got 2)",
                infer("sum", {f32({2, 3})}, {list("dims", {2})}));
    CHECK_ERROR(invalid_argument, "sum: dim 1 appears multiple times",
                infer("sum", {f32({2, 3})}, {list("dims", {1, -1})}));
    CHECK_ERROR(index_error, "amax: Expected reduction dim 1 to have non-zero size",
                infer("amax", {f32({2, 0})}, {list("dims", {1})}));
}

void rows_of_numbers() {  // softmax, loss, embedding, layer norm
    CHECK(gives(infer("softmax", {f32({2, 3})}), {f32({2, 3})}));
    CHECK_ERROR(index_error, "softmax: Dimension out of range",
                infer("softmax", {f32({2, 3})}, {integer("dim", 5)}));
    CHECK_ERROR(invalid_argument, "softmax_backward: inputs have shapes (2, 3) and (3, 2)",
                infer("softmax_backward", {f32({2, 3}), f32({3, 2})}));

    CHECK(gives(infer("nll_loss", {f32({6, 3}), i64({6}), absent}), {f32({}), f32({})}));
    CHECK(gives(infer("nll_loss", {f32({6, 3}), i64({6}), f32({3})}, {integer("reduction", 0)}),
                {f32({6}), f32({})}));
    CHECK_ERROR(invalid_argument, "nll_loss: x (6, 3) and target (5,) do not match",
                infer("nll_loss", {f32({6, 3}), i64({5}), absent}));
    CHECK_ERROR(invalid_argument, "nll_loss: weight must have shape (3,), got (4,)",
                infer("nll_loss", {f32({6, 3}), i64({6}), f32({4})}));
    CHECK_ERROR(invalid_argument, "nll_loss_value: total must have shape (), got (2,)",
                infer("nll_loss_value", {f32({6, 3}), i64({6}), absent, f32({2})}));
    CHECK_ERROR(
        invalid_argument, "nll_loss_grad: dy must have shape () or (6,), got (5,)",
        infer("nll_loss_grad", {f32({5}), i64({6}), absent, f32({})}, {integer("num_classes", 3)}));

    CHECK(gives(infer("embedding", {f32({9, 4}), i64({2, 3})}), {f32({2, 3, 4})}));
    CHECK(gives(infer("embedding_backward", {f32({2, 4}), i64({2})}, {integer("num_weights", 9)}),
                {f32({9, 4})}));
    CHECK_ERROR(invalid_argument, "embedding: weight must be 2-D, got (9,)",
                infer("embedding", {f32({9}), i64({2})}));
    CHECK_ERROR(type_error, "embedding: input indices must be index, got f32",
                infer("embedding", {f32({9, 4}), f32({2})}));
    CHECK_ERROR(invalid_argument, "embedding_backward: dy (2, 4) and indices (3,) do not match",
                infer("embedding_backward", {f32({2, 4}), i64({3})}, {integer("num_weights", 9)}));
    CHECK_ERROR(invalid_argument, "embedding_backward: the result has a negative extent in (-1, 4)",
                infer("embedding_backward", {f32({2, 4}), i64({2})}, {integer("num_weights", -1)}));

    const Type q = f32({2, 5, 4}), k = f32({2, 3, 4}), v = f32({2, 3, 6}), mask = f32({5, 1});
    CHECK(gives(infer("attention", {q, k, v, mask}), {f32({2, 5, 6}), f32({2, 5})}));
    const Given order = list("order", {1, 0, 2, 1, 0});
    CHECK(gives(infer("attention", {q, k, v, absent}, {order}), {f32({5, 2, 6}), f32({5, 2})}));
    CHECK_ERROR(invalid_argument,
                "attention_backward: order (1, 0, 2, 1, 0) has no permutation of 3 dims at 3",
                infer("attention_backward",
                      {f32({2, 5, 6}), q, k, v, absent, f32({2, 5, 6}), f32({2, 5})}, {order}));
    CHECK_ERROR(invalid_argument, "attention: k must have shape (2, 3, 4), got (2, 3, 5)",
                infer("attention", {q, f32({2, 3, 5}), v, absent}));
    CHECK_ERROR(invalid_argument, "attention: mask (5, 2) does not broadcast to (2, 5, 3)",
                infer("attention", {q, k, v, f32({5, 2})}));
    CHECK_ERROR(type_error, "attention: mask must be bool or floating, got i64",
                infer("attention", {q, k, v, i64({5, 3})}));
    CHECK_ERROR(unsupported, "attention: q (2, 5, 4) has more heads than k (1, 3, 4); repeat those",
                infer("attention", {q, f32({1, 3, 4}), f32({1, 3, 6}), absent}));

    CHECK(gives(
        infer("layer_norm", {f32({2, 3, 4}), f32({3, 4}), absent}, {integer("normalized_ndim", 2)}),
        {f32({2, 3, 4}), f32({2, 1, 1}), f32({2, 1, 1})}));
    CHECK_ERROR(
        invalid_argument, "layer_norm: normalized_ndim is 3 for an input of shape (2, 3)",
        infer("layer_norm", {f32({2, 3}), absent, absent}, {integer("normalized_ndim", 3)}));
    CHECK_ERROR(invalid_argument, "layer_norm: weight must have shape (3,), got (2,)",
                infer("layer_norm", {f32({2, 3}), f32({2}), absent}));
    CHECK_ERROR(invalid_argument, "layer_norm_rows: normalized_ndim is 1 for an input of shape ()",
                infer("layer_norm_rows", {f32({}), absent, absent}));
    CHECK_ERROR(invalid_argument, "layer_norm_rows: weight must have shape (3,), got (2,)",
                infer("layer_norm_rows", {f32({2, 3}), f32({2}), absent}));
    CHECK(gives(
        infer("layer_norm_backward", {f32({2, 3}), f32({2, 3}), f32({2, 1}), f32({2, 1}), absent}),
        {f32({2, 3}), f32({3}), f32({3})}));
    for (const char* op : {"layer_norm_backward", "layer_norm_input_grad"}) {
        const std::string name = op;
        CHECK_ERROR(invalid_argument, name + ": dy must have shape (2, 3), got (3,)",
                    infer(op, {f32({3}), f32({2, 3}), f32({2, 1}), f32({2, 1}), absent}));
        CHECK_ERROR(invalid_argument, name + ": mean must have shape (2, 1), got (2,)",
                    infer(op, {f32({2, 3}), f32({2, 3}), f32({2}), f32({2, 1}), absent}));
        CHECK_ERROR(invalid_argument, name + ": weight must have shape (3,), got (1,)",
                    infer(op, {f32({2, 3}), f32({2, 3}), f32({2, 1}), f32({2, 1}), f32({1})}));
    }
    CHECK_ERROR(
        invalid_argument, "layer_norm_affine_grad: rstd must have shape (2, 1), got (1, 2)",
        infer("layer_norm_affine_grad", {f32({2, 3}), f32({2, 3}), f32({2, 1}), f32({1, 2})}));
}

void moves() {
    CHECK(gives(infer("copy", {i64({2})}, {}, DType::f32), {f32({2})}));
    CHECK(gives(infer("empty", {}, {list("sizes", {2, 0})}, DType::i64), {i64({2, 0})}));
    CHECK_ERROR(invalid_argument, "empty: the result has a negative extent in (2, -1)",
                infer("empty", {}, {list("sizes", {2, -1})}));
    CHECK(gives(infer("cat", {f32({2, 3}), f32({0}), f32({2, 1})}, {integer("dim", -1)}),
                {f32({2, 4})}));
    CHECK_ERROR(invalid_argument,
                "cat: tensors have shapes (2, 3) and (3, 3); sizes must match except in dim 1",
                infer("cat", {f32({2, 3}), f32({3, 3})}, {integer("dim", 1)}));
    CHECK_ERROR(invalid_argument, "cat: expected a non-empty list", infer("cat", {}));
    CHECK(gives(
        infer("view_write", {f32({4, 4}), f32({2})}, {list("strides", {4}), integer("offset", 9)}),
        {f32({4, 4})}));
    CHECK_ERROR(
        invalid_argument, "view_write: the view ends beyond the 16 elements of base (4, 4)",
        infer("view_write", {f32({4, 4}), f32({3})}, {list("strides", {4}), integer("offset", 9)}));
    CHECK_ERROR(invalid_argument, "view_write: data (3,) and strides () differ in rank",
                infer("view_write", {f32({4, 4}), f32({3})}));
    CHECK(gives(infer("bits", {f32({3})}, {}, DType::u8), {{DType::u8, {12}, false}}));
}

void views() {
    Graph g;
    const uint32_t x = g.add_input(DType::f32, Dims{4, 6}, "x");
    CHECK(g.add_view(x, Layout::dense(Dims{4, 6})) == x);
    const uint32_t flat = g.add_view(x, {{24}, {1}, 0});
    CHECK(flat != x && g.add_view(x, {{24}, {1}, 0}) == flat);
    const uint32_t piece = g.add_view(flat, {{3}, {2}, 5});  // folds
    CHECK(g.base_of(piece) == x && g.layout_of(piece) == (Layout{{3}, {2}, 5}));
    CHECK_ERROR(unsupported, "is not dense; copy it first", g.add_view(piece, {{2}, {1}, 0}));
    CHECK_ERROR(invalid_argument, "offset 22 are out of bounds for %0 with 24 elements",
                g.add_view(x, {{3}, {1}, 22}));
    CHECK_ERROR(invalid_argument, "out of bounds", g.add_view(x, {{3}, {-1}, 3}));
    CHECK_ERROR(invalid_argument, "out of bounds", g.add_view(x, {{3}, {INT64_MAX}, 0}));
    CHECK_ERROR(invalid_argument, "negative extent", g.add_view(x, {{-3}, {1}, 0}));
    CHECK_ERROR(invalid_argument, "differ in rank", g.add_view(x, {{3}, {}, 0}));
    CHECK_ERROR(not_found, "view: no value %9; the graph has 3", g.add_view(9, {{3}, {1}, 0}));
    CHECK_ERROR(invalid_argument, "is a number",
                g.add_view(g.add_scalar(DType::f32, 1, 0), {{1}, {1}, 0}));
}

void names() {
    Graph g;
    const uint32_t x = g.add_input(DType::f32, Dims{4, 6}, "x");
    CHECK_ERROR(invalid_argument, "there is an input 'x' already",
                g.add_input(DType::f32, Dims{4}, "x"));
    CHECK_ERROR(index_error, "name_axis: dim 2 of %0 with shape (4, 6)", g.name_axis(x, 2, "a"));
    CHECK_ERROR(invalid_argument, "the name is empty", g.name_axis(x, 0, ""));
    g.name_axis(x, 0, "a");
    g.name_axis(x, 0, "batch");  // the last name counts
    CHECK(g.marks.size() == 1 && g.marks[0].name == "batch");
    g.check_cut("batch", {2, 2});
    g.check_cut("batch", {3});
    g.check_cut("batch", {});
    CHECK_ERROR(not_found, "no axis is named 'a'", g.check_cut("a", {2}));
    CHECK_ERROR(invalid_argument, "axis batch has extent 4, but the segments (2, 1) sum to 3",
                g.check_cut("batch", {2, 1}));
    CHECK_ERROR(invalid_argument, "axis batch: a segment of 0", g.check_cut("batch", {0, 4}));
    CHECK_ERROR(invalid_argument, "is a number", g.set_output(g.add_scalar(DType::f32, 1, 0)));
    const uint32_t half = g.add_view(x, {{2, 6}, {6, 1}, 0});
    const uint32_t y = g.add(*schema::find_op("neg"), Ids{half}, {})[0];
    g.set_output(y, "y");
    CHECK_ERROR(invalid_argument, "there is an output 'y' already", g.set_output(x, "y"));
    g.set_output(y, "again");
    g.set_output(half, "half");
    g.set_output(x, "x");
    graph::own_outputs(g);
    CHECK(g.outputs[0].value == y && g.nodes.size() == 4);  // three copies
    for (const graph::Output& o : g.outputs)
        CHECK(g.value(o.value).kind == graph::ValueKind::result);
}

// A function of the host whose operands have a batch.
void batches() {
    Graph g;
    const uint32_t x = g.add_input(DType::f32, Dims{6, 2}), y = g.add_input(DType::f32, Dims{5, 2});
    const uint32_t number = g.add_scalar(DType::f32, 1, 0);
    const std::vector<schema::Type> out = {f32({6, 3}), f32({4})};
    const auto add = [&](Ids in, graph::HostAxes axes, size_t outputs = 1, bool ranges = false) {
        return g.add_host({"f", 1, axes, ranges}, in, std::span(out).first(outputs));
    };
    const Hash before = g.hash();
    const Dims batch{0, -1}, whole{-1, -1};
    add({x, y, graph::no_value}, {batch, whole, {}, batch});
    const Hash parts = g.hash();
    g.hosts.back().axes[3] = whole;  // a sum over the batch
    CHECK(g.hash() != parts && g.hash() != before);
    g.hosts.back().axes[3] = batch;
    g.hosts.back().ranges = true;
    CHECK(g.hash() != parts && g.hash() != before);
    CHECK_ERROR(invalid_argument, "f: axes of 2 operands, there are 3",
                add({x, y}, {batch, whole}));
    CHECK_ERROR(invalid_argument, "f: operand 1 has 0 dims, 2 axes are given",
                add({x, graph::no_value}, {batch, batch, batch}));
    CHECK_ERROR(invalid_argument, "f: operand 1 has 0 dims, 2 axes are given",
                add({x, number}, {batch, batch, batch}));
    CHECK_ERROR(invalid_argument, "f: axis 0 of operand 1 has extent 5, that of another one 6",
                add({x, y}, {batch, batch, batch}));
    CHECK_ERROR(invalid_argument, "f: axis 0 is in some outputs only",
                add({x}, {batch, batch, {-1}}, 2));
    CHECK_ERROR(invalid_argument, "f: axis 0 is not in all outputs",
                add({x}, {batch, whole}, 1, true));
    CHECK(g.nodes.size() == 1);
}

// What makes another plan and what does not.
void hashes() {
    struct Choice {
        int64_t rows = 4, stride = 1, dims = 1;
        double alpha = 1, scalar = 2;
        const char *op = "add", *input = "x", *axis = "batch";
        bool overwritable = false, swap_names = false;
        DType dtype = DType::f32;
    };
    const auto hash = [](const Choice& c) {
        Graph g;
        const uint32_t x = g.add_input(c.dtype, Dims{c.rows, 6}, c.input);
        g.inputs[0].overwritable = c.overwritable;
        const uint32_t v = g.add_view(x, {{2, 3}, {6, c.stride}, 0});
        const uint32_t s = g.add_scalar(c.dtype, c.scalar, 0);
        const schema::OpRow& row = *schema::find_op(c.op);
        const uint32_t y = g.add(row, Ids{v, s}, {real("", c.alpha).value})[0];
        const schema::OpRow& sum = *schema::find_op("sum");
        g.add(sum, Ids{y}, {list("", {c.dims}).value, integer("", 0).value});
        if (c.swap_names) g.name_axis(y, 0, "rows");
        g.name_axis(x, 0, c.axis);
        if (!c.swap_names) g.name_axis(y, 0, "rows");
        return g.hash();
    };
    const Hash base = hash({});
    CHECK(hash({}) == base);
    CHECK(hash({.alpha = 0.5}) == base);
    CHECK(hash({.scalar = 7}) == base);
    CHECK(hash({.input = "z"}) == base);
    CHECK(hash({.swap_names = true}) == base);
    const Choice others[] = {{.rows = 5},          {.stride = 2},     {.dims = 0},
                             {.op = "sub"},        {.axis = "other"}, {.overwritable = true},
                             {.dtype = DType::f64}};
    for (size_t a = 0; a < std::size(others); ++a) {
        CHECK(hash(others[a]) != base);
        for (size_t b = 0; b < a; ++b) CHECK(hash(others[a]) != hash(others[b]));
    }
}

void rows_are_complete() {
    for (const schema::OpRow& row : schema::op_rows()) {
        const bool fine = !row.doc.empty() && !row.outputs.empty() && row.shape &&
                          schema::default_attrs(row).size() == row.attrs.size() &&
                          (row.compose || schema::only_moves(row.rule) || row.relate) &&
                          (row.rule != schema::Rule::map || row.map_row >= 0);
        if (!fine) test::report(__FILE__, __LINE__, row.name + ": the row is not complete");
    }
    const schema::OpRow* adam = schema::find_op("adam");
    if (adam) CHECK(schema::default_attrs(*adam)[schema::attr_index(*adam, "eps")].f == 1e-8);
}

}  // namespace
}  // namespace nntile

int main() {
    nntile::maps();
    nntile::products();
    nntile::reductions();
    nntile::rows_of_numbers();
    nntile::moves();
    nntile::views();
    nntile::names();
    nntile::batches();
    nntile::hashes();
    nntile::rows_are_complete();
    return nntile::test::result();
}
