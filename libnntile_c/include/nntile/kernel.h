/* SPDX-License-Identifier: BSD-3-Clause
 * Kernels of one's own: a compiled function becomes an op that is cut into tiles as any other. */
#ifndef NNTILE_KERNEL_H
#define NNTILE_KERNEL_H

#include "nntile/record.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** A kernel on dense row-major blocks, run as CPU tasks, several at once.
 *  numbers  those of the call.
 *  starts   of each axis: index of the first element of this task in the whole axis.
 *  sizes    of each axis: its extent in this task. A dim with an axis has this extent in its block.
 *  data     operands in order: inputs, outputs. Of a number: 8 bytes, a double or an int64_t. NULL
 * where absent. Returns 0; or an nntile_status, after writing a text of at most 255 bytes to
 * error_text: it fails the task. Must not call the recorder. Since 0.1. */
typedef int (*nntile_kernel_function)(const int64_t* numbers, const int64_t* starts,
                                      const int64_t* sizes, void* const* data, char* error_text);

/** Records a kernel as one op.
 *  name       for messages, copied.   signature  of the function: another one is another plan.
 *  function   must stay for as long as the process records or runs.
 *  numbers    n_numbers integers for the function, copied; they are of this call only.
 *  operands   as in nntile_record_op(): inputs, outputs. Numbers (NNTILE_OPERAND_SCALAR) are
 * run-time scalars. n_changed  the first so many outputs begin with the bytes of the first so many
 * inputs, which have their shapes and dtypes: tensors that the kernel changes, given twice. axes
 * for every dim of every tensor in order the number of its axis from 0 on, at most 7, or -1: each
 * task has all of the dim. NULL: -1 everywhere. Dims of one axis have one extent, and every output
 * has all axes: parts along axes are independent of each other. where      user's line for
 * messages, or NULL; copied. Returns OK; INVALID_ARGUMENT (axes, n_changed, a NULL function); as
 * nntile_record_op(). Since 0.1. */
nntile_status nntile_record_kernel(nntile_record* record, const char* name, uint64_t signature,
                                   nntile_kernel_function function, const int64_t* numbers,
                                   size_t n_numbers, const nntile_operand* operands,
                                   size_t n_inputs, size_t n_outputs, size_t n_changed,
                                   const int64_t* axes, const char* where, nntile_error** error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
