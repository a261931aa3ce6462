/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_trace_set: a function that is called after each task, with the mark of who launched it. */
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
    OK(nntile_record_op(record, op, operands, 1, 1, NULL, 0, NNTILE_F32, NULL, &error));
    if (nntile_record_pending(record)) OK(nntile_record_run(record, &error));
    OK(nntile_context_wait(&error));
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
    CHECK(calls == 1 && last.mark == 0 && last.worker == 0);
    CHECK(strcmp(name, "copy") == 0);
    CHECK(last.begin_ns > 0 && last.begin_ns <= last.end_ns);
    nntile_trace_mark(7);
    copy();
    CHECK(calls == 2 && last.mark == 7);
    nntile_trace_set(NULL);
    copy();
    CHECK(calls == 2);
    for (int k = 0; k < 2; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
