/* SPDX-License-Identifier: BSD-3-Clause
 * The rows of the op table, read back: names, operands, attributes. Rows are constant; any thread
 * may read them. Numbers of ops are per process, names are the stable ABI. */
#ifndef NNTILE_OP_H
#define NNTILE_OP_H

#include "nntile/error.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Kind of an attribute. Numbers are never reused. Since 0.1. */
typedef enum nntile_attr_kind {
    NNTILE_ATTR_DEFAULT = 0, /**< as an argument: take the row's default */
    NNTILE_ATTR_INT = 1,     /**< part of the structure: another value is another plan */
    NNTILE_ATTR_REAL = 2,    /**< a run-time scalar: another value uses the same plan */
    NNTILE_ATTR_INTS = 3,    /**< list of integers, part of the structure */
    NNTILE_ATTR_TEXT = 4,    /**< a word of a fixed set, part of the structure */
    NNTILE_ATTR_SEED = 5     /**< an integer run-time scalar (RNG seed and offset) */
} nntile_attr_kind;

/** Value of an attribute, in the order of the row. Pointers are borrowed for the call. Since 0.1.
 */
typedef struct nntile_attr {
    int32_t kind;        /**< nntile_attr_kind */
    int32_t count;       /**< of ints */
    int64_t i;           /**< INT, SEED */
    double f;            /**< REAL */
    const int64_t* ints; /**< INTS */
    const char* text;    /**< TEXT */
} nntile_attr;

/** Number of ops. Since 0.1. */
uint32_t nntile_op_count(void);

/** Finds an op by name. NOT_FOUND names the nearest op. Since 0.1. */
nntile_status nntile_op_find(const char* name, uint32_t* op, nntile_error** error);

/** Name, formula and dtypes of an op ("" for a wrong number); live as long as the library. Since
 * 0.1. */
const char* nntile_op_name(uint32_t op);
const char* nntile_op_doc(uint32_t op);

/** Rule by which the op is cut into tasks: "map", "reduce", "contract", "whole", "move", "compose".
 * Since 0.1. */
const char* nntile_op_rule(uint32_t op);

/** Counts and names of inputs, outputs and attributes. An input name that ends in '?' may be
 * absent, one that ends in '*' stands for any number of tensors and is the last. Types: "T", or a
 * fixed dtype as "bool". Since 0.1. */
uint32_t nntile_op_input_count(uint32_t op);
const char* nntile_op_input_name(uint32_t op, uint32_t i);
const char* nntile_op_input_type(uint32_t op, uint32_t i);
uint32_t nntile_op_output_count(uint32_t op);
const char* nntile_op_output_name(uint32_t op, uint32_t i);
const char* nntile_op_output_type(uint32_t op, uint32_t i);
uint32_t nntile_op_attr_count(uint32_t op);
const char* nntile_op_attr_name(uint32_t op, uint32_t i);
nntile_attr_kind nntile_op_attr_kind(uint32_t op, uint32_t i);
/** Default as text, and the words of a TEXT attribute joined by '|' ("" otherwise). Since 0.1. */
const char* nntile_op_attr_default(uint32_t op, uint32_t i);
const char* nntile_op_attr_choices(uint32_t op, uint32_t i);

/** 1 if variable T of the op may be this dtype. Since 0.1. */
int nntile_op_takes(uint32_t op, nntile_dtype dtype);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
