/* SPDX-License-Identifier: BSD-3-Clause
 * CHECK and FAILS count failures and go on; OK ends the program. main() ends with REPORT. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nntile/nntile.h"

static int failures = 0;

#define CHECK(condition)                                                         \
    do {                                                                         \
        if (!(condition) && ++failures)                                          \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
    } while (0)

#define OK(call)                                                                    \
    do {                                                                            \
        if ((call) != NNTILE_OK) {                                                  \
            printf("%s:%d: %s\n", __FILE__, __LINE__, nntile_error_message(error)); \
            exit(1);                                                                \
        }                                                                           \
        CHECK(error == NULL);                                                       \
    } while (0)

/* The call fails with this status and a message that has `part` in it. */
#define FAILS(wanted, part, call)                                                        \
    do {                                                                                 \
        const nntile_status status = (call);                                             \
        const char* message = nntile_error_message(error);                               \
        if ((status != (wanted) || nntile_error_status(error) != status ||               \
             !strstr(message, part)) &&                                                  \
            ++failures)                                                                  \
            printf("%s:%d: status %d '%s', expected %d with '%s'\n", __FILE__, __LINE__, \
                   (int)status, message, (int)(wanted), part);                           \
        nntile_error_destroy(error);                                                     \
        error = NULL;                                                                    \
    } while (0)

static nntile_error* error = NULL;

#define REPORT                                                 \
    do {                                                       \
        printf(failures ? "%d failures\n" : "ok\n", failures); \
        return failures != 0;                                  \
    } while (0)
