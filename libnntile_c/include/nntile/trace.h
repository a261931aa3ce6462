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
    const char* op; /**< the op that it is a part of; borrowed for the call */
    /** By number, from 0; the number of workers: the thread that called; -1: it went on beside
     * them, as a transfer does */
    int32_t worker;
    int64_t mark;     /**< of nntile_trace_mark(), when it was recorded; of a replay, then */
    int64_t begin_ns; /**< by the system's clock, since 1970 */
    int64_t end_ns;
    const char* kernel; /**< that ran, or "host": a function of the host; lives for ever */
    uint64_t place;     /**< of nntile_trace_place(); 0: unknown */
    int64_t run;        /**< tasks that were launched together have one number */
    int64_t node;  /**< number of the recorded call in its graph; -1: none, as of a retiled input */
    int64_t task;  /**< number in its run */
    int64_t bytes; /**< that it reads and writes */
    int64_t flops; /**< 0: not known, or it has none */
} nntile_trace_task;

/** Called after each task by the worker that ran it, or by who ended it; by several at a time. Also
 * after each transfer to or from the disk and when data leaves memory (`kernel` is "disk", `op`
 * begins with "write", "read" or "evict", `task` says which tile): must not call this library then.
 * Since 0.1. */
typedef void (*nntile_trace_function)(const nntile_trace_task* task);

/** Sets what is called after each task; NULL: nothing, which costs nothing. A task that runs at
 * that moment may still call the former one, so it must stay callable. Never fails. Since 0.1. */
void nntile_trace_set(nntile_trace_function function);

/** Sets the mark of what this thread records or replays from now on; 0 at first. A task that is of
 * several recorded calls has that of the one with the most work, as its place. Never fails. Since
 * 0.1. */
void nntile_trace_mark(int64_t mark);

/** Writes the text of a place with its final zero, cut to `size` bytes; returns its length. Called
 * by any thread, workers too, and never while a call of this library holds a lock that others need.
 * Since 0.1. */
typedef size_t (*nntile_trace_place_text)(uint64_t place, char* out, size_t size);

/** Sets how places become text, in errors of tasks and in printed graphs; NULL: they do not. Never
 * fails. Since 0.1. */
void nntile_trace_places(nntile_trace_place_text text);

/** Sets the place, in the caller's program, of what this thread records from now on; 0: unknown, as
 * at first. Any number below 2^63. It makes no new plans: equal graphs share one, and each run has
 * its own places. Never fails. Since 0.1. */
void nntile_trace_place(uint64_t place);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
