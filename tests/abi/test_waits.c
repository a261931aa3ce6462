/* SPDX-License-Identifier: BSD-3-Clause
 * A thread waits inside of a call: what others, and forked children, can do meanwhile. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SIDE = 512, ROWS = 640, COUNT = ROWS * SIDE }; /* 1.25 MiB of floats */

static nntile_record* record;
static nntile_buffer* buffers[4];
static nntile_operand x, x_t, y, z, s;
static sem_t begun, go;
static uint32_t copy;

/* A task that ends when it is told to. Until then it holds a dense copy of x[:SIDE].t(),
 * which is no block that x or z fits in. */
static int wait_for_go(void* user, const int64_t* starts, const int64_t* sizes, int accumulate,
                       void* const* data, char* text) {
    (void)user, (void)starts, (void)sizes, (void)accumulate, (void)text;
    sem_post(&begun);
    sem_wait(&go);
    *(float*)data[1] = ((const float*)data[0])[1];
    return 0;
}

static void begin_task(void) {
    nntile_buffer_destroy(buffers[2]); /* of an earlier part: its memory is needed */
    OK(nntile_buffer_create(record, COUNT * sizeof(float), &buffers[2], &error));
    z.buffer = buffers[2];
    const nntile_operand operands[] = {x_t, y};
    const nntile_function f = {
        .struct_size = sizeof f, .name = "wait_for_go", .signature = 1, .run = wait_for_go};
    OK(nntile_record_function(record, &f, operands, 1, 1, &error));
    sem_wait(&begun);
}

static nntile_status copy_x_to_z(nntile_error** why) {
    const nntile_operand operands[] = {x, z};
    return nntile_record_op(record, copy, operands, 1, 1, NULL, 0, NNTILE_F32, why);
}

/* The memory is used up until the task ends: so much work is queued that this thread waits. */
static void* copy_in_thread(void* status) {
    *(nntile_status*)status = copy_x_to_z(NULL);
    return NULL;
}

static void* post_later(void* nothing) {
    usleep(400000);
    sem_post(&go);
    return nothing;
}

static void fork_beside_a_waiting_thread(void) {
    nntile_status found = NNTILE_INTERNAL;
    pthread_t thread;
    begin_task();
    pthread_create(&thread, NULL, copy_in_thread, &found);
    usleep(200000);
    const pid_t child = fork();
    if (child == 0) {
        float value[1];
        alarm(10);
        FAILS(NNTILE_INVALID_STATE, "forked child", copy_x_to_z(&error));
        FAILS(NNTILE_INVALID_STATE, "forked child", nntile_record_run(record, &error));
        FAILS(NNTILE_INVALID_STATE, "forked child",
              nntile_record_read(record, &x, value, sizeof value, &error));
        FAILS(NNTILE_INVALID_STATE, "forked child",
              nntile_buffer_create(record, 4, &buffers[0], &error));
        CHECK(nntile_record_pending(record) == 0);
        nntile_buffer_destroy(buffers[2]);
        nntile_record_trim(record);
        nntile_record_reset(record);
        fflush(stdout);
        _exit(failures != 0); /* its memory is that of threads that it does not have */
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    sem_post(&go);
    pthread_join(thread, NULL);
    CHECK(found == NNTILE_OK);
    OK(nntile_context_wait(&error));
}

static int asks = 0;
static int yes(void) { return ++asks; }
static int no(void) { return ++asks, 0; }

static void interrupts(void) {
    float value = -1;
    nntile_wait_interrupted(yes);
    begin_task();
    FAILS(NNTILE_INTERRUPTED, "goes on",
          nntile_record_read(record, &y, &value, sizeof value, &error));
    FAILS(NNTILE_INTERRUPTED, "goes on", nntile_context_wait(&error));
    CHECK(asks == 2 && value == -1);
    nntile_wait_interrupted(no);
    pthread_t thread;
    nntile_status found = NNTILE_INTERNAL;
    pthread_create(&thread, NULL, copy_in_thread, &found);
    usleep(100000);
    CHECK(asks == 2); /* its task waits for memory, not this thread */
    sem_post(&go);
    OK(nntile_record_read(record, &y, &value, sizeof value, &error));
    pthread_join(thread, NULL);
    CHECK(value == SIDE && found == NNTILE_OK);
    nntile_wait_interrupted(NULL);
    OK(nntile_context_wait(&error));
}

/* The lock of an interpreter, held by one of its threads inside of a call. */
static pthread_mutex_t interpreter = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local int holds = 0;
static int held(void) { return holds; }
static void* leave(void) {
    holds = 0;
    pthread_mutex_unlock(&interpreter);
    return &holds;
}
static void back(void* state) {
    pthread_mutex_lock(&interpreter);
    *(int*)state = 1;
}
static int ask_interpreter(void) {
    back(&holds);
    leave();
    return 0;
}

static void* run_with_lock(void* status) {
    usleep(100000);
    back(&holds);
    *(nntile_status*)status = nntile_record_run(record, NULL);
    leave();
    return NULL;
}

/* This thread waits and asks for the interpreter's lock; the other one has that. */
static void two_locks(void) {
    nntile_status found = NNTILE_INTERNAL, own = NNTILE_INTERNAL;
    pthread_t first, second;
    nntile_wait_outside(held, leave, back);
    nntile_wait_interrupted(ask_interpreter);
    begin_task();
    pthread_create(&second, NULL, post_later, NULL);
    pthread_create(&first, NULL, run_with_lock, &found);
    alarm(20);
    own = copy_x_to_z(&error);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    alarm(0);
    CHECK(own == NNTILE_OK && found == NNTILE_OK);
    nntile_wait_interrupted(NULL);
    nntile_wait_outside(NULL, NULL, NULL);
    OK(nntile_context_wait(&error));
}

/* The task that runs is waited for, those behind it are skipped. */
static void abandoned(void) {
    float value;
    const nntile_operand both[] = {y, s};
    begin_task();
    OK(nntile_record_op(record, copy, both, 1, 1, NULL, 0, NNTILE_F32, &error));
    nntile_context_abandon();
    sem_post(&go);
    FAILS(NNTILE_RUNTIME, "never computed",
          nntile_record_read(record, &s, &value, sizeof value, &error));
}

int main(void) {
    static float data[COUNT];
    const int64_t sizes[] = {ROWS, SIDE}, t_sizes[] = {SIDE, SIDE}, strides[] = {SIDE, 1},
                  t_strides[] = {1, SIDE};
    const nntile_context_config config = {
        .struct_size = sizeof config, .ncpu = 1, .memory_bytes = 11 << 18};
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    OK(nntile_op_find("copy", &copy, &error));
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 4; ++k)
        OK(nntile_buffer_create(record, k % 2 ? sizeof *data : sizeof data, &buffers[k], &error));
    x = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                         .dtype = NNTILE_F32,
                         .ndim = 2,
                         .buffer = buffers[0],
                         .sizes = sizes,
                         .strides = strides};
    x_t = y = z = x;
    x_t.sizes = t_sizes;
    x_t.strides = t_strides;
    y.ndim = 0;
    y.buffer = buffers[1];
    z.buffer = buffers[2];
    s = y;
    s.buffer = buffers[3];
    for (int i = 0; i < COUNT; ++i) data[i] = (float)i;
    OK(nntile_record_write(record, &x, data, sizeof data, &error));
    fork_beside_a_waiting_thread();
    interrupts();
    two_locks();
    abandoned();
    for (int k = 0; k < 4; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
