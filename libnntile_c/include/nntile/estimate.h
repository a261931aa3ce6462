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

/** A step ends here. Of several, the last but one is what a report tells of: those before it warm
 * up, and it keeps data for the one after it. INVALID_STATE if no estimate has begun. Since 0.1. */
nntile_status nntile_estimate_end_step(nntile_error** error);

/** on: from now on tensors have no data. What is launched is noted, by an estimate that has begun,
 * and does not run; nothing is allocated, and to read is an error. Such tensors have no data later
 * either. memory_bytes: plans are made for this budget; 0: for that of the context. Call
 * nntile_record_run() before it changes. INVALID_ARGUMENT for negative bytes. Since 0.1. */
nntile_status nntile_estimate_imagine(int32_t on, int64_t memory_bytes, nntile_error** error);

/** A machine to play on. Set struct_size. Fields are only appended. Since 0.1. */
typedef struct nntile_estimate_machine {
    size_t struct_size;
    int32_t workers;              /**< 1 to 65536 */
    int64_t memory_bytes;         /**< what has no room goes to a disk; 0: there is room for all */
    double swap_bytes_per_second; /**< of that disk, reads and writes together */
} nntile_estimate_machine;

/** What tensors without data would need there. Set struct_size. Fields are only appended; the least
 * bytes are a lower bound for any choice of what leaves memory, in this order of tasks. Since
 * 0.1. */
typedef struct nntile_estimate_memory {
    size_t struct_size;
    double seconds;                    /**< of the step, transfers included */
    int64_t peak_bytes;                /**< held at once by tensors and runs, of all steps */
    int64_t reserved_peak_bytes;       /**< in main memory at once, likewise */
    int64_t swap_peak_bytes;           /**< on the disk at once, likewise */
    int64_t read_bytes, written_bytes; /**< from and to the disk, of the step */
    int64_t least_read_bytes, least_written_bytes;
    int64_t holders; /**< rows of nntile_estimate_holder_get() */
} nntile_estimate_memory;

/** Plays the steps that were noted while tensors had no data. INVALID_ARGUMENT for a machine that
 * cannot be, or if nothing was launched; OUT_OF_MEMORY with op and line if a task does not fit.
 * Since 0.1. */
nntile_status nntile_estimate_rehearse(nntile_estimate* estimate,
                                       const nntile_estimate_machine* machine,
                                       nntile_estimate_memory* report, nntile_error** error);

/** Who held memory at the peak: all that one call has made. Set struct_size. Since 0.1. */
typedef struct nntile_estimate_holder {
    size_t struct_size;
    const char* op; /**< borrowed until the next rehearsal */
    uint64_t place; /**< as nntile_trace_place(); 0: unknown */
    int64_t bytes, tiles;
} nntile_estimate_holder;

/** Row `index`, largest first, of the last rehearsal. INDEX_ERROR if there is none. Since 0.1. */
nntile_status nntile_estimate_holder_get(const nntile_estimate* estimate, int64_t index,
                                         nntile_estimate_holder* holder, nntile_error** error);

/** Ends an estimate; NULL is allowed. Since 0.1. */
void nntile_estimate_destroy(nntile_estimate* estimate);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
