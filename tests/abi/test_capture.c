/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_capture_*: a graph that is kept, run again on other buffers and numbers; what is refused
 * changes nothing. */
#include "check.h"

enum { SIZE = 4 };

static nntile_record* record;
static const int64_t size = SIZE, stride = 1;

static nntile_operand operand_of(nntile_buffer* buffer) {
    return (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                            .dtype = NNTILE_F32,
                            .ndim = 1,
                            .buffer = buffer,
                            .sizes = &size,
                            .strides = &stride};
}

static nntile_buffer* buffer_with(float first) {
    nntile_buffer* buffer = NULL;
    float data[SIZE];
    for (int k = 0; k < SIZE; ++k) data[k] = first + (float)k;
    OK(nntile_buffer_create(record, sizeof data, &buffer, &error));
    const nntile_operand operand = operand_of(buffer);
    OK(nntile_record_write(record, &operand, data, sizeof data, &error));
    return buffer;
}

static float second_of(nntile_buffer* buffer) {
    float data[SIZE] = {0};
    const nntile_operand operand = operand_of(buffer);
    OK(nntile_record_read(record, &operand, data, sizeof data, &error));
    return data[1];
}

/* y = x + number * own */
static void add(nntile_buffer* x, nntile_buffer* own, nntile_buffer* y, double number) {
    uint32_t op = 0;
    OK(nntile_op_find("add", &op, &error));
    const nntile_operand operands[] = {operand_of(x), operand_of(own), operand_of(y)};
    const nntile_attr alpha = {.kind = NNTILE_ATTR_REAL, .f = number};
    OK(nntile_record_op(record, op, operands, 2, 1, &alpha, 1, NNTILE_F32, &error));
}

