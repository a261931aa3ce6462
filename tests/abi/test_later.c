/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_function::start: tasks that go on after their function has returned, off the workers. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <semaphore.h>

#include "check.h"

enum { SIZE = 4, LATER = 3 };

static nntile_record* record;
static nntile_operand x, y, z;
static float data[SIZE] = {1, 2, 3, 4};

/* What `start` was given, by the user's number. */
typedef struct {
    sem_t begun;
    void *from, *to;
    nntile_task* task;
    int lost;
} call;
static call calls[LATER];

static void start(void* user, void* const* blocks, nntile_task* task) {
    call* c = user;
    if (blocks) c->from = blocks[0], c->to = blocks[1];
    c->task = task;
    c->lost = !blocks;
    sem_post(&c->begun);
}

static nntile_function later(int number) {
    return (nntile_function){.struct_size = sizeof(nntile_function),
                             .name = "later",
                             .signature = 1,
                             .start = start,
                             .user = &calls[number]};
}

static void record_later(const nntile_function* f, nntile_operand from, nntile_operand to) {
    const nntile_operand operands[] = {from, to};
    OK(nntile_record_function(record, f, operands, 1, 1, &error));
    OK(nntile_record_submit(record, &error));
}

static void* end_with_twice(void* user) {
    call* c = user;
    for (int k = 0; k < SIZE; ++k) ((float*)c->to)[k] = 2 * ((float*)c->from)[k];
    nntile_task_end(c->task, NNTILE_OK, NULL);
    return NULL;
}

/* One worker: were the task on it, the copy could not run before its end. */
static void off_the_worker(uint32_t copy) {
    const nntile_operand beside[] = {x, z};
    const nntile_function f = later(0);
    float found[SIZE];
    pthread_t thread;
    record_later(&f, x, y);
    sem_wait(&calls[0].begun);
    OK(nntile_record_op(record, copy, beside, 1, 1, NULL, 0, NNTILE_F32, &error));
    OK(nntile_record_read(record, &z, found, sizeof found, &error));
    CHECK(found[SIZE - 1] == 4);
    pthread_create(&thread, NULL, end_with_twice, &calls[0]);
    OK(nntile_record_read(record, &y, found, sizeof found, &error));
    pthread_join(thread, NULL);
    CHECK(found[0] == 2 && found[SIZE - 1] == 8 && !calls[0].lost);
}

static void in_place(void) {
    nntile_function f = later(0);
    float found[SIZE];
    f.n_updated = 1;
    record_later(&f, y, y);
    sem_wait(&calls[0].begun);
    CHECK(calls[0].from == calls[0].to);
    end_with_twice(&calls[0]);
    OK(nntile_record_read(record, &y, found, sizeof found, &error));
    CHECK(found[0] == 4 && found[SIZE - 1] == 16);
}

/* The second one reads what the first has failed to make. */
static void failures_go_on(void) {
    const nntile_function first = later(0), second = later(1);
    float found[SIZE];
    record_later(&first, x, y);
    record_later(&second, y, z);
    sem_wait(&calls[0].begun);
    nntile_task_end(calls[0].task, NNTILE_RUNTIME, "the wire is cut");
    sem_wait(&calls[1].begun);
    CHECK(calls[1].lost && calls[1].task == NULL);
    FAILS(NNTILE_RUNTIME, "later: the wire is cut",
          nntile_record_read(record, &z, found, sizeof found, &error));
    OK(nntile_record_write(record, &y, data, sizeof data, &error));
    OK(nntile_record_read(record, &y, found, sizeof found, &error));
}

/* It runs though nobody can read what it gives. */
static void effects(void) {
    nntile_function f = later(2);
    nntile_buffer* buffer;
    f.effect = 1;
    nntile_operand unread = y;
    OK(nntile_buffer_create(record, sizeof data, &buffer, &error));
    unread.buffer = buffer;
    const nntile_operand operands[] = {x, unread};
    OK(nntile_record_mode_set(record, NNTILE_GRAPH, &error));
    OK(nntile_record_function(record, &f, operands, 1, 1, &error));
    nntile_buffer_destroy(buffer);
    OK(nntile_record_run(record, &error));
    sem_wait(&calls[2].begun);
    nntile_task_end(calls[2].task, NNTILE_OK, NULL);
    OK(nntile_context_wait(&error));
    OK(nntile_record_mode_set(record, NNTILE_EAGER, &error));
}

