/* SPDX-License-Identifier: BSD-3-Clause
 * A lowered graph: tiles, tasks, dependencies; and its run. */
#ifndef NNTILE_TILE_H
#define NNTILE_TILE_H

#include "nntile/graph.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
void nntile_tile_destroy(nntile_tile* tile);

/** Counts: tiles, tasks, edges between tasks. Since 0.1. */
size_t nntile_tile_count(const nntile_tile* tile);
size_t nntile_tile_task_count(const nntile_tile* tile);
size_t nntile_tile_edge_count(const nntile_tile* tile);

/** A task: name of its kernel (borrowed), floating-point operations and bytes touched. Since 0.1.
 */
nntile_status nntile_tile_task_get(const nntile_tile* tile, size_t task, const char** kernel,
                                   double* flops, double* bytes, nntile_error** error);

/** Text of axes, tiles, tasks and plan; and a tile graph from such a text (to look at, not to run).
 * Since 0.1. */
nntile_status nntile_tile_print(const nntile_tile* tile, char** text, nntile_error** error);
nntile_status nntile_tile_parse(const char* text, nntile_tile** out, nntile_error** error);

/** Gives the bytes of an input (dense row-major); copied. They stay for all later runs. Since 0.1.
 */
nntile_status nntile_tile_write(nntile_tile* tile, const char* input, const void* host,
                                size_t nbytes, nntile_error** error);

/** Submits all tasks; a context must be active; INVALID_STATE if an input was never written. Since
 * 0.1. */
nntile_status nntile_tile_run(nntile_tile* tile, nntile_error** error);

/** Waits for an output and copies it to the host; hands over the first error of a task. Since 0.1.
 */
nntile_status nntile_tile_read(nntile_tile* tile, const char* output, void* host, size_t nbytes,
                               nntile_error** error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
