/* SPDX-License-Identifier: BSD-3-Clause
 * What every example needs: stop with the library's message where a call fails. A program of yours
 * would hand the error to its own caller instead. */
#ifndef CHECK_H
#define CHECK_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "nntile/nntile.h"

/* OK(nntile_graph_create(&graph, &error)); the variable `error` must be in scope. */
#define OK(call)                                                  \
    do {                                                          \
        if ((call) != NNTILE_OK) {                                \
            fprintf(stderr, "%s\n", nntile_error_message(error)); \
            nntile_error_destroy(error);                          \
            exit(1);                                              \
        }                                                         \
    } while (0)

/* Like assert(), but also in release builds. */
#define REQUIRE(condition)                                                                \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

#endif
