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
    int32_t ncuda; /**< CUDA workers; -1: STARPU_NCUDA, else none; -2: none */
    int64_t memory_bytes; /**< budget for tiles in main memory; 0: NNTILE_MEMORY, else 90 % of the
                             machine's memory */
    double spin_seconds;  /**< how long an idle worker polls before it sleeps; < 0: 100e-6 */
    int32_t verbose;      /**< 1: one line on stderr at start and stop */
    const char* swap;     /**< folder on a disk for tiles that memory has no room for; "": none;
                             NULL: NNTILE_SWAP, else none */
    int64_t swap_bytes;   /**< how many bytes it takes there at most; 0: NNTILE_SWAP_SIZE, else what
                             is free there, at most 8 times the machine's memory */
} nntile_context_config;

/** What a context counts. All totals since its start, bytes in bytes. Without a context all are
 * zero but budget_bytes and machine_bytes. Fields are only appended. Since 0.1. */
typedef struct nntile_context_stats {
    size_t struct_size;
    int64_t tasks;      /**< tasks that have run */
    int64_t launches;   /**< plans launched */
    int64_t in_flight;  /**< tasks submitted and not finished */
    int64_t tiles;      /**< tiles alive, pool included */
    int64_t tile_bytes; /**< their bytes */
    int64_t pool_bytes; /**< of these: free in the pool */
    int64_t peak_bytes; /**< highest tensor_bytes + run_bytes */
    int32_t ncpu;
    int32_t ncuda;
    int64_t budget_bytes; /**< budget for tiles; without a context: what one with defaults would
                             take now */
    int64_t reserved_peak_bytes; /**< highest tile_bytes */
    int64_t swap_bytes;          /**< how many bytes tiles may take on the disk; 0: no disk */
    int64_t swap_used_bytes;     /**< how many they take there */
    int64_t swap_used_peak_bytes;
    int64_t read_bytes;    /**< from the disk */
    int64_t written_bytes; /**< to the disk */
    int64_t evictions;     /**< tiles that left memory */
    int64_t dropped;       /**< of these: without a write, the disk had their data already */
    int64_t tensor_bytes;  /**< what tensors hold, in memory or on the disk */
    int64_t run_bytes;     /**< what runs in flight hold */
    int64_t idle_bytes;    /**< kept for reuse */
    int64_t machine_bytes; /**< memory of the machine, or the limit of its control group */
    int64_t device_tasks;  /**< of the tasks, those that ran on GPUs */
} nntile_context_stats;

/** Settings of the environment that a binding applies itself. Fields are only appended. Since 0.1.
 */
typedef struct nntile_settings {
    size_t struct_size;
    int32_t local_processes; /**< LOCAL_WORLD_SIZE, else 1 */
    int32_t cpu_fallback;    /**< NNTILE_CPU_FALLBACK, else 1 */
    int32_t blocking;        /**< NNTILE_BLOCKING, else 0 */
    const char* cost;        /**< NNTILE_COST, else "" */
    const char* data_dir;    /**< NNTILE_DATA_DIR, else "" */
} nntile_settings;

/** Starts the runtime. At most one context lives at a time (INVALID_STATE otherwise); INVALID_STATE
 * in a forked child; UNSUPPORTED for ncuda > 0 in a build without CUDA, and beside a disk;
 * INVALID_ARGUMENT for no worker at all, for more CUDA workers than there are GPUs, for a folder
 * `swap` where no file can be made, and for swap_bytes without a folder; RUNTIME for CUDA workers
 * where its libraries or the driver are missing or too old. config  NULL or settings, copied.
 * Since 0.1. */
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

/** Restricts kernels to a kind of worker. "cpu": all tasks run on CPU workers, from now on. "any"
 * and "cuda" undo this: a task runs on a CUDA worker where its kernel and its size allow it, all
 * others on CPU workers. "cuda" also returns UNSUPPORTED if this build has no CUDA kernels, and
 * INVALID_STATE if the context has no CUDA workers. Since 0.1. */
nntile_status nntile_context_restrict(const char* where, nntile_error** error);

/** What GPUs may do with numbers: bits. Since 0.1. */
typedef enum nntile_gpu_math {
    NNTILE_TF32_PRODUCTS = 1, /**< products of float32 in TF32: 10 bits of each factor's fraction,
                                 sums in float32 */
    NNTILE_TF32_CONVOLUTIONS = 2, /**< likewise convolutions, as far as cuDNN and cuBLAS do them */
    NNTILE_CUDNN = 4              /**< convolutions by cuDNN, where it can be loaded */
} nntile_gpu_math;

/** Of graphs that run from now on, until this is called again, whatever context there is. At first
 * NNTILE_CUDNN alone. INVALID_ARGUMENT for other bits. Since 0.1. */
nntile_status nntile_context_gpu_math(uint32_t math, nntile_error** error);

/** GPUs that the context uses; -1: there is no context. Since 0.1. */
int nntile_context_gpus(void);

/** Reads the counters; stats->struct_size must be set. Since 0.1. */
nntile_status nntile_context_stats_get(nntile_context_stats* stats, nntile_error** error);

/** The highest values start again at what they are now. Since 0.1. */
void nntile_context_reset_peaks(void);

/** INVALID_ARGUMENT for a variable of the environment with a value that it cannot have. Called when
 * a recorder is made and when a runtime starts. Since 0.1. */
nntile_status nntile_context_check_settings(nntile_error** error);

/** The settings as they were read last; settings->struct_size must be set. Its texts stay as long
 * as the process. INVALID_ARGUMENT as of nntile_context_check_settings(). Since 0.1. */
nntile_status nntile_context_settings_get(nntile_settings* settings, nntile_error** error);

/** Bytes of a size as users write it: "8GiB", "1.5 GB", "4194304"; the environment has the same
 * rule. Units are B, KB, MB, GB, TB, KiB, MiB, GiB and TiB, in any case; a number alone is bytes.
 * what  names the setting in an error. INVALID_ARGUMENT for another text, and for less than 1 MiB
 * or more than 2^62 bytes. Since 0.1. */
nntile_status nntile_context_parse_size(const char* what, const char* text, int64_t* bytes,
                                        nntile_error** error);

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
