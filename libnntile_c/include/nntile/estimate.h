/* SPDX-License-Identifier: BSD-3-Clause
 * How long work would take on a machine that is not here: what was launched, played on virtual
 * workers with the seconds that the model of the machine (nntile/cost.h) gives each task. */
#ifndef NNTILE_ESTIMATE_H
#define NNTILE_ESTIMATE_H

#include "nntile/error.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** The tasks that were launched between a begin and an end, with what they wait for. Since 0.1. */
typedef struct nntile_estimate nntile_estimate;

/** What playing them gave. Set struct_size to sizeof(nntile_estimate_report). Fields are only
 * appended. Since 0.1. */
typedef struct nntile_estimate_report {
    size_t struct_size;
    int64_t launches; /**< plans launched */
    int64_t tasks;
    double seconds;          /**< until the last task has ended */
    double work_seconds;     /**< of all tasks: seconds on one worker that never waits */
    double critical_seconds; /**< of the longest chain of tasks: less is not possible */
} nntile_estimate_report;

/** From now on launches of all threads are noted; they run as ever. What was recorded and not yet
 * submitted counts when it is. INVALID_STATE if another estimate has begun. Since 0.1. */
nntile_status nntile_estimate_begin(nntile_error** error);

/** Ends noting. *out: ended by nntile_estimate_destroy(); out NULL: what was noted is dropped.
 * INVALID_STATE if none has begun. Does not wait for tasks. Since 0.1. */
nntile_status nntile_estimate_end(nntile_estimate** out, nntile_error** error);

/** Plays what was noted on `workers` equal workers, each with memory for everything;
 * report->struct_size must be set. A wait of the host holds back what is launched after it; the
 * host's own work takes no time. INVALID_ARGUMENT for workers outside [1, 65536], or if nothing was
 * launched. No task runs. Since 0.1. */
nntile_status nntile_estimate_play(const nntile_estimate* estimate, int32_t workers,
                                   nntile_estimate_report* report, nntile_error** error);

/** Ends an estimate; NULL is allowed. Since 0.1. */
void nntile_estimate_destroy(nntile_estimate* estimate);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
