/* SPDX-License-Identifier: BSD-3-Clause
 * Build a tensor graph by hand, print it, lower it, look at its tiles and tasks. Nothing runs here.
 */
#include <string.h>

#include "check.h"

int main(void) {
    nntile_error* error = NULL; /* a failing call puts an object here, which the caller destroys */
    nntile_graph* graph;
    OK(nntile_graph_create(&graph, &error));

    /* Inputs are values with a name, a dtype and a shape. Values are numbers that belong to their
     * graph. */
    const int64_t x_sizes[] = {128, 784}, w_sizes[] = {256, 784};
    uint32_t x, w;
    OK(nntile_graph_add_input(graph, "x", NNTILE_F32, x_sizes, 2, &x, &error));
    OK(nntile_graph_add_input(graph, "w", NNTILE_F32, w_sizes, 2, &w, &error));

    /* w is stored as (out, in). Its transpose is a view: other sizes and strides on the same data,
     * no copy. */
    const int64_t wt_sizes[] = {784, 256}, wt_strides[] = {1, 784};
    uint32_t wt;
    OK(nntile_graph_add_view(graph, w, wt_sizes, wt_strides, 2, 0, &wt, &error));

    /* An op is found by its name. Its row says what it takes; shapes and dtypes of results are
     * inferred. */
    uint32_t matmul, gelu;
    OK(nntile_op_find("matmul", &matmul, &error));
    OK(nntile_op_find("gelu", &gelu, &error));
    printf("%s: %s\n\n", nntile_op_name(matmul), nntile_op_doc(matmul));

    /* matmul(a, b, c?): the addend c is absent here. No attributes are given: all take their
     * defaults. */
    const uint32_t operands[] = {x, wt, NNTILE_NO_VALUE};
    uint32_t h, y;
    OK(nntile_graph_add_op(graph, matmul, operands, 3, NULL, 0, &h, 1, &error));
    OK(nntile_graph_add_op(graph, gelu, &h, 1, NULL, 0, &y, 1, &error));
    OK(nntile_graph_set_output(graph, y, "y", &error));

    /* Naming a dim names the axis that it belongs to: all dims that must be cut alike. Cut it in
     * two. */
    const int64_t half = 64;
    OK(nntile_graph_name_axis(graph, x, 0, "batch", &error));
    OK(nntile_graph_cut_axis(graph, "batch", &half, 1, &error));

    /* The printed graph is also a file format. */
    char* text;
    OK(nntile_graph_print(graph, &text, &error));
    printf("%s\n", text);
    nntile_graph* again;
    char* text_again;
    OK(nntile_graph_parse(text, &again, &error));
    OK(nntile_graph_print(again, &text_again, &error));
    REQUIRE(strcmp(text, text_again) == 0);
    nntile_text_free(text_again);
    nntile_text_free(text);
    nntile_graph_destroy(again);

    /* Lowering makes tiles (dense pieces of values) and tasks (kernels on tiles). */
    nntile_tile* tile;
    OK(nntile_graph_lower(graph, &tile, &error));
    nntile_graph_destroy(graph); /* the tile graph does not need it */
    OK(nntile_tile_print(tile, &text, &error));
    printf("%s\n", text);
    nntile_text_free(text);

    double flops = 0;
    for (size_t t = 0; t < nntile_tile_task_count(tile); ++t) {
        const char* kernel;
        double task_flops, bytes;
        OK(nntile_tile_task_get(tile, t, &kernel, &task_flops, &bytes, &error));
        printf("task %zu: %-6s %6.1f Mflop %5.2f MB\n", t, kernel, task_flops * 1e-6, bytes * 1e-6);
        flops += task_flops;
    }
    REQUIRE(nntile_tile_task_count(tile) >= 2); /* each half of the batch has its own task */
    REQUIRE(flops >= 2.0 * 128 * 256 * 784);
    nntile_tile_destroy(tile);
    return 0;
}