int main(void) {
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 2};
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    nntile_buffer *x = buffer_with(0), *own = buffer_with(10), *y = NULL;
    nntile_capture* capture = NULL;

    FAILS(NNTILE_INVALID_STATE, "none records", nntile_capture_end(record, &capture, &error));
    CHECK(!nntile_capture_is_open(record));
    OK(nntile_capture_begin(record, 0, 0, &error));
    CHECK(nntile_capture_is_open(record));
    FAILS(NNTILE_INVALID_STATE, "another capture records",
          nntile_capture_begin(record, 0, 0, &error));
    OK(nntile_buffer_create(record, sizeof(float[SIZE]), &y, &error));
    add(x, own, y, 2);
    CHECK(nntile_record_pending(record) == 1);
    float data[SIZE];
    const nntile_operand read = operand_of(y);
    FAILS(NNTILE_INVALID_STATE, "captured function",
          nntile_record_read(record, &read, data, sizeof data, &error));
    FAILS(NNTILE_INVALID_STATE, "captured function", nntile_record_run(record, &error));
    FAILS(NNTILE_INVALID_STATE, "captured function",
          nntile_record_mode_set(record, NNTILE_GRAPH, &error));
    int64_t bits[2] = {0};
    CHECK(nntile_capture_pending_numbers(record, 0, bits, 2) == 1);
    double number;
    memcpy(&number, bits, sizeof number);
    CHECK(number == 2);
    OK(nntile_capture_end(record, &capture, &error));
    CHECK(second_of(y) == 1 + 2 * 11); /* it has run */

    CHECK(nntile_capture_slots(capture) == 3);
    uint32_t slot_x = 0, slot_y = 0;
    for (size_t k = 0; k < 3; ++k) {
        nntile_capture_slot slot = {.struct_size = sizeof slot};
        OK(nntile_capture_slot_get(capture, k, &slot, &error));
        CHECK(slot.reads == (slot.buffer != y) && slot.writes == (slot.buffer == y) &&
              slot.made == (slot.buffer == y));
        if (slot.buffer == x) slot_x = (uint32_t)k;
        if (slot.buffer == y) slot_y = (uint32_t)k;
    }

    /* other data, other numbers; without them, those that were recorded */
    nntile_buffer *other = buffer_with(100), *result = NULL;
    OK(nntile_buffer_create(record, sizeof data, &result, &error));
    const nntile_capture_binding both[] = {{slot_x, other}, {slot_y, result}};
    const nntile_capture_number half = {.number = 0, .value = 0.5};
    OK(nntile_capture_replay(capture, both, 2, &half, 1, 0, 0, &error));
    CHECK(second_of(result) == 101 + 11 * 0.5 && second_of(y) == 1 + 2 * 11);
    OK(nntile_capture_replay(capture, NULL, 0, NULL, 0, 0, 0, &error));
    CHECK(second_of(y) == 1 + 11 * 0.5);

    /* what is refused */
    const nntile_capture_binding twice[] = {{slot_x, own}}, far[] = {{7, own}};
    FAILS(NNTILE_NOT_FOUND, "also uses in another way",
          nntile_capture_replay(capture, twice, 1, NULL, 0, 0, 0, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "slot 7 of 3",
          nntile_capture_replay(capture, far, 1, NULL, 0, 0, 0, &error));
    const nntile_capture_number none = {.number = 3};
    FAILS(NNTILE_INVALID_ARGUMENT, "number 3 of 1",
          nntile_capture_replay(capture, NULL, 0, &none, 1, 0, 0, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "capture is NULL",
          nntile_capture_replay(NULL, NULL, 0, NULL, 0, 0, 0, &error));
    nntile_buffer* small = NULL;
    OK(nntile_buffer_create(record, 8, &small, &error));
    const nntile_capture_binding short_one[] = {{slot_x, small}};
    FAILS(NNTILE_NOT_FOUND, "shape (4,)",
          nntile_capture_replay(capture, short_one, 1, NULL, 0, 0, 0, &error));
    CHECK(second_of(y) == 1 + 11 * 0.5);

    /* buffers that have ended: one that is written is left out, one that is read is missed */
    nntile_buffer_destroy(y);
    OK(nntile_capture_replay(capture, both, 1, NULL, 0, 0, 0, &error));
    nntile_buffer_destroy(own);
    FAILS(NNTILE_NOT_FOUND, "no longer there",
          nntile_capture_replay(capture, NULL, 0, NULL, 0, 0, 0, &error));

    nntile_capture* more[2];
    for (int k = 0; k < 2; ++k) {
        OK(nntile_capture_begin(record, 0, 0, &error));
        add(x, other, result, 3 + k);
        OK(nntile_capture_end(record, &more[k], &error));
    }
    /* in what they differ: the op, and both numbers */
    char* text = NULL;
    const uint32_t live = 0;
    OK(nntile_capture_difference(more[0], more[1], NULL, 0, &text, &error));
    CHECK(strcmp(text, "other numbers: add with alpha = 4, it was 3") == 0);
    nntile_text_free(text);
    OK(nntile_capture_difference(more[0], more[1], &live, 1, &text, &error));
    CHECK(strcmp(text, "") == 0);
    nntile_text_free(text);
    nntile_capture* two = NULL;
    OK(nntile_capture_begin(record, 0, 0, &error));
    add(x, other, result, 3);
    add(result, other, result, 3);
    OK(nntile_capture_end(record, &two, &error));
    OK(nntile_capture_difference(more[0], two, NULL, 0, &text, &error));
    CHECK(strcmp(text, "other ops or shapes: op 2 is add, there was none") == 0);
    nntile_text_free(text);
    FAILS(NNTILE_INVALID_ARGUMENT, "capture is NULL",
          nntile_capture_difference(more[0], NULL, NULL, 0, &text, &error));
    nntile_capture_destroy(two);

    /* end without a capture: what was recorded runs */
    OK(nntile_capture_begin(record, 0, 0, &error));
    add(x, other, result, 7);
    OK(nntile_capture_end(record, NULL, &error));
    CHECK(second_of(result) == 1 + 7 * 101);

    nntile_capture_destroy(capture);
    for (int k = 0; k < 2; ++k) nntile_capture_destroy(more[k]);
    nntile_capture_destroy(NULL);
    nntile_buffer* all[4] = {x, other, result, small};
    for (int k = 0; k < 4; ++k) nntile_buffer_destroy(all[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
