// SPDX-License-Identifier: BSD-3-Clause
#include "nntile/graph.h"

#include "abi/attrs.hh"
#include "abi/guard.hh"
#include "abi/tile.hh"
#include "graph/text.hh"

using namespace nntile;
using namespace nntile::abi;

struct nntile_graph {
    graph::Graph graph;
    graph::NamedCuts cuts;
};

static_assert(NNTILE_NO_VALUE == graph::no_value);

namespace {

DType dtype_of_abi(nntile_dtype dtype, const char* function) {
    check(dtype > NNTILE_NONE && dtype < dtype_count, Status::type_error, function, ": no dtype ",
          static_cast<int>(dtype));
    return static_cast<DType>(dtype);
}

std::span<const int64_t> dims_of(const int64_t* list, int32_t ndim, const char* function,
                                 const char* name) {
    check(ndim >= 0 && (list || ndim == 0), Status::invalid_argument, function, ": ", name,
          " is NULL or ndim ", ndim, " is negative");
    return {list, static_cast<size_t>(ndim)};
}

}  // namespace

nntile_status nntile_graph_create(nntile_graph** out, nntile_error** error) {
    return guard(error, [&] {
        need(out, "nntile_graph_create", "out");
        *out = new nntile_graph;
    });
}

void nntile_graph_destroy(nntile_graph* graph) { delete graph; }

nntile_status nntile_graph_add_input(nntile_graph* graph, const char* name, nntile_dtype dtype,
                                     const int64_t* sizes, int32_t ndim, uint32_t* value,
                                     nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* self = "nntile_graph_add_input";
        need(graph, self, "graph");
        need(name, self, "name");
        need(value, self, "value");
        check(*name, Status::invalid_argument, self, ": the name is empty");
        *value = graph->graph.add_input(dtype_of_abi(dtype, self),
                                        dims_of(sizes, ndim, self, "sizes"), name);
    });
}

nntile_status nntile_graph_add_scalar(nntile_graph* graph, nntile_dtype dtype, double f, int64_t i,
                                      uint32_t* value, nntile_error** error) {
    return guard(error, [&] {
        need(graph, "nntile_graph_add_scalar", "graph");
        need(value, "nntile_graph_add_scalar", "value");
        *value = graph->graph.add_scalar(dtype_of_abi(dtype, "nntile_graph_add_scalar"), f, i);
    });
}

nntile_status nntile_graph_add_view(nntile_graph* graph, uint32_t base, const int64_t* sizes,
                                    const int64_t* strides, int32_t ndim, int64_t offset,
                                    uint32_t* value, nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* self = "nntile_graph_add_view";
        need(graph, self, "graph");
        need(value, self, "value");
        *value =
            graph->graph.add_view(base, {Dims(dims_of(sizes, ndim, self, "sizes")),
                                         Dims(dims_of(strides, ndim, self, "strides")), offset});
    });
}

nntile_status nntile_graph_add_op(nntile_graph* graph, uint32_t op, const uint32_t* inputs,
                                  size_t n_inputs, const nntile_attr* attrs, size_t n_attrs,
                                  uint32_t* outputs, size_t n_outputs, nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* self = "nntile_graph_add_op";
        need(graph, self, "graph");
        const auto rows = schema::op_rows();
        check(op < rows.size(), Status::not_found, self, ": no op ", op, "; there are ",
              rows.size());
        const schema::OpRow& row = rows[op];
        check(inputs || n_inputs == 0, Status::invalid_argument, row.name, ": inputs is NULL");
        check(outputs && n_outputs == row.outputs.size(), Status::invalid_argument, row.name,
              ": gives ", row.outputs.size(), " outputs, there is room for ",
              outputs ? n_outputs : 0);
        const auto ids = graph->graph.add(row, {inputs, n_inputs}, attrs_of(row, attrs, n_attrs));
        std::copy(ids.begin(), ids.end(), outputs);
    });
}

nntile_status nntile_graph_set_output(nntile_graph* graph, uint32_t value, const char* name,
                                      nntile_error** error) {
    return guard(error, [&] {
        need(graph, "nntile_graph_set_output", "graph");
        need(name, "nntile_graph_set_output", "name");
        check(*name, Status::invalid_argument, "nntile_graph_set_output: the name is empty");
        graph->graph.set_output(value, name);
    });
}

nntile_status nntile_graph_name_axis(nntile_graph* graph, uint32_t value, int32_t dim,
                                     const char* name, nntile_error** error) {
    return guard(error, [&] {
        need(graph, "nntile_graph_name_axis", "graph");
        need(name, "nntile_graph_name_axis", "name");
        check(dim >= 0, Status::index_error, "nntile_graph_name_axis: dim ", dim, " is negative");
        graph->graph.name_axis(value, static_cast<uint32_t>(dim), name);
    });
}

nntile_status nntile_graph_cut_axis(nntile_graph* graph, const char* name, const int64_t* sizes,
                                    size_t n, nntile_error** error) {
    return guard(error, [&] {
        need(graph, "nntile_graph_cut_axis", "graph");
        need(name, "nntile_graph_cut_axis", "name");
        check(sizes || n == 0, Status::invalid_argument, "nntile_graph_cut_axis: sizes is NULL");
        graph::AxisCut cut(sizes, sizes + n);
        graph->graph.check_cut(name, cut);
        graph->cuts[name] = std::move(cut);
    });
}

size_t nntile_graph_value_count(const nntile_graph* graph) {
    return graph ? graph->graph.values.size() : 0;
}
size_t nntile_graph_node_count(const nntile_graph* graph) {
    return graph ? graph->graph.nodes.size() : 0;
}

nntile_status nntile_graph_value_get(const nntile_graph* graph, uint32_t value, nntile_dtype* dtype,
                                     const int64_t** sizes, int32_t* ndim, nntile_error** error) {
    return guard(error, [&] {
        constexpr const char* self = "nntile_graph_value_get";
        need(graph, self, "graph");
        const auto& values = graph->graph.values;
        check(value < values.size(), Status::not_found, self, ": no value %", value,
              "; the graph has ", values.size());
        if (dtype) *dtype = static_cast<nntile_dtype>(values[value].dtype);
        if (sizes) *sizes = values[value].sizes.data();
        if (ndim) *ndim = static_cast<int32_t>(values[value].sizes.size());
    });
}

nntile_status nntile_graph_print(const nntile_graph* graph, char** text, nntile_error** error) {
    return guard(error, [&] {
        need(graph, "nntile_graph_print", "graph");
        need(text, "nntile_graph_print", "text");
        *text = copy_text(graph::print(graph->graph, graph->cuts));
    });
}

nntile_status nntile_graph_parse(const char* text, nntile_graph** out, nntile_error** error) {
    return guard(error, [&] {
        need(text, "nntile_graph_parse", "text");
        need(out, "nntile_graph_parse", "out");
        auto made = std::make_unique<nntile_graph>();
        made->graph = graph::parse(text, &made->cuts);
        *out = made.release();
    });
}

nntile_status nntile_graph_lower(const nntile_graph* graph, nntile_tile** out,
                                 nntile_error** error) {
    return guard(error, [&] {
        need(graph, "nntile_graph_lower", "graph");
        need(out, "nntile_graph_lower", "out");
        *out = new_tile(graph->graph, graph->cuts);
    });
}
