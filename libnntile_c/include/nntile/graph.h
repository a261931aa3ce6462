/* SPDX-License-Identifier: BSD-3-Clause
 * A tensor graph built by hand: values are uint32_t ids of their graph. A graph belongs to one
 * caller at a time. */
#ifndef NNTILE_GRAPH_H
#define NNTILE_GRAPH_H

#include "nntile/op.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Opaque. Since 0.1. */
typedef struct nntile_graph nntile_graph;
typedef struct nntile_tile nntile_tile;

/** Id that means "no value": an optional input that is absent. */
#define NNTILE_NO_VALUE 0xffffffff

/** Makes an empty graph; the caller ends it with nntile_graph_destroy(). Since 0.1. */
nntile_status nntile_graph_create(nntile_graph** out, nntile_error** error);
void nntile_graph_destroy(nntile_graph* graph);

/** Adds an input. name copied, unique and not empty; ndim extents >= 0, copied. Since 0.1. */
nntile_status nntile_graph_add_input(nntile_graph* graph, const char* name, nntile_dtype dtype,
                                     const int64_t* sizes, int32_t ndim, uint32_t* value,
                                     nntile_error** error);

/** Adds a number as a value of shape (); its value is a run-time scalar. Since 0.1. */
nntile_status nntile_graph_add_scalar(nntile_graph* graph, nntile_dtype dtype, double f, int64_t i,
                                      uint32_t* value, nntile_error** error);

/** Adds a view: sizes, strides and offset in elements of the dense base. Costs nothing. Since 0.1.
 */
nntile_status nntile_graph_add_view(nntile_graph* graph, uint32_t base, const int64_t* sizes,
                                    const int64_t* strides, int32_t ndim, int64_t offset,
                                    uint32_t* value, nntile_error** error);

/** Adds an op. inputs: n_inputs ids in the order of the row, NNTILE_NO_VALUE for an absent one.
 * outputs: room for as many ids as the row has outputs. Shapes and dtypes are inferred and checked.
 * Since 0.1. */
nntile_status nntile_graph_add_op(nntile_graph* graph, uint32_t op, const uint32_t* inputs,
                                  size_t n_inputs, const nntile_attr* attrs, size_t n_attrs,
                                  uint32_t* outputs, size_t n_outputs, nntile_error** error);

/** Marks a value as a result, under a unique name. Since 0.1. */
nntile_status nntile_graph_set_output(nntile_graph* graph, uint32_t value, const char* name,
                                      nntile_error** error);

/** Names the axis that dim `dim` of a value belongs to. Since 0.1. */
nntile_status nntile_graph_name_axis(nntile_graph* graph, uint32_t value, int32_t dim,
                                     const char* name, nntile_error** error);

/** Cut of a named axis, as in nntile_record_axis_tiling(). Since 0.1. */
nntile_status nntile_graph_cut_axis(nntile_graph* graph, const char* name, const int64_t* sizes,
                                    size_t n, nntile_error** error);

/** Number of values and nodes; dtype and shape of a value (*sizes borrowed until the next change).
 * Since 0.1. */
size_t nntile_graph_value_count(const nntile_graph* graph);
size_t nntile_graph_node_count(const nntile_graph* graph);
nntile_status nntile_graph_value_get(const nntile_graph* graph, uint32_t value, nntile_dtype* dtype,
                                     const int64_t** sizes, int32_t* ndim, nntile_error** error);

/** Text of the graph; and a graph from such a text. *text: freed by nntile_text_free(). Since 0.1.
 */
nntile_status nntile_graph_print(const nntile_graph* graph, char** text, nntile_error** error);
nntile_status nntile_graph_parse(const char* text, nntile_graph** out, nntile_error** error);

/** Runs passes, cuts every value and lowers the graph to tasks on tiles. No task runs. The graph
 * may be changed or ended afterwards. *out: ended by nntile_tile_destroy(). Since 0.1. */
nntile_status nntile_graph_lower(const nntile_graph* graph, nntile_tile** out,
                                 nntile_error** error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
