/* SPDX-License-Identifier: BSD-3-Clause
 * The model of the machine: what tasks take on one worker. Cuts, plans and estimates ask it. */
#ifndef NNTILE_COST_H
#define NNTILE_COST_H

#include "nntile/error.h"

#ifndef NNTILE_CDEF
NNTILE_BEGIN
#pragma GCC visibility push(default)
#endif

/* CFFI-BEGIN */
/** Sets the constants of the model. What is recorded from now on gets plans by them; values keep
 * their cuts. text  of a cost file: one "name = value" a line, '#' begins a comment; copied. Names
 * that are left out get their defaults, and so do all for NULL and "". INVALID_ARGUMENT, and
 * nothing is changed, for a name that is unknown or comes twice, a value that is not a finite
 *  number > 0, and a line of another form; the message has the line and the name. Since 0.1. */
nntile_status nntile_cost_set(const char* text, nntile_error** error);

/** The constants, as a cost file with comments. *text: freed by nntile_text_free(). Before
 * nntile_cost_set() they are those of the file that the environment variable NNTILE_COST names,
 * else the defaults. NOT_FOUND if that file cannot be read, INVALID_ARGUMENT as above. Starting a
 * context gives the same errors. Since 0.1. */
nntile_status nntile_cost_text(char** text, nntile_error** error);
/* CFFI-END */

#ifndef NNTILE_CDEF
#pragma GCC visibility pop
NNTILE_END
#endif
#endif
