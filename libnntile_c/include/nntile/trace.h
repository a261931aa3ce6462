/* SPDX-License-Identifier: BSD-3-Clause
 * Which task ran where and when: what a profiler asks for. */
#ifndef NNTILE_TRACE_H
#define NNTILE_TRACE_H

#include "nntile/error.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** A task that has run. Since 0.1. */
typedef struct nntile_trace_task {
    const char *op;    /**< the op that it is a part of; borrowed for the call */
    int32_t worker;    /**< by number, from 0 */
    int64_t mark;      /**< of the thread that launched it */
    int64_t begin_ns;  /**< by the system's clock, since 1970 */
    int64_t end_ns;
} nntile_trace_task;

/** Called by a worker after each task, by several workers at a time. Since 0.1. */
typedef void (*nntile_trace_function)(const nntile_trace_task *task);

/** Sets what is called after each task; NULL: nothing, which costs nothing. A task that runs at that moment may
 *  still call the former one, so it must stay callable. Never fails. Since 0.1. */
void nntile_trace_set(nntile_trace_function function);

/** Sets the mark of what this thread launches from now on; 0 at first. Never fails. Since 0.1. */
void nntile_trace_mark(int64_t mark);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
