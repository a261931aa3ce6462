/* SPDX-License-Identifier: BSD-3-Clause
 * Errors as objects: made by the call that failed, owned by its caller. */
#ifndef NNTILE_ERROR_H
#define NNTILE_ERROR_H

#include "nntile/base.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Why a call failed. Each fallible function takes `nntile_error **error` last: NULL (not wanted),
 * or where to put an error that the caller destroys; set to NULL on success. Since 0.1. */
typedef struct nntile_error nntile_error;

/** Status of the error; NNTILE_OK for NULL. Since 0.1. */
nntile_status nntile_error_status(const nntile_error* error);

/** One line that names the operation, the argument and both shapes or dtypes. Borrowed; "" for
 * NULL. Since 0.1. */
const char* nntile_error_message(const nntile_error* error);

/** Makes an error, for a library on top of this one that reports in the same way (the PyTorch
 * stub). message copied. Returns NULL without memory. The caller ends it with
 * nntile_error_destroy(). Since 0.1. */
nntile_error* nntile_error_create(nntile_status status, const char* message);

/** Ends an error; NULL is allowed. Since 0.1. */
void nntile_error_destroy(nntile_error* error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
