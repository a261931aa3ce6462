/* SPDX-License-Identifier: BSD-3-Clause
 * Who looks at a recorder changes nothing: no graph ends, and no value gets a name. */
#include "check.h"

enum { SIZE = 4 };

static const int64_t sizes[] = {SIZE}, strides[] = {1};
static nntile_buffer* made[16];
static int n_made = 0;

static nntile_operand tensor_of(nntile_record* record) {
    nntile_operand t = {.kind = NNTILE_OPERAND_TENSOR,
                        .dtype = NNTILE_F32,
                        .ndim = 1,
                        .sizes = sizes,
                        .strides = strides};
    const float data[SIZE] = {1, 2, 3, 4};
    OK(nntile_buffer_create(record, sizeof data, &t.buffer, &error));
    made[n_made++] = t.buffer;
    OK(nntile_record_write(record, &t, data, sizeof data, &error));
    return t;
}

static void destroy(nntile_record* record) {
    while (n_made > 0) nntile_buffer_destroy(made[--n_made]);
    nntile_record_destroy(record);
}

/* to = 2 * from */
static void twice(nntile_record* record, nntile_operand from, nntile_operand to) {
    uint32_t op = 0;
    const nntile_operand operands[] = {from, from, to};
    OK(nntile_op_find("add", &op, &error));
    OK(nntile_record_op(record, op, operands, 2, 1, NULL, 0, NNTILE_F32, &error));
}

static void text_of(nntile_record* record, const char* stage, char* to, size_t size) {
    char* text = NULL;
    OK(nntile_record_text(record, stage, &text, &error));
    snprintf(to, size, "%s", text);
    nntile_text_free(text);
}

static void look(nntile_record* record) {
    static const char* const stages[] = {"pending", "graph", "cuts", "tiles", "plan", "why"};
    char* text = NULL;
    for (size_t k = 0; k < sizeof stages / sizeof *stages; ++k) {
        OK(nntile_record_text(record, stages[k], &text, &error));
        nntile_text_free(text);
    }
    OK(nntile_record_axis_text(record, &text, &error));
    nntile_text_free(text);
    nntile_record_stats stats = {.struct_size = sizeof stats};
    OK(nntile_record_stats_get(record, &stats, &error));
    int64_t count = 0, bytes = 0, peak = 0;
    nntile_buffer_totals(record, &count, &bytes, &peak);
}

static void no_graph_ends(nntile_record* record) {
    char text[1024];
    const nntile_operand x = tensor_of(record), y = tensor_of(record);
    twice(record, x, y);
    OK(nntile_record_submit(record, &error));     /* there is a lowering to show */
    OK(nntile_record_compose(record, 1, &error)); /* no pause of this thread ends its graph */
    twice(record, x, y);
    look(record);
    CHECK(nntile_record_pending(record) == 1);
    text_of(record, "pending", text, sizeof text);
    CHECK(strstr(text, "add"));
    FAILS(NNTILE_INVALID_STATE, "no step has begun", nntile_record_step(record, 0, &error));
    CHECK(nntile_record_pending(record) == 1);
    OK(nntile_record_submit(record, &error)); /* ends no scope */
    CHECK(nntile_record_pending(record) == 0);
    twice(record, x, y);
    CHECK(nntile_record_pending(record) == 1);
    OK(nntile_record_compose(record, 0, &error));
}

/* A value that a named buffer holds for a while is not one of those that bear the name. */
static void no_value_is_named(nntile_record* record, int looks, char* graph, size_t size) {
    OK(nntile_record_mode_set(record, NNTILE_GRAPH, &error));
    const nntile_operand x = tensor_of(record), y = tensor_of(record), z = tensor_of(record),
                         other = tensor_of(record);
    OK(nntile_record_axis_name(record, &y, 0, "rows", &error));
    twice(record, x, y);
    twice(record, y, z);
    if (looks) look(record);
    twice(record, other, y);
    OK(nntile_record_run(record, &error));
    text_of(record, "graph", graph, size);
}

int main(void) {
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 1};
    nntile_record* record = NULL;
    char seen[4096], alone[4096];
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    no_graph_ends(record);
    no_value_is_named(record, 0, alone, sizeof alone);
    destroy(record);
    OK(nntile_record_create(&record, &error));
    twice(record, tensor_of(record), tensor_of(record));
    OK(nntile_record_submit(record, &error));
    no_value_is_named(record, 1, seen, sizeof seen);
    CHECK(strcmp(alone, seen) == 0);
    if (strcmp(alone, seen)) printf("%s\n-- not --\n%s\n", alone, seen);
    destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
