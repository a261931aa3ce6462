/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_estimate_*: launches, played; tensors without data, rehearsed; states and arguments. */
#include "check.h"

enum { SIZE = 8 };

int main(void) {
    const int64_t size = SIZE, stride = 1;
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 1};
    const float data[SIZE] = {1, 2, 3};
    nntile_record* record;
    nntile_buffer* buffers[3];
    nntile_operand operands[3];
    OK(nntile_cost_set("task_seconds = 2\nspread_seconds = 1e-9\n", &error));
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 3; ++k) {
        OK(nntile_buffer_create(record, sizeof data, &buffers[k], &error));
        operands[k] = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                                       .dtype = NNTILE_F32,
                                       .ndim = 1,
                                       .buffer = buffers[k],
                                       .sizes = &size,
                                       .strides = &stride};
    }
    OK(nntile_record_write(record, &operands[0], data, sizeof data, &error));
    uint32_t op = 0;
    OK(nntile_op_find("copy", &op, &error));

    FAILS(NNTILE_INVALID_STATE, "none has begun", nntile_estimate_end(NULL, &error));
    OK(nntile_estimate_begin(&error));
    FAILS(NNTILE_INVALID_STATE, "another one has begun", nntile_estimate_begin(&error));
    for (int k = 0; k < 2; ++k) /* 0 to 1, 1 to 2: a chain */
        OK(nntile_record_op(record, op, &operands[k], 1, 1, NULL, 0, NNTILE_F32, &error));
    if (nntile_record_pending(record)) OK(nntile_record_run(record, &error));
    nntile_estimate* estimate = NULL;
    OK(nntile_estimate_end(&estimate, &error));

    nntile_estimate_report report = {.struct_size = sizeof report};
    OK(nntile_estimate_play(estimate, 3, &report, &error));
    CHECK(report.tasks == 2 && report.launches >= 1);
    CHECK(report.seconds > 3.99 && report.seconds < 4.01);
    CHECK(report.work_seconds == report.critical_seconds);
    report = (nntile_estimate_report){.struct_size = offsetof(nntile_estimate_report, seconds),
                                      .seconds = -1};
    OK(nntile_estimate_play(estimate, 1, &report, &error));
    CHECK(report.tasks == 2 && report.seconds == -1);
    FAILS(NNTILE_INVALID_ARGUMENT, "workers must be in [1, 65536], got 0",
          nntile_estimate_play(estimate, 0, &report, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "report is NULL",
          nntile_estimate_play(estimate, 1, NULL, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "estimate is NULL",
          nntile_estimate_play(NULL, 1, &report, &error));
    report.struct_size = 0;
    FAILS(NNTILE_INVALID_ARGUMENT, "struct_size is 0",
          nntile_estimate_play(estimate, 1, &report, &error));
    nntile_estimate_destroy(estimate);
    nntile_estimate_destroy(NULL);

    FAILS(NNTILE_INVALID_STATE, "none has begun", nntile_estimate_end_step(&error));
    FAILS(NNTILE_INVALID_ARGUMENT, "memory of -1", nntile_estimate_imagine(1, -1, &error));
    OK(nntile_estimate_imagine(1, 1 << 20, &error));
    FAILS(NNTILE_INVALID_STATE, "copy: a tensor f32 (8,) has data",
          nntile_record_op(record, op, operands, 1, 1, NULL, 0, NNTILE_F32, &error));
    nntile_buffer* without;
    OK(nntile_buffer_create(record, sizeof data, &without, &error));
    nntile_operand imagined[2] = {operands[0], operands[1]};
    imagined[0].buffer = without;
    OK(nntile_buffer_create(record, sizeof data, &imagined[1].buffer, &error));
    OK(nntile_record_write(record, &imagined[0], data, sizeof data, &error));
    OK(nntile_estimate_begin(&error));
    for (int k = 0; k < 3; ++k) {
        OK(nntile_record_op(record, op, imagined, 1, 1, NULL, 0, NNTILE_F32, &error));
        OK(nntile_record_run(record, &error));
        OK(nntile_estimate_end_step(&error));
    }
    OK(nntile_estimate_end(&estimate, &error));
    float back[SIZE];
    FAILS(NNTILE_INVALID_STATE, "the result of copy, f32 (8,), has no data",
          nntile_record_read(record, &imagined[1], back, sizeof back, &error));
    OK(nntile_estimate_imagine(0, 0, &error));
    nntile_estimate_machine machine = {
        .struct_size = sizeof machine, .workers = 1, .swap_bytes_per_second = 1e9};
    nntile_estimate_memory memory = {.struct_size = sizeof memory};
    OK(nntile_estimate_rehearse(estimate, &machine, &memory, &error));
    CHECK(memory.seconds > 1.99 && memory.seconds < 2.01);
    CHECK(memory.peak_bytes == 3 * 64 && memory.read_bytes == 0); /* two results at once */
    CHECK(memory.holders == 2);
    nntile_estimate_holder holder = {.struct_size = sizeof holder};
    OK(nntile_estimate_holder_get(estimate, 0, &holder, &error));
    CHECK(strcmp(holder.op, "copy") == 0 && holder.bytes == 2 * 64 && holder.tiles == 2);
    FAILS(NNTILE_INDEX_ERROR, "index 2 is out of range [0, 2)",
          nntile_estimate_holder_get(estimate, 2, &holder, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "machine is NULL",
          nntile_estimate_rehearse(estimate, NULL, &memory, &error));
    machine.workers = 0;
    FAILS(NNTILE_INVALID_ARGUMENT, "workers must be in [1, 65536], got 0",
          nntile_estimate_rehearse(estimate, &machine, &memory, &error));
    nntile_estimate_destroy(estimate);
    nntile_buffer_destroy(without);
    nntile_buffer_destroy(imagined[1].buffer);

    OK(nntile_estimate_begin(&error));
    OK(nntile_estimate_end(NULL, &error));
    for (int k = 0; k < 3; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
