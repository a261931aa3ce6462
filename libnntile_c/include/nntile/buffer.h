/* SPDX-License-Identifier: BSD-3-Clause
 * What a torch storage is to us: a number of bytes that holds one value of a recorder. Bytes exist
 * only as tiles, and only once something was written. */
#ifndef NNTILE_BUFFER_H
#define NNTILE_BUFFER_H

#include "nntile/error.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Opaque. Since 0.1. */
typedef struct nntile_buffer nntile_buffer;
typedef struct nntile_record nntile_record;

/** Makes an undefined buffer of nbytes bytes on a recorder. Allocates no tiles.
 *  out  the buffer; the caller ends it with nntile_buffer_destroy().   Since 0.1. */
nntile_status nntile_buffer_create(nntile_record* record, int64_t nbytes, nntile_buffer** out,
                                   nntile_error** error);

/** Ends a buffer; NULL is allowed. Never blocks: the end takes effect at the recorder's next call.
 * Any thread, also inside a garbage collector; also after the recorder's end. Since 0.1. */
void nntile_buffer_destroy(nntile_buffer* buffer);

/** Live buffers of a recorder, their bytes, and the highest total of bytes since the last reset.
 * Since 0.1. */
void nntile_buffer_totals(nntile_record* record, int64_t* count, int64_t* bytes,
                          int64_t* peak_bytes);
void nntile_buffer_reset_peak(nntile_record* record);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
