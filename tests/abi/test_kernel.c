/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_record_function with `ranges`: parts along axes know where they are; numbers, errors. */
#include "check.h"

enum { ROWS = 6, COLUMNS = 4 };

static _Atomic int64_t calls = 0;

/* y[i, j] = factor * x[i, j] + s + 100 i + j, x and y of shape (rows, columns). */
static int place(void* user, const int64_t* starts, const int64_t* sizes, int accumulate,
                 void* const* data, char* text) {
    const int64_t factor = *(const int64_t*)user;
    const float* x = data[0];
    const double s = *(const double*)data[1];
    float* y = data[2];
    ++calls;
    CHECK(!accumulate);
    for (int64_t i = 0; i < sizes[0]; ++i)
        for (int64_t j = 0; j < sizes[1]; ++j, ++x, ++y)
            *y = (float)(factor * *x + s + 100 * (starts[0] + i) + starts[1] + j);
    if (factor != 13) return 0;
    snprintf(text, 256, "no %d", 13);
    return NNTILE_INDEX_ERROR;
}

static nntile_record* record;
static const int64_t sizes[] = {ROWS, COLUMNS}, strides[] = {COLUMNS, 1};
static nntile_operand x, y;

static nntile_operand number(double f) {
    return (nntile_operand){.kind = NNTILE_OPERAND_SCALAR, .dtype = NNTILE_F64, .f = f};
}

static nntile_status call(int64_t factor, const int64_t* axes) {
    static int64_t factors[14]; /* tasks read them later */
    const nntile_operand operands[] = {x, number(0.5), y};
    factors[factor] = factor;
    const nntile_function f = {.struct_size = sizeof f,
                               .name = "place",
                               .signature = 7,
                               .run = place,
                               .user = &factors[factor],
                               .axes = axes,
                               .ranges = 1};
    return nntile_record_function(record, &f, operands, 2, 1, &error);
}

static void values(int64_t parts, const int64_t* axes) {
    float found[ROWS * COLUMNS];
    for (int64_t factor = 2; factor < 4; ++factor) { /* one plan */
        calls = 0;
        OK(call(factor, axes));
        OK(nntile_record_read(record, &y, found, sizeof found, &error));
        CHECK(calls == parts);
        for (int k = 0; k < ROWS * COLUMNS; ++k)
            CHECK(found[k] == (float)factor * (float)k + 0.5f + 100.f * (float)(k / COLUMNS) +
                                  (float)(k % COLUMNS));
    }
}

static void errors(const int64_t* axes) {
    const int64_t missing[] = {0, 1, 0, -1}, twice_there[] = {0, 0, 0, 1}, many[] = {8, 0, 8, 0},
                  crossed[] = {0, 1, 1, 0};
    FAILS(NNTILE_INVALID_ARGUMENT, "place: axis 1 is not in all outputs", call(2, missing));
    FAILS(NNTILE_INVALID_ARGUMENT, "place: operand 0 has axis 0 twice", call(2, twice_there));
    FAILS(NNTILE_INVALID_ARGUMENT, "place: operand 0 has an axis 8; there may be 8", call(2, many));
    FAILS(NNTILE_INVALID_ARGUMENT, "place: axis 1 of operand 2 has extent 6, that of another one 4",
          call(2, crossed));
    float found[ROWS * COLUMNS];
    OK(call(13, axes)); /* it fails in a task */
    FAILS(NNTILE_INDEX_ERROR, "place: no 13",
          nntile_record_read(record, &y, found, sizeof found, &error));
    values(1, axes);
}

int main(void) {
    const int64_t two[] = {4, 2}, one = 1, both[] = {0, 1, 0, 1};
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 1}; /* counts */
    nntile_buffer* buffers[2];
    float data[ROWS * COLUMNS];
    for (int i = 0; i < ROWS * COLUMNS; ++i) data[i] = (float)i;
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 2; ++k) OK(nntile_buffer_create(record, sizeof data, &buffers[k], &error));
    x = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                         .dtype = NNTILE_F32,
                         .ndim = 2,
                         .buffer = buffers[0],
                         .sizes = sizes,
                         .strides = strides};
    y = x;
    y.buffer = buffers[1];
    OK(nntile_record_write(record, &x, data, sizeof data, &error));
    values(1, both);
    errors(both);
    OK(nntile_record_axis_name(record, &x, 0, "rows", &error));
    OK(nntile_record_axis_name(record, &x, 1, "columns", &error));
    OK(nntile_record_axis_tiling(record, "rows", two, 2, &error));
    values(2, both);
    OK(nntile_record_axis_tiling(record, "columns", &one, 1, &error));
    values(2 * COLUMNS, both);
    for (int k = 0; k < 2; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    REPORT;
}
