/* SPDX-License-Identifier: BSD-3-Clause
 * The C ABI from the outside: errors, NULL, struct_size, the op table, graphs and tile graphs, a
 * run. */
#define _DEFAULT_SOURCE /* setenv */
#include "check.h"

static void base_and_errors(void) {
    CHECK(nntile_version() == NNTILE_VERSION);
    int major, minor, patch;
    CHECK(sscanf(nntile_version_text(), "%d.%d.%d", &major, &minor, &patch) == 3);
    CHECK(major * 1000000 + minor * 1000 + patch == NNTILE_VERSION);
    CHECK(strcmp(nntile_dtype_name(NNTILE_BF16), "bf16") == 0 &&
          nntile_dtype_size(NNTILE_BF16) == 2);
    CHECK(strcmp(nntile_dtype_name((nntile_dtype)77), "?") == 0 &&
          nntile_dtype_size((nntile_dtype)77) == 0);
    CHECK(strcmp(nntile_dtype_name(NNTILE_NONE), "?") == 0 && nntile_dtype_size(NNTILE_NONE) == 0);
    CHECK(nntile_error_status(NULL) == NNTILE_OK && strcmp(nntile_error_message(NULL), "") == 0);
    nntile_error_destroy(NULL);
    char text[] = "mine";
    nntile_error* own = nntile_error_create(NNTILE_RUNTIME, text);
    text[0] = 'f'; /* copied */
    CHECK(nntile_error_status(own) == NNTILE_RUNTIME &&
          strcmp(nntile_error_message(own), "mine") == 0);
    nntile_error_destroy(own);
    nntile_text_free(NULL);
}

