/* SPDX-License-Identifier: BSD-3-Clause
 * nntile_cost_set, nntile_cost_text, and NNTILE_COST: what is refused, and that the process goes
 * on. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "check.h"

static char* text;

static const char* now(void) {
    nntile_text_free(text);
    text = NULL;
    OK(nntile_cost_text(&text, &error));
    return text;
}

static void refuse(const char* file, const char* line_and_name) {
    FAILS(NNTILE_INVALID_ARGUMENT, line_and_name, nntile_cost_set(file, &error));
}

static void write_file(const char* path, const char* what) {
    FILE* file = fopen(path, "w");
    CHECK(file && fputs(what, file) >= 0 && fclose(file) == 0);
}

/* A bad file is an error at each use, and of a start; nothing has started then. */
static void environment(void) {
    const char* path = "nntile_test_cost.txt";
    setenv("NNTILE_COST", "no/such/file", 1);
    for (int k = 0; k < 2; ++k) {
        FAILS(NNTILE_NOT_FOUND, "NNTILE_COST: cannot read 'no/such/file'",
              nntile_cost_text(&text, &error));
        FAILS(NNTILE_NOT_FOUND, "no/such/file", nntile_context_create(NULL, &error));
        CHECK(!nntile_context_active());
    }
    setenv("NNTILE_COST", ".", 1); /* a folder */
    FAILS(NNTILE_NOT_FOUND, "cannot read '.'", nntile_cost_text(&text, &error));
    setenv("NNTILE_COST", path, 1);
    write_file(path, "task_seconds = 1e-6\nmemory_bytes = 1e");
    for (int k = 0; k < 2; ++k)
        FAILS(NNTILE_INVALID_ARGUMENT, "NNTILE_COST, 'nntile_test_cost.txt', line 2: memory_bytes",
              nntile_context_create(NULL, &error));
    write_file(path, "task_seconds = 0.25\n");
    CHECK(strstr(now(), "task_seconds = 0.25 "));
    remove(path);
    CHECK(strstr(now(), "task_seconds = 0.25 ")); /* read once */
}

static void values(void) {
    OK(nntile_cost_set(NULL, &error));
    char* defaults = strdup(now());
    OK(nntile_cost_set("  # a comment\n\ntask_seconds=0.5 # s\r\n cache_size = 3000000", &error));
    CHECK(strstr(now(), "task_seconds = 0.5 ") && strstr(text, "cache_size = 3e+06 "));
    char* changed = strdup(text);

    refuse("task_seconds = 1\nwarp_speed = 9\n", "line 2: no constant is called \"warp_speed\"");
    refuse("task_seconds = 0", "line 1: task_seconds must be a finite number > 0, got \"0\"");
    refuse("\ncache_size = -1e6", "line 2: cache_size must be");
    refuse("functions = inf", "line 1: functions must be");
    refuse("functions = nan", "line 1: functions must be");
    refuse("functions = 1e999", "line 1: functions must be");
    refuse("functions = 1e9 flop/s", "line 1: functions must be");
    refuse("memory_bytes =", "line 1: memory_bytes must be");
    refuse("memory_bytes", "line 1: 'memory_bytes = value' is expected");
    refuse("= 3", "line 1: no constant is called \"\"");
    refuse("task_seconds = 1\ntask_seconds = 1", "line 2: task_seconds is given twice");
    CHECK(strcmp(now(), changed) == 0);

    OK(nntile_cost_set(changed, &error)); /* what is printed can be read */
    CHECK(strcmp(now(), changed) == 0);
    OK(nntile_cost_set("", &error));
    CHECK(strcmp(now(), defaults) == 0);
    FAILS(NNTILE_INVALID_ARGUMENT, "text is NULL", nntile_cost_text(NULL, &error));
    free(defaults);
    free(changed);
}

int main(void) {
    environment();
    values();
    nntile_text_free(text);
    REPORT;
}
