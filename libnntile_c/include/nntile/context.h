/* SPDX-License-Identifier: BSD-3-Clause
 * The runtime: workers, memory budget, counters. One context per process at a time; it may be ended
 * and made again any number of times. */
#ifndef NNTILE_CONTEXT_H
#define NNTILE_CONTEXT_H

#include "nntile/error.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Settings of a context. Set struct_size to sizeof(nntile_context_config); a zero field means its
 * default. Fields are only appended. Since 0.1. */
typedef struct nntile_context_config {
    size_t struct_size;
    int32_t ncpu;  /**< CPU workers; -1: STARPU_NCPU, else one per core of the process's affinity */
    int32_t ncuda; /**< CUDA workers; -1: STARPU_NCUDA, else 0 */
    int64_t memory_bytes; /**< budget for tiles in main memory; 0: 90 % of the machine's memory */
    double spin_seconds;  /**< how long an idle worker polls before it sleeps; < 0: 100e-6 */
    int32_t verbose;      /**< 1: one line on stderr at start and stop */
} nntile_context_config;

/** What a context counts. All totals since its start, bytes in bytes. Without a context all are
 * zero but budget_bytes. Fields are only appended. Since 0.1. */
typedef struct nntile_context_stats {
    size_t struct_size;
    int64_t tasks;      /**< tasks that have run */
    int64_t launches;   /**< plans launched */
    int64_t in_flight;  /**< tasks submitted and not finished */
    int64_t tiles;      /**< tiles alive, pool included */
    int64_t tile_bytes; /**< their bytes */
    int64_t pool_bytes; /**< of these: free in the pool */
    int64_t peak_bytes; /**< highest tile_bytes - pool_bytes */
    int32_t ncpu;
    int32_t ncuda;
    int64_t budget_bytes; /**< budget for tiles; without a context: what one with defaults would
                             take now */
    int64_t reserved_peak_bytes; /**< highest tile_bytes */
} nntile_context_stats;

/** Starts the runtime. At most one context lives at a time (INVALID_STATE otherwise); INVALID_STATE
 * in a forked child; UNSUPPORTED for ncuda > 0 in a build without CUDA; INVALID_ARGUMENT for no
 * worker at all. config  NULL or settings, copied.   Since 0.1. */
nntile_status nntile_context_create(const nntile_context_config* config, nntile_error** error);

/** Waits for all tasks, then stops the runtime. Stored values of buffers are dropped: reading them
 * afterwards gives INVALID_STATE. OK when there is none. Since 0.1. */
nntile_status nntile_context_shutdown(nntile_error** error);

/** 1 while a context lives in this process (0 in a forked child). Since 0.1. */
int nntile_context_active(void);

/** Waits for all submitted tasks; then hands over the first error of a task, if there was one, and
 * forgets it. Since 0.1. */
nntile_status nntile_context_wait(nntile_error** error);

/** From now on until the context ends, tasks that have not begun are skipped; what they would have
 * written is lost, and reading it gives RUNTIME. For a process that ends. Since 0.1. */
void nntile_context_abandon(void);

/** Interrupts waits. interrupted() is called by the thread that has set it, about twenty times a
 * second while this thread waits for tasks or memory inside of a call; if it returns not 0, the
 * call ends with INTERRUPTED: nothing was recorded or read, what was submitted before goes on, and
 * the same call may be made again. NULL: waits end by themselves only (default).
 * nntile_context_shutdown() is never interrupted. Since 0.1. */
void nntile_wait_interrupted(int (*interrupted)(void));

/** Tells of the lock of an interpreter that interrupted() takes. A thread that has to wait for the
 * recorder gives it back meanwhile: if held() is not 0, state = leave() before and back(state)
 * after. All NULL: none. Since 0.1. */
void nntile_wait_outside(int (*held)(void), void* (*leave)(void), void (*back)(void* state));

/** Restricts kernels to a kind of worker: "cpu", "cuda" or "any". Since 0.1. */
nntile_status nntile_context_restrict(const char* where, nntile_error** error);

/** Reads the counters; stats->struct_size must be set. Since 0.1. */
nntile_status nntile_context_stats_get(nntile_context_stats* stats, nntile_error** error);

/** The highest values start again at what they are now. Since 0.1. */
void nntile_context_reset_peaks(void);

/** INVALID_ARGUMENT for a variable of the environment with a value that it cannot have. Called when
 * a recorder is made and when a runtime starts. Since 0.1. */
nntile_status nntile_context_check_settings(nntile_error** error);

/** Names of variables that begin with NNTILE_ and have no effect, "A, B". The caller ends the text
 * with nntile_text_free(). Since 0.1. */
nntile_status nntile_context_unknown_settings(char** text, nntile_error** error);

/** Text about the build and the running context, one "key: value" a line. Borrowed until the next
 * call in this thread. Never fails. Since 0.1. */
const char* nntile_context_describe(void);

/** Address space of the runtime is not usable in a forked child: 1 there. Since 0.1. */
int nntile_context_forked(void);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