static void op_table(void) {
    uint32_t op;
    const uint32_t count = nntile_op_count(), wrong = count + 7;
    CHECK(count > 50);
    for (uint32_t k = 0; k < count; ++k) {
        OK(nntile_op_find(nntile_op_name(k), &op, &error));
        CHECK(op == k);
        CHECK(*nntile_op_doc(k) && *nntile_op_rule(k) && nntile_op_output_count(k) > 0);
        for (uint32_t i = 0; i < nntile_op_input_count(k); ++i)
            CHECK(*nntile_op_input_name(k, i) && *nntile_op_input_type(k, i));
        for (uint32_t i = 0; i < nntile_op_output_count(k); ++i)
            CHECK(*nntile_op_output_name(k, i) && *nntile_op_output_type(k, i));
        for (uint32_t i = 0; i < nntile_op_attr_count(k); ++i) {
            const nntile_attr_kind kind = nntile_op_attr_kind(k, i);
            CHECK(*nntile_op_attr_name(k, i) && kind >= NNTILE_ATTR_INT &&
                  kind <= NNTILE_ATTR_SEED);
            CHECK((kind == NNTILE_ATTR_TEXT) == (*nntile_op_attr_choices(k, i) != '\0'));
            CHECK(kind == NNTILE_ATTR_INTS || *nntile_op_attr_default(k, i));
        }
    }
    OK(nntile_op_find("exp", &op, &error));
    CHECK(nntile_op_takes(op, NNTILE_F32) && !nntile_op_takes(op, NNTILE_I64) &&
          !nntile_op_takes(op, (nntile_dtype)77));
    CHECK(!*nntile_op_name(wrong) && !*nntile_op_doc(wrong) && !*nntile_op_rule(wrong));
    CHECK(nntile_op_input_count(wrong) == 0 && !*nntile_op_input_name(op, 9) &&
          !*nntile_op_attr_default(op, 9));
    CHECK(nntile_op_attr_kind(op, 9) == NNTILE_ATTR_DEFAULT &&
          nntile_op_takes(wrong, NNTILE_F32) == 0);
    FAILS(NNTILE_NOT_FOUND, "no op 'geluu'; the nearest is 'gelu'",
          nntile_op_find("geluu", &op, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "nntile_op_find: name is NULL",
          nntile_op_find(NULL, &op, &error));
    CHECK(nntile_op_find("geluu", &op, NULL) == NNTILE_NOT_FOUND); /* an error that nobody wants */
}

static void attributes(nntile_graph* graph, uint32_t x) {
    uint32_t add, gelu, sum, y;
    OK(nntile_op_find("add", &add, &error));
    OK(nntile_op_find("gelu", &gelu, &error));
    OK(nntile_op_find("sum", &sum, &error));
    const uint32_t two[] = {x, x};
    const int64_t dims[] = {1};
    const nntile_attr alpha = {.kind = NNTILE_ATTR_REAL, .f = 2},
                      integer = {.kind = NNTILE_ATTR_INT, .i = 1};
    const nntile_attr word = {.kind = NNTILE_ATTR_TEXT, .text = "tanh"},
                      bad = {.kind = NNTILE_ATTR_TEXT, .text = "t"};
    const nntile_attr no_word = {.kind = NNTILE_ATTR_TEXT},
                      no_list = {.kind = NNTILE_ATTR_INTS, .count = 2};
    const nntile_attr list[] = {{.kind = NNTILE_ATTR_INTS, .count = 1, .ints = dims},
                                {.kind = NNTILE_ATTR_DEFAULT}};
    OK(nntile_graph_add_op(graph, add, two, 2, &alpha, 1, &y, 1, &error));
    OK(nntile_graph_add_op(graph, gelu, &x, 1, &word, 1, &y, 1, &error));
    OK(nntile_graph_add_op(graph, sum, &x, 1, list, 2, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "add: attribute alpha is REAL, got INT",
          nntile_graph_add_op(graph, add, two, 2, &integer, 1, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gelu: approximate must be one of none|tanh; got 't'",
          nntile_graph_add_op(graph, gelu, &x, 1, &bad, 1, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gelu: attribute approximate is NULL",
          nntile_graph_add_op(graph, gelu, &x, 1, &no_word, 1, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "sum: attribute dims needs",
          nntile_graph_add_op(graph, sum, &x, 1, &no_list, 1, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gelu: takes 1 attributes, got 2",
          nntile_graph_add_op(graph, gelu, &x, 1, list, 2, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gelu: attrs is NULL",
          nntile_graph_add_op(graph, gelu, &x, 1, NULL, 1, &y, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gelu: gives 1 outputs, there is room for 0",
          nntile_graph_add_op(graph, gelu, &x, 1, NULL, 0, NULL, 0, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gelu: inputs is NULL",
          nntile_graph_add_op(graph, gelu, NULL, 1, NULL, 0, &y, 1, &error));
    FAILS(NNTILE_NOT_FOUND, "no op 99999",
          nntile_graph_add_op(graph, 99999, &x, 1, NULL, 0, &y, 1, &error));
    const uint32_t far_away = 99999;
    FAILS(NNTILE_NOT_FOUND, "gelu: no value %99999",
          nntile_graph_add_op(graph, gelu, &far_away, 1, NULL, 0, &y, 1, &error));
}

static void graphs(void) {
    nntile_graph *graph, *again = NULL;
    nntile_tile* tile = NULL;
    uint32_t x, v, s;
    char *text, *second;
    const int64_t sizes[] = {4, 6}, strides[] = {1, 4}, negative[] = {4, -6}, halves[] = {2, 2},
                  wrong[] = {2, 1}, zero = 0;
    OK(nntile_graph_create(&graph, &error));
    OK(nntile_graph_add_input(graph, "x", NNTILE_F32, sizes, 2, &x, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "there is an input 'x' already",
          nntile_graph_add_input(graph, "x", NNTILE_F32, sizes, 2, &v, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "the name is empty",
          nntile_graph_add_input(graph, "", NNTILE_F32, sizes, 2, &v, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "negative extent in (4, -6)",
          nntile_graph_add_input(graph, "n", NNTILE_F32, negative, 2, &v, &error));
    FAILS(NNTILE_TYPE_ERROR, "no dtype 77",
          nntile_graph_add_input(graph, "n", (nntile_dtype)77, sizes, 2, &v, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "sizes is NULL",
          nntile_graph_add_input(graph, "n", NNTILE_F32, NULL, 2, &v, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "graph is NULL",
          nntile_graph_add_input(NULL, "n", NNTILE_F32, sizes, 2, &v, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "ndim -1 is negative",
          nntile_graph_add_view(graph, x, sizes, strides, -1, 0, &v, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "out of bounds",
          nntile_graph_add_view(graph, x, sizes, strides, 2, 1, &v, &error));
    OK(nntile_graph_add_view(graph, x, sizes, strides, 2, 0, &v, &error));
    OK(nntile_graph_add_scalar(graph, NNTILE_F32, 2.5, 0, &s, &error));
    CHECK(nntile_graph_value_count(graph) == 3 && nntile_graph_node_count(graph) == 0);
    nntile_dtype dtype;
    const int64_t* got;
    int32_t ndim;
    OK(nntile_graph_value_get(graph, x, &dtype, &got, &ndim, &error));
    CHECK(dtype == NNTILE_F32 && ndim == 2 && got[0] == 4 && got[1] == 6);
    OK(nntile_graph_value_get(graph, x, NULL, NULL, NULL, &error));
    FAILS(NNTILE_NOT_FOUND, "no value %9; the graph has 3",
          nntile_graph_value_get(graph, 9, &dtype, &got, &ndim, &error));
    attributes(graph, x);

    OK(nntile_graph_name_axis(graph, x, 0, "rows", &error));
    FAILS(NNTILE_INDEX_ERROR, "dim 2 of %0", nntile_graph_name_axis(graph, x, 2, "rows", &error));
    FAILS(NNTILE_INDEX_ERROR, "dim -1 is negative",
          nntile_graph_name_axis(graph, x, -1, "rows", &error));
    OK(nntile_graph_cut_axis(graph, "rows", halves, 2, &error));
    OK(nntile_graph_cut_axis(graph, "rows", NULL, 0, &error));
    OK(nntile_graph_cut_axis(graph, "rows", halves, 1, &error));
    FAILS(NNTILE_NOT_FOUND, "no axis is named 'row'",
          nntile_graph_cut_axis(graph, "row", halves, 2, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "has extent 4, but the segments (2, 1) sum to 3",
          nntile_graph_cut_axis(graph, "rows", wrong, 2, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "a segment of 0",
          nntile_graph_cut_axis(graph, "rows", &zero, 1, &error));
    OK(nntile_graph_set_output(graph, v, "y", &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "there is an output 'y' already",
          nntile_graph_set_output(graph, x, "y", &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "is a number", nntile_graph_set_output(graph, s, "s", &error));

    OK(nntile_graph_print(graph, &text, &error));
    OK(nntile_graph_parse(text, &again, &error));
    OK(nntile_graph_print(again, &second, &error));
    CHECK(strcmp(text, second) == 0 && strstr(text, "cut rows (2,)"));
    nntile_text_free(text);
    nntile_text_free(second);
    nntile_graph_destroy(again);
    FAILS(NNTILE_INVALID_ARGUMENT, "graph text, line 1: expected 'graph', got 'grph'",
          nntile_graph_parse("grph", &again, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "text is NULL", nntile_graph_parse(NULL, &again, &error));

    OK(nntile_graph_lower(graph, &tile, &error));
    nntile_graph_destroy(graph);
    nntile_graph_destroy(NULL);
    CHECK(nntile_tile_count(tile) > 0 && nntile_tile_task_count(tile) > 0 &&
          nntile_tile_count(NULL) == 0);
    OK(nntile_tile_print(tile, &text, &error));
    nntile_tile* parsed = NULL;
    OK(nntile_tile_parse(text, &parsed, &error));
    CHECK(nntile_tile_count(parsed) == nntile_tile_count(tile));
    CHECK(nntile_tile_task_count(parsed) == nntile_tile_task_count(tile));
    CHECK(nntile_tile_edge_count(parsed) == nntile_tile_edge_count(tile));
    for (size_t t = 0; t < nntile_tile_task_count(tile); ++t) {
        const char *a, *b;
        double flops, bytes, flops_parsed;
        OK(nntile_tile_task_get(tile, t, &a, &flops, &bytes, &error));
        OK(nntile_tile_task_get(parsed, t, &b, &flops_parsed, NULL, &error));
        CHECK(strcmp(a, b) == 0 && flops == flops_parsed && bytes > 0);
    }
    FAILS(NNTILE_NOT_FOUND, "no task 999",
          nntile_tile_task_get(tile, 999, NULL, NULL, NULL, &error));
    FAILS(NNTILE_INVALID_STATE, "the tiles come from a text", nntile_tile_run(parsed, &error));
    nntile_text_free(text);
    nntile_tile_destroy(parsed);
    nntile_tile_destroy(tile);
    nntile_tile_destroy(NULL);
}

static void context(void) {
    struct {
        nntile_context_config known;
        int64_t more;
    } newer = {.known = {.struct_size = sizeof newer}, .more = 0};
    nntile_context_config config = {.struct_size = 0};
    nntile_context_stats stats = {.struct_size = sizeof stats}, partial;
    FAILS(NNTILE_INVALID_ARGUMENT, "struct_size is 0", nntile_context_create(&config, &error));
    config.struct_size = sizeof config;
    config.ncpu = -2;
    FAILS(NNTILE_INVALID_ARGUMENT, "ncpu -2", nntile_context_create(&config, &error));
    newer.more = 1;
    FAILS(NNTILE_UNSUPPORTED, "does not know", nntile_context_create(&newer.known, &error));
    newer.more = 0;
    newer.known.ncpu = 1;
    CHECK(!nntile_context_active() && !nntile_context_forked());
    OK(nntile_context_stats_get(&stats, &error)); /* before a context: what one would take */
    CHECK(stats.budget_bytes > 0 && stats.tile_bytes == 0 && stats.ncpu == 0);
    newer.known.memory_bytes = 64 << 20;
    OK(nntile_context_create(&newer.known, &error));
    CHECK(nntile_context_active());
    FAILS(NNTILE_INVALID_STATE, "", nntile_context_create(NULL, &error));
    OK(nntile_context_stats_get(&stats, &error));
    CHECK(stats.struct_size == sizeof stats && stats.ncpu == 1);
    CHECK(stats.budget_bytes == 64 << 20);
    memset(&partial, 0x55, sizeof partial);
    partial.struct_size = 2 * sizeof(int64_t); /* a caller that knows only `tasks` */
    OK(nntile_context_stats_get(&partial, &error));
    CHECK(partial.tasks == stats.tasks && partial.launches == 0x5555555555555555);
    partial.struct_size = 0;
    FAILS(NNTILE_INVALID_ARGUMENT, "struct_size is 0", nntile_context_stats_get(&partial, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "where is NULL", nntile_context_restrict(NULL, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "", nntile_context_restrict("moon", &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "gpu_math: 9 has bits", nntile_context_gpu_math(9, &error));
    CHECK(nntile_context_gpus() == stats.ncuda);
    OK(nntile_context_wait(&error));
    CHECK(strstr(nntile_context_describe(), ": "));
    OK(nntile_context_shutdown(&error));
    OK(nntile_context_shutdown(&error));
    CHECK(!nntile_context_active() && nntile_context_gpus() == -1);
}

/* A caller of before `swap`, and one that knows fields after it. */
static void settings_of_other_versions(void) {
    struct {
        nntile_context_config known;
        int64_t more;
    } newer = {.known = {.struct_size = sizeof newer, .ncpu = 1, .swap = "/tmp"}, .more = 0};
    const size_t old_stats = offsetof(nntile_context_stats, swap_bytes);
    nntile_context_config config = {.struct_size = offsetof(nntile_context_config, swap),
                                    .ncpu = 1,
                                    .swap = "/nowhere", /* not looked at */
                                    .swap_bytes = -1};
    nntile_context_stats stats = {.struct_size = sizeof stats};
    OK(nntile_context_create(&config, &error));
    memset(&stats, 0x55, sizeof stats);
    stats.struct_size = old_stats;
    OK(nntile_context_stats_get(&stats, &error));
    CHECK(stats.ncpu == 1 && stats.swap_bytes == 0x5555555555555555);
    stats.struct_size = sizeof stats;
    OK(nntile_context_stats_get(&stats, &error));
    CHECK(stats.swap_bytes == 0 && stats.machine_bytes > stats.budget_bytes);
    OK(nntile_context_shutdown(&error));
    config.struct_size = sizeof config;
    FAILS(NNTILE_INVALID_ARGUMENT, "swap_bytes -1", nntile_context_create(&config, &error));
    config.swap_bytes = 0;
    FAILS(NNTILE_INVALID_ARGUMENT,
          "swap must be a folder where files can be made, got '/nowhere': No such file",
          nntile_context_create(&config, &error));
    config.swap = "";
    config.swap_bytes = 1;
    FAILS(NNTILE_INVALID_ARGUMENT, "a size is given without a folder",
          nntile_context_create(&config, &error));
    newer.known.swap_bytes = 1 << 20;
    OK(nntile_context_create(&newer.known, &error));
    OK(nntile_context_stats_get(&stats, &error));
    CHECK(stats.swap_bytes == 1 << 20 && stats.swap_used_bytes == 0);
    CHECK(strstr(nntile_context_describe(), "\nswap: 1048576 bytes in /tmp\n"));
    OK(nntile_context_shutdown(&error));
    newer.known.swap_bytes = 0;
    newer.more = 1;
    FAILS(NNTILE_UNSUPPORTED, "does not know", nntile_context_create(&newer.known, &error));
}

static void settings(void) {
    nntile_settings found = {.struct_size = sizeof(found)};
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    setenv("NNTILE_COST", "a file", 1);
    OK(nntile_context_check_settings(&error));
    OK(nntile_context_settings_get(&found, &error));
    CHECK(found.local_processes == 3 && found.cpu_fallback == 1 && found.blocking == 0);
    CHECK(strcmp(found.cost, "a file") == 0 && strcmp(found.data_dir, "") == 0);
    setenv("LOCAL_WORLD_SIZE", "none", 1);
    FAILS(NNTILE_INVALID_ARGUMENT,
          "the environment variable LOCAL_WORLD_SIZE must be a count of processes, got 'none'",
          nntile_context_check_settings(&error));
    unsetenv("LOCAL_WORLD_SIZE");
    unsetenv("NNTILE_COST");
    OK(nntile_context_check_settings(&error));
    FAILS(NNTILE_INVALID_ARGUMENT, "settings is NULL", nntile_context_settings_get(NULL, &error));
}

static void sizes(void) {
    int64_t bytes = 0;
    OK(nntile_context_parse_size("memory", "1.5 GiB", &bytes, &error));
    CHECK(bytes == (int64_t)3 << 29);
    FAILS(NNTILE_INVALID_ARGUMENT, "memory must be a positive size such as \"8GiB\", got '-1'",
          nntile_context_parse_size("memory", "-1", &bytes, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "text is NULL",
          nntile_context_parse_size("memory", NULL, &bytes, &error));
    CHECK(bytes == (int64_t)3 << 29);
}

/* An input without use, and outputs that are an input, a view and one value twice. */
static void run(void) {
    const char* text =
        "graph {\n"
        "  %0 : f32[rows=4, 2] = input \"x\"\n"
        "  %1 : f32[3] = input \"unused\"\n"
        "  %2 : f32[2, rows] = view of %0 sizes (2, 4) strides (1, 2) offset 0\n"
        "  %3 : f32[rows, 2] = add(%0, %0) {alpha = 0.5}\n"
        "  return %3 \"y\", %2 \"xt\", %0 \"x again\", %3 \"y again\"\n"
        "  cut rows (3, 1)\n"
        "}\n";
    const float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, unused[3] = {0};
    float y[8];
    nntile_graph* graph;
    nntile_tile* tile;
    OK(nntile_graph_parse(text, &graph, &error));
    OK(nntile_graph_lower(graph, &tile, &error));
    nntile_graph_destroy(graph);
    FAILS(NNTILE_INVALID_STATE, "no active context; call nntile_context_create first",
          nntile_tile_write(tile, "x", x, sizeof x, &error));
    FAILS(NNTILE_INVALID_STATE, "no active context", nntile_tile_run(tile, &error));
    OK(nntile_context_create(NULL, &error));
    FAILS(NNTILE_NOT_FOUND, "no input 'z'; the graph has: x, unused",
          nntile_tile_write(tile, "z", x, sizeof x, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "'x' is f32 (4, 2) of 32 bytes, got 31",
          nntile_tile_write(tile, "x", x, 31, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "host is NULL",
          nntile_tile_write(tile, "x", NULL, sizeof x, &error));
    FAILS(NNTILE_INVALID_STATE, "input 'x' was never written", nntile_tile_run(tile, &error));
    OK(nntile_tile_write(tile, "x", x, sizeof x, &error));
    OK(nntile_tile_write(tile, "unused", unused, sizeof unused, &error));
    FAILS(NNTILE_INVALID_STATE, "output 'y' has no data; call nntile_tile_run first",
          nntile_tile_read(tile, "y", y, sizeof y, &error));
    for (int repeat = 0; repeat < 3; ++repeat) OK(nntile_tile_run(tile, &error));
    FAILS(NNTILE_NOT_FOUND, "no output 'x'; the graph has: y, xt, x again, y again",
          nntile_tile_read(tile, "x", y, sizeof y, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "of 32 bytes, got 4", nntile_tile_read(tile, "y", y, 4, &error));
    OK(nntile_tile_read(tile, "y", y, sizeof y, &error));
    for (int i = 0; i < 8; ++i) CHECK(y[i] == 1.5f * x[i]);
    OK(nntile_tile_read(tile, "y again", y, sizeof y, &error));
    for (int i = 0; i < 8; ++i) CHECK(y[i] == 1.5f * x[i]);
    OK(nntile_tile_read(tile, "xt", y, sizeof y, &error));
    for (int i = 0; i < 8; ++i) CHECK(y[i] == x[i % 4 * 2 + i / 4]);
    OK(nntile_tile_read(tile, "x again", y, sizeof y, &error));
    CHECK(memcmp(x, y, sizeof x) == 0);

    /* Data ends with its context. */
    OK(nntile_context_shutdown(&error));
    OK(nntile_context_create(NULL, &error));
    FAILS(NNTILE_INVALID_STATE, "was written in a context that has ended",
          nntile_tile_run(tile, &error));
    FAILS(NNTILE_INVALID_STATE, "has no data", nntile_tile_read(tile, "y", y, sizeof y, &error));
    OK(nntile_tile_write(tile, "x", y, sizeof y, &error));
    OK(nntile_context_shutdown(&error));
    nntile_tile_destroy(tile);
}

int main(void) {
    base_and_errors();
    op_table();
    graphs();
    context();
    settings_of_other_versions();
    settings();
    sizes();
    run();
    REPORT;
}
