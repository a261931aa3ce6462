/* SPDX-License-Identifier: BSD-3-Clause
 * A thread waits inside of a call: what others, and forked children, can do meanwhile. */
#define _DEFAULT_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { SIDE = 512, COUNT = SIDE * SIDE }; /* 1 MiB of floats */

static nntile_record* record;
static nntile_buffer* buffers[3];
static nntile_operand x, x_t, y, z;
static sem_t begun, go;
static uint32_t copy;

/* A task that ends when it is told to. Until then it holds a dense copy of x.t(). */
static int wait_for_go(void* user, void* const* data, char* text) {
    (void)user, (void)text;
    sem_post(&begun);
    sem_wait(&go);
    *(float*)data[1] = ((const float*)data[0])[1];
    return 0;
}

static void begin_task(void) {
    const nntile_operand operands[] = {x_t, y};
    OK(nntile_record_host(record, "wait_for_go", 1, wait_for_go, NULL, NULL, operands, 1, 1, NULL,
                          &error));
    sem_wait(&begun);
}

static nntile_status copy_x_to_z(nntile_error** why) {
    const nntile_operand operands[] = {x, z};
    return nntile_record_op(record, copy, operands, 1, 1, NULL, 0, NNTILE_F32, NULL, why);
}

/* The memory is used up until the task ends: this thread waits with the recorder's lock. */
static void* copy_in_thread(void* status) {
    *(nntile_status*)status = copy_x_to_z(NULL);
    return NULL;
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
        exit(failures != 0);
    }
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    sem_post(&go);
    pthread_join(thread, NULL);
    CHECK(found == NNTILE_OK);
    OK(nntile_context_wait(&error));
}

int main(void) {
    static float data[COUNT];
    const int64_t sizes[] = {SIDE, SIDE}, strides[] = {SIDE, 1}, t_strides[] = {1, SIDE};
    const nntile_context_config config = {
        .struct_size = sizeof config, .ncpu = 1, .memory_bytes = 5 * sizeof data / 2};
    sem_init(&begun, 0, 0);
    sem_init(&go, 0, 0);
    OK(nntile_op_find("copy", &copy, &error));
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 3; ++k)
        OK(nntile_buffer_create(record, k == 1 ? sizeof *data : sizeof data, &buffers[k], &error));
    x = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                         .dtype = NNTILE_F32,
                         .ndim = 2,
                         .buffer = buffers[0],
                         .sizes = sizes,
                         .strides = strides};
    x_t = y = z = x;
    x_t.strides = t_strides;
    y.ndim = 0;
    y.buffer = buffers[1];
    z.buffer = buffers[2];
    for (int i = 0; i < COUNT; ++i) data[i] = (float)i;
    OK(nntile_record_write(record, &x, data, sizeof data, &error));
    fork_beside_a_waiting_thread();
    for (int k = 0; k < 3; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
