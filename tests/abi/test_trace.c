/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_trace_set: a function that is called after each task, with the mark of who launched it.
 * nntile_trace_place: the caller's place, which errors of tasks show. */
#include <stdatomic.h>

#include "check.h"

enum { SIZE = 8 };

static atomic_int calls;
static nntile_trace_task last;
static char name[64];

static void note(const nntile_trace_task* task) {
    last = *task; /* one worker */
    snprintf(name, sizeof name, "%s", task->op);
    ++calls;
}

static nntile_record* record;
static nntile_operand operands[2];

static void copy(void) {
    uint32_t op = 0;
    OK(nntile_op_find("copy", &op, &error));
    OK(nntile_record_op(record, op, operands, 1, 1, NULL, 0, NNTILE_F32, &error));
    if (nntile_record_pending(record)) OK(nntile_record_run(record, &error));
    OK(nntile_context_wait(&error));
}

static size_t place_text(uint64_t place, char* out, size_t size) {
    return (size_t)snprintf(out, size, "line %d", (int)place);
}

static int fails(void* user, const int64_t* starts, const int64_t* sizes, int accumulate,
                 void* const* data, char* error_text) {
    (void)user, (void)starts, (void)sizes, (void)accumulate, (void)data;
    snprintf(error_text, 256, "on purpose");
    return NNTILE_RUNTIME;
}

/* What the error of a failing task says. */
static void fails_with(const char* expected) {
    const nntile_function f = {
        .struct_size = sizeof f, .name = "fails", .signature = 1, .run = fails};
    OK(nntile_record_function(record, &f, operands, 1, 1, &error));
    if (nntile_record_pending(record)) OK(nntile_record_run(record, &error));
    CHECK(nntile_context_wait(&error) == NNTILE_RUNTIME);
    if (strcmp(nntile_error_message(error), expected) != 0)
        printf("%s\n", nntile_error_message(error));
    CHECK(strcmp(nntile_error_message(error), expected) == 0);
    nntile_error_destroy(error);
    error = NULL;
}

static int64_t lowerings(void) {
    nntile_record_stats stats = {.struct_size = sizeof stats};
    OK(nntile_record_stats_get(record, &stats, &error));
    return stats.lowerings;
}

static void places(void) {
    nntile_trace_set(note);
    nntile_trace_place(5);
    copy();
    nntile_trace_set(NULL);
    CHECK(last.place == 5 && strcmp(last.kernel, "copy") == 0);
    CHECK(last.bytes == 2 * SIZE * (int64_t)sizeof(float) && last.flops == 0);
    CHECK(last.run > 0 && last.node == 0 && last.task == 0);
    fails_with("fails: on purpose"); /* nobody says what 5 is */
    nntile_trace_places(place_text);
    const int64_t before = lowerings();
    fails_with("fails: on purpose [line 5]");
    nntile_trace_place(6);
    fails_with("fails: on purpose [line 6]");
    nntile_trace_place(0);
    fails_with("fails: on purpose");
    CHECK(lowerings() == before);
    nntile_trace_places(NULL);
}

/* A task has the mark of the call that recorded it, and not of the one that launches its graph; a
 * replay has that of who replays. */
static void marks(void) {
    uint32_t op = 0;
    nntile_capture* capture = NULL;
    OK(nntile_op_find("copy", &op, &error));
    OK(nntile_record_op(record, op, operands, 1, 1, NULL, 0, NNTILE_F32, &error));
    CHECK(nntile_record_pending(record) == 1);
    nntile_trace_mark(8);
    OK(nntile_record_run(record, &error));
    OK(nntile_context_wait(&error));
    CHECK(last.mark == 7);
    OK(nntile_capture_begin(record, 0, 0, &error));
    OK(nntile_record_op(record, op, operands, 1, 1, NULL, 0, NNTILE_F32, &error));
    OK(nntile_capture_end(record, &capture, &error));
    OK(nntile_context_wait(&error));
    CHECK(last.mark == 8);
    nntile_trace_mark(9);
    OK(nntile_capture_replay(capture, NULL, 0, NULL, 0, 0, 0, &error));
    OK(nntile_context_wait(&error));
    CHECK(last.mark == 9);
    nntile_trace_mark(0);
    nntile_capture_destroy(capture);
}

int main(void) {
    const int64_t size = SIZE, stride = 1;
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 1};
    const float data[SIZE] = {1, 2, 3};
    nntile_buffer* buffers[2];
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 2; ++k) {
        OK(nntile_buffer_create(record, sizeof data, &buffers[k], &error));
        operands[k] = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                                       .dtype = NNTILE_F32,
                                       .ndim = 1,
                                       .buffer = buffers[k],
                                       .sizes = &size,
                                       .strides = &stride};
    }
    OK(nntile_record_write(record, &operands[0], data, sizeof data, &error));
    copy();
    CHECK(calls == 0);
    nntile_trace_set(note);
    copy();
    CHECK(calls == 1 && last.mark == 0);
    CHECK(last.worker == 1); /* the thread that launches so little work does it, here as ever */
    CHECK(strcmp(name, "copy") == 0);
    CHECK(last.begin_ns > 0 && last.begin_ns <= last.end_ns);
    nntile_trace_mark(7);
    copy();
    CHECK(calls == 2 && last.mark == 7);
    marks();
    const int before = calls;
    nntile_trace_set(NULL);
    copy();
    CHECK(calls == before);
    places();
    for (int k = 0; k < 2; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
