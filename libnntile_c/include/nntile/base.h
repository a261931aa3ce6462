/* SPDX-License-Identifier: BSD-3-Clause
 * Status codes, element types, version. */
#ifndef NNTILE_BASE_H
#define NNTILE_BASE_H

#ifndef NNTILE_CDEF
#include <stddef.h>
#include <stdint.h>
#if defined(__GNUC__)
#define NNTILE_CHECK_RESULT __attribute__((warn_unused_result))
#else
#define NNTILE_CHECK_RESULT
#endif
#ifdef __cplusplus
#define NNTILE_BEGIN extern "C" {
#define NNTILE_END }
#else
#define NNTILE_BEGIN
#define NNTILE_END
#endif
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Result of every function that can fail. Numbers are never reused. Since 0.1. */
typedef enum nntile_status {
    NNTILE_OK = 0,
    NNTILE_INVALID_ARGUMENT = 1, /**< the caller's fault: a shape, size, name or value */
    NNTILE_INVALID_STATE = 2,    /**< right call, wrong moment: after shutdown, in a forked child */
    NNTILE_NOT_FOUND = 3,        /**< no op, value, axis or buffer of that name */
    NNTILE_UNSUPPORTED = 4,      /**< not in this build, or no row for this call */
    NNTILE_OUT_OF_MEMORY = 5,    /**< does not fit the memory budget */
    NNTILE_RUNTIME = 6,          /**< StarPU or a kernel failed */
    NNTILE_INTERNAL = 7,         /**< our fault: please report */
    NNTILE_INDEX_ERROR = 8,      /**< an index outside its range: a dim, a label */
    NNTILE_TYPE_ERROR = 9,       /**< a dtype that the op does not take */
    NNTILE_INTERRUPTED =
        10, /**< the thread was told not to wait any longer: nntile_wait_interrupted() */
    NNTILE_VALUE_ERROR = 11, /**< a value that the op does not take */
    NNTILE_LINALG_ERROR = 12 /**< no solution: a singular matrix, no convergence */
} nntile_status;

/** Element types. Numbers are never reused. Since 0.1. */
typedef enum nntile_dtype {
    NNTILE_NONE = 0,
    NNTILE_F32 = 1,
    NNTILE_F64 = 2,
    NNTILE_F16 = 3,
    NNTILE_BF16 = 4,
    NNTILE_I64 = 5,
    NNTILE_I32 = 6,
    NNTILE_I16 = 7,
    NNTILE_I8 = 8,
    NNTILE_U8 = 9,
    NNTILE_BOOL = 10
} nntile_dtype;

/** Version of the library: major * 1000000 + minor * 1000 + patch. Since 0.1. */
int nntile_version(void);

/** The same as text, "1.2.3"; lives as long as the library. Since 0.1. */
const char* nntile_version_text(void);

/** Name of a dtype, "f32"; "?" for an unknown number. Lives as long as the library. Since 0.1. */
const char* nntile_dtype_name(nntile_dtype dtype);

/** Bytes of one element; 0 for an unknown number. Since 0.1. */
size_t nntile_dtype_size(nntile_dtype dtype);
/* CFFI-END */

#ifndef NNTILE_CDEF
/** Version of this header, to be compared with nntile_version(). */
#define NNTILE_VERSION 1000
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
