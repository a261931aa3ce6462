/* SPDX-License-Identifier: BSD-3-Clause
 * A recorded graph that is kept and run again on other data and numbers, without recording it. */
#ifndef NNTILE_CAPTURE_H
#define NNTILE_CAPTURE_H

#include "nntile/record.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** What was recorded between a begin and an end. Since 0.1. */
typedef struct nntile_capture nntile_capture;

/** A buffer that a captured graph reads or writes. Set struct_size to sizeof(nntile_capture_slot).
 * Fields are only appended. Since 0.1. */
typedef struct nntile_capture_slot {
    size_t struct_size;
    nntile_buffer* buffer; /**< as it was recorded; NULL: it has ended */
    int32_t reads;         /**< what it held before */
    int32_t writes;        /**< it holds something else afterwards */
    int32_t made;          /**< it was made during the capture */
} nntile_capture_slot;

/** What stands in a slot during one replay, in place of the buffer that was recorded. Since 0.1. */
typedef struct nntile_capture_binding {
    uint32_t slot;
    nntile_buffer* buffer;
} nntile_capture_binding;

/** A run-time number of one replay; it keeps its value until it is given another one. Since 0.1. */
typedef struct nntile_capture_number {
    uint32_t number;
    double value;
} nntile_capture_number;

/** Submits what was recorded; then everything is recorded into one graph, whatever the mode, by all
 * threads. Reads, runs and changes of the mode give INVALID_STATE until the end, and so does
 * another begin. seed, offset: state of the generator that random ops draw from. Since 0.1. */
nntile_status nntile_capture_begin(nntile_record* record, int64_t seed, int64_t offset,
                                   nntile_error** error);

/** 1 between begin and end, in every thread, else 0. Since 0.1. */
int nntile_capture_is_open(nntile_record* record);

/** Submits what was recorded and keeps it; out NULL: only submits it, as after an exception of the
 * captured function. After an error nothing is kept, and nothing is recorded any more. Since 0.1.
 */
nntile_status nntile_capture_end(nntile_record* record, nntile_capture** out, nntile_error** error);

/** Run-time numbers that have been recorded in the open graph, from number `from` on, as many as
 * fit: their bits, of a double or an int64. Returns how many there are in all. Since 0.1. */
size_t nntile_capture_pending_numbers(nntile_record* record, size_t from, int64_t* bits, size_t n);

void nntile_capture_destroy(nntile_capture* capture);

/** Number of slots. Since 0.1. */
size_t nntile_capture_slots(const nntile_capture* capture);
nntile_status nntile_capture_slot_get(const nntile_capture* capture, size_t slot,
                                      nntile_capture_slot* out, nntile_error** error);

/** The first thing in which a capture is not an earlier one, with its op and line; *text is "" if
 * there is none. Numbers that are `live` (see nntile_capture_number) do not count. Free it with
 * nntile_text_free(). Since 0.1. */
nntile_status nntile_capture_difference(const nntile_capture* earlier,
                                        const nntile_capture* capture, const uint32_t* live,
                                        size_t n_live, char** text, nntile_error** error);

/** Runs a captured graph again: slots without a binding stand for the buffers that were recorded.
 * What was recorded and is pending is submitted before. Buffers that are written and have ended are
 * left out. seed, offset: what the generator's state is now; the caller moves it on. NOT_FOUND, and
 * nothing has changed: a buffer that is read has ended, holds data of another shape or dtype, or
 * stands in two slots. Since 0.1. */
nntile_status nntile_capture_replay(nntile_capture* capture, const nntile_capture_binding* bindings,
                                    size_t n_bindings, const nntile_capture_number* numbers,
                                    size_t n_numbers, int64_t seed, int64_t offset,
                                    nntile_error** error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