static uint64_t seen[8];
static _Atomic int tasks = 0;
static void note(const nntile_trace_task* task) {
    if (task->worker >= 0 && tasks < 8) seen[tasks++] = task->place;
}

static void apply(const char* name, nntile_operand from, nntile_operand to, uint64_t place) {
    const nntile_operand operands[] = {from, to};
    uint32_t op;
    OK(nntile_op_find(name, &op, &error));
    nntile_trace_place(place);
    OK(nntile_record_op(record, op, operands, 1, 1, NULL, 0, NNTILE_F32, &error));
}

/* One worker: what others wait for is computed before a chain that was called earlier. */
static void comes_first(void) {
    nntile_function f = later(2);
    nntile_buffer* buffers[4];
    nntile_operand t[4];
    for (int k = 0; k < 4; ++k) {
        OK(nntile_buffer_create(record, sizeof data, &buffers[k], &error));
        t[k] = x;
        t[k].buffer = buffers[k];
    }
    f.effect = 1;
    nntile_trace_set(note);
    OK(nntile_record_mode_set(record, NNTILE_GRAPH, &error));
    apply("exp", x, t[0], 1);
    apply("neg", t[0], t[1], 2);
    apply("abs", t[1], t[2], 3);
    apply("sqrt", t[0], t[3], 4);
    const nntile_operand operands[] = {t[3], y};
    OK(nntile_record_function(record, &f, operands, 1, 1, &error));
    OK(nntile_record_run(record, &error));
    sem_wait(&calls[2].begun);
    nntile_task_end(calls[2].task, NNTILE_OK, NULL);
    OK(nntile_context_wait(&error));
    nntile_trace_set(NULL);
    nntile_trace_place(0);
    OK(nntile_record_mode_set(record, NNTILE_EAGER, &error));
    CHECK(tasks == 4 && seen[0] == 1 && seen[1] == 4 && seen[2] == 2 && seen[3] == 3);
    for (int k = 0; k < 4; ++k) nntile_buffer_destroy(buffers[k]);
}

static void errors(void) {
    const nntile_operand operands[] = {x, y};
    const int64_t axes[] = {0, 0};
    nntile_function f = later(0);
    f.axes = axes;
    FAILS(NNTILE_INVALID_ARGUMENT, "has no axes",
          nntile_record_function(record, &f, operands, 1, 1, &error));
    f = later(0);
    f.n_updated = 2;
    FAILS(NNTILE_INVALID_ARGUMENT, "later: 2 updated operands of 1 inputs and 1 outputs",
          nntile_record_function(record, &f, operands, 1, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "function is NULL",
          nntile_record_function(record, NULL, operands, 1, 1, &error));
    nntile_task_end(NULL, NNTILE_OK, NULL);
}

int main(void) {
    const int64_t size = SIZE, stride = 1;
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 1};
    nntile_buffer* buffers[3];
    uint32_t copy;
    for (int k = 0; k < LATER; ++k) sem_init(&calls[k].begun, 0, 0);
    setenv("NNTILE_FUSE", "0", 1); /* an op is a task */
    OK(nntile_op_find("copy", &copy, &error));
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 3; ++k) OK(nntile_buffer_create(record, sizeof data, &buffers[k], &error));
    x = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                         .dtype = NNTILE_F32,
                         .ndim = 1,
                         .buffer = buffers[0],
                         .sizes = &size,
                         .strides = &stride};
    y = z = x;
    y.buffer = buffers[1];
    z.buffer = buffers[2];
    OK(nntile_record_write(record, &x, data, sizeof data, &error));
    off_the_worker(copy);
    in_place();
    failures_go_on();
    effects();
    comes_first();
    errors();
    for (int k = 0; k < 3; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
