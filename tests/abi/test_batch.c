/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_record_function: a function of the host on a whole batch, and on one cut into rows. */
#include "check.h"

enum { ROWS = 6 };

/* Calls of the functions below: x has shape (batch, 2). */
typedef struct {
    int64_t calls, rows, added;
} counts;
static counts seen;
static int cut;                   /* they have an axis */
static _Atomic int destroyed = 0; /* a worker may do it after the last result is there */

static void end(void* user) {
    CHECK(user == &seen);
    ++destroyed;
}

/* Returns the rows: without an axis one. */
static int64_t count(void* user, const int64_t* sizes, int accumulate) {
    const int64_t batch = cut ? sizes[0] : 1;
    CHECK(user == &seen);
    ++seen.calls;
    seen.rows += batch;
    seen.added += accumulate != 0;
    return batch;
}

/* y = 10 x. */
static int times_ten(void* user, const int64_t* starts, const int64_t* sizes, int accumulate,
                     void* const* data, char* text) {
    const float* x = data[0];
    float* y = data[1];
    const int64_t batch = count(user, sizes, accumulate);
    (void)starts;
    for (int64_t i = 0; i < 2 * batch; ++i) y[i] = 10 * x[i];
    if (x[0] != 100) return 0;
    snprintf(text, 256, "times_ten: %d is too much", 100);
    return NNTILE_INDEX_ERROR;
}

/* s = sum of the rows of x. */
static int sum(void* user, const int64_t* starts, const int64_t* sizes, int accumulate,
               void* const* data, char* text) {
    const float* x = data[0];
    float* s = data[1];
    const int64_t batch = count(user, sizes, accumulate);
    (void)starts, (void)text;
    if (!accumulate) s[0] = s[1] = 0;
    for (int64_t i = 0; i < 2 * batch; ++i) s[i % 2] += x[i];
    return 0;
}

static nntile_record* record;
static nntile_operand x, y, s;

typedef int (*batch_function)(void*, const int64_t*, const int64_t*, int, void* const*, char*);

static nntile_function function_of(const char* name, batch_function run, const int64_t* axes) {
    return (nntile_function){.struct_size = sizeof(nntile_function),
                             .name = name,
                             .signature = name ? (uint64_t)name[0] : 4,
                             .run = run,
                             .user = &seen,
                             .destroy = end,
                             .axes = axes};
}

static nntile_status call(const char* name, batch_function run, const nntile_operand* out,
                          const int64_t* axes) {
    const nntile_operand operands[] = {x, *out};
    const nntile_function f = function_of(name, run, axes);
    seen = (counts){0};
    cut = axes != NULL;
    return nntile_record_function(record, &f, operands, 1, 1, &error);
}

static void values(int64_t parts, int64_t joined) {
    const int64_t kept[] = {0, -1, 0, -1}, summed[] = {0, -1, -1};
    float found[2 * ROWS];
    OK(call("times_ten", times_ten, &y, kept));
    OK(nntile_record_read(record, &y, found, sizeof found, &error));
    for (int i = 0; i < 2 * ROWS; ++i) CHECK(found[i] == 10 * (float)i);
    CHECK(seen.calls == parts && seen.rows == ROWS && seen.added == 0);
    OK(call("sum", sum, &s, summed));
    OK(nntile_record_read(record, &s, found, 2 * sizeof *found, &error));
    CHECK(found[0] == 30 && found[1] == 36);
    CHECK(seen.calls == parts && seen.rows == ROWS && seen.added == joined);
    OK(call("no batch", sum, &s, NULL)); /* so it sums one row */
    OK(nntile_record_read(record, &s, found, 2 * sizeof *found, &error));
    CHECK(found[0] == 0 && found[1] == 1 && seen.calls == 1 && seen.rows == 1);
}

static void errors(float* data) {
    const int64_t kept[] = {0, -1, 0, -1}, mixed[] = {0, -1, 0, -1, -1};
    const nntile_operand all[] = {x, y, s};
    const nntile_function f = function_of("f", sum, mixed), unnamed = function_of(NULL, sum, kept);
    nntile_function updates = function_of("f", sum, NULL), old = f;
    updates.n_updated = 1;
    old.struct_size = 8;
    FAILS(NNTILE_INVALID_ARGUMENT, "f: axis 0 is in some outputs only",
          nntile_record_function(record, &f, all, 1, 2, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "f: updated operand 0 has another shape or dtype as an output",
          nntile_record_function(record, &updates, all + 1, 1, 1, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "struct_size is not set",
          nntile_record_function(record, &old, all, 1, 2, &error));
    FAILS(NNTILE_INVALID_ARGUMENT, "f: axis 0 of operand 1 has extent 2, that of another one 6",
          call("f", sum, &s, kept));
    FAILS(NNTILE_INVALID_ARGUMENT, "neither run nor start is given", call("f", NULL, &y, kept));
    FAILS(NNTILE_INVALID_ARGUMENT, "name is NULL",
          nntile_record_function(record, &unnamed, all, 1, 1, &error));
    data[6] = 100; /* in one of the parts */
    OK(nntile_record_write(record, &x, data, 2 * ROWS * sizeof *data, &error));
    OK(call("times_ten", times_ten, &y, kept));
    FAILS(NNTILE_INDEX_ERROR, "times_ten: 100 is too much",
          nntile_record_read(record, &y, data, 2 * ROWS * sizeof *data, &error));
}

int main(void) {
    const int64_t sizes[] = {ROWS, 2}, strides[] = {2, 1}, row = 1;
    const nntile_context_config config = {.struct_size = sizeof config, .ncpu = 1}; /* counts */
    nntile_buffer* buffers[3];
    float data[2 * ROWS];
    for (int i = 0; i < 2 * ROWS; ++i) data[i] = (float)i;
    OK(nntile_context_create(&config, &error));
    OK(nntile_record_create(&record, &error));
    for (int k = 0; k < 3; ++k)
        OK(nntile_buffer_create(record, k < 2 ? sizeof data : 2 * sizeof *data, &buffers[k],
                                &error));
    x = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                         .dtype = NNTILE_F32,
                         .ndim = 2,
                         .buffer = buffers[0],
                         .sizes = sizes,
                         .strides = strides};
    y = x;
    y.buffer = buffers[1];
    s = (nntile_operand){.kind = NNTILE_OPERAND_TENSOR,
                         .dtype = NNTILE_F32,
                         .ndim = 1,
                         .buffer = buffers[2],
                         .sizes = sizes + 1,
                         .strides = strides + 1};
    OK(nntile_record_write(record, &x, data, sizeof data, &error));
    values(1, 0);
    OK(nntile_record_axis_name(record, &x, 0, "rows", &error));
    OK(nntile_record_axis_tiling(record, "rows", &row, 1, &error));
    values(ROWS, 2); /* the first four parts begin the four lanes of a sum */
    errors(data);
    for (int k = 0; k < 3; ++k) nntile_buffer_destroy(buffers[k]);
    nntile_record_destroy(record);
    OK(nntile_context_shutdown(&error));
    CHECK(destroyed == 2 * 3 + 5 + 1); /* but for the struct without a size */
    REPORT;
}
