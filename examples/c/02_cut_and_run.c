/* SPDX-License-Identifier: BSD-3-Clause
 * Name axes, cut them, run the tasks on the workers, read the result, compare with a plain loop. */
#include "check.h"

enum { BATCH = 6, IN = 8, OUT = 4 };

/* relu(x @ w) on a graph whose batch is cut into `n` given segments. */
static void relu_matmul(const float* x, const float* w, const int64_t* segments, size_t n,
                        float* y) {
    nntile_error* error = NULL;
    nntile_graph* graph;
    const int64_t x_sizes[] = {BATCH, IN}, w_sizes[] = {IN, OUT};
    uint32_t operands[3] = {0, 0, NNTILE_NO_VALUE}, matmul, relu, product, result;
    OK(nntile_graph_create(&graph, &error));
    OK(nntile_graph_add_input(graph, "x", NNTILE_F32, x_sizes, 2, &operands[0], &error));
    OK(nntile_graph_add_input(graph, "w", NNTILE_F32, w_sizes, 2, &operands[1], &error));
    OK(nntile_op_find("matmul", &matmul, &error));
    OK(nntile_op_find("relu", &relu, &error));
    OK(nntile_graph_add_op(graph, matmul, operands, 3, NULL, 0, &product, 1, &error));
    OK(nntile_graph_add_op(graph, relu, &product, 1, NULL, 0, &result, 1, &error));
    OK(nntile_graph_set_output(graph, result, "y", &error));

    /* One name is enough: matmul and relu carry the cut of x's rows to the product and the result.
     */
    OK(nntile_graph_name_axis(graph, operands[0], 0, "batch", &error));
    OK(nntile_graph_cut_axis(graph, "batch", segments, n, &error));
    nntile_tile* tile;
    OK(nntile_graph_lower(graph, &tile, &error));
    nntile_graph_destroy(graph);
    printf("batch in %zu segments: %zu tiles, %zu tasks, %zu edges\n", n, nntile_tile_count(tile),
           nntile_tile_task_count(tile), nntile_tile_edge_count(tile));

    /* Bytes go in and out dense and row-major; how they are cut inside is not the caller's matter.
     */
    OK(nntile_tile_write(tile, "x", x, sizeof(float) * BATCH * IN, &error));
    OK(nntile_tile_write(tile, "w", w, sizeof(float) * IN * OUT, &error));
    OK(nntile_tile_run(tile, &error)); /* submits, does not wait */
    OK(nntile_tile_read(tile, "y", y, sizeof(float) * BATCH * OUT, &error)); /* waits for y */
    nntile_tile_destroy(tile);
}

int main(void) {
    float x[BATCH][IN], w[IN][OUT], expected[BATCH][OUT], whole[BATCH][OUT], cut[BATCH][OUT];
    for (int i = 0; i < BATCH; ++i)
        for (int k = 0; k < IN; ++k) x[i][k] = (float)(i - k) / 4;
    for (int k = 0; k < IN; ++k)
        for (int j = 0; j < OUT; ++j) w[k][j] = (float)(k * j % 5 - 2);
    for (int i = 0; i < BATCH; ++i)
        for (int j = 0; j < OUT; ++j) {
            float sum = 0;
            for (int k = 0; k < IN; ++k) sum += x[i][k] * w[k][j];
            expected[i][j] = sum > 0 ? sum : 0;
        }

    /* Workers start here. Zero fields of the settings mean defaults: two CPU workers, 256 MiB for
     * tiles. */
    nntile_error* error = NULL;
    const nntile_context_config config = {
        .struct_size = sizeof config, .ncpu = 2, .memory_bytes = (int64_t)256 << 20};
    OK(nntile_context_create(&config, &error));
    const int64_t one[] = {BATCH}, ragged[] = {4, 2};
    relu_matmul(x[0], w[0], one, 1, whole[0]);
    relu_matmul(x[0], w[0], ragged, 2, cut[0]);
    OK(nntile_context_shutdown(&error));

    for (int i = 0; i < BATCH; ++i)
        for (int j = 0; j < OUT; ++j) {
            REQUIRE(fabsf(whole[i][j] - expected[i][j]) < 1e-5f);
            REQUIRE(fabsf(cut[i][j] - expected[i][j]) < 1e-5f);
        }
    printf("whole and cut agree with the loop\n");
    return 0;
}
