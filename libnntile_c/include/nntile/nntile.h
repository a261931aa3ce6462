/* SPDX-License-Identifier: BSD-3-Clause
 * libnntile_c: tensor graphs cut into tiles, run as StarPU tasks. Include this file.
 *
 * Conventions, for every function:
 * - Names are nntile_<noun>_<verb>. Objects are opaque; values, ops and tasks are numbers.
 * - A function that can fail returns nntile_status and takes `nntile_error **error` last. No
 * function prints, exits, aborts or throws.
 * - Pointers are borrowed for the call unless their line says copied, kept until, or caller
 * destroys. Results of getters live as long as their object, unless said otherwise.
 * - Structs that may grow begin with struct_size; set it to sizeof. Functions are added, never
 * changed.
 * - Threads: op rows and the recorder may be shared; a graph or a tile graph belongs to one caller
 * at a time.
 * - Fork: a child must not use the runtime; its calls give INVALID_STATE.
 */
#ifndef NNTILE_H
#define NNTILE_H

#include "nntile/base.h"
#include "nntile/buffer.h"
#include "nntile/capture.h"
#include "nntile/context.h"
#include "nntile/cost.h"
#include "nntile/error.h"
#include "nntile/estimate.h"
#include "nntile/graph.h"
#include "nntile/op.h"
#include "nntile/record.h"
#include "nntile/tile.h"
#include "nntile/trace.h"

#endif
