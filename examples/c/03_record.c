/* SPDX-License-Identifier: BSD-3-Clause
 * The recorder: ops on buffers, as a library such as PyTorch makes them. Three steps of gradient
 * descent on loss = sum((w - target)^2) / 2, with w updated in place; in eager mode and as one
 * graph per step. */
#include "check.h"

enum { N = 5, STEPS = 3 };
static const int64_t sizes[] = {N}, strides[] = {1};

/* A tensor is a layout (sizes, strides, offset) on a buffer; here always the whole buffer. */
static nntile_operand tensor(nntile_buffer* buffer) {
    const nntile_operand t = {.kind = NNTILE_OPERAND_TENSOR,
                              .dtype = NNTILE_F32,
                              .ndim = 1,
                              .buffer = buffer,
                              .sizes = sizes,
                              .strides = strides};
    return t;
}

/* out = a - alpha * b. alpha is a run-time scalar: another value reuses the plan. out may be a: in
 * place. */
static void subtract(nntile_record* record, nntile_buffer* a, nntile_buffer* b, double alpha,
                     nntile_buffer* out) {
    nntile_error* error = NULL;
    uint32_t sub;
    OK(nntile_op_find("sub", &sub, &error));
    const nntile_operand operands[] = {tensor(a), tensor(b), tensor(out)};
    const nntile_attr attrs[] = {{.kind = NNTILE_ATTR_REAL, .f = alpha}};
    OK(nntile_record_op(record, sub, operands, 2, 1, attrs, 1, NNTILE_NONE, &error));
}

static void descend(nntile_mode mode, float* w_host) {
    nntile_error* error = NULL;
    nntile_record* record;
    nntile_buffer *w, *target, *gradient;
    const float zeros[N] = {0}, targets[N] = {1, 2, 3, 4, 5};
    OK(nntile_record_create(&record, &error));
    OK(nntile_record_mode_set(record, mode, &error));
    OK(nntile_buffer_create(record, sizeof zeros, &w, &error));
    OK(nntile_buffer_create(record, sizeof zeros, &target, &error));
    OK(nntile_buffer_create(record, sizeof zeros, &gradient,
                            &error)); /* a buffer has no bytes until it is written */
    nntile_operand w_tensor = tensor(w), target_tensor = tensor(target);
    OK(nntile_record_write(record, &w_tensor, zeros, sizeof zeros, &error));
    OK(nntile_record_write(record, &target_tensor, targets, sizeof targets, &error));

    for (int step = 0; step < STEPS; ++step) {
        const double lr = 0.5 / (step + 1);
        subtract(record, w, target, 1, gradient); /* gradient = w - target */
        subtract(record, w, gradient, lr, w);     /* w -= lr * gradient */
        if (mode == NNTILE_GRAPH) {
            REQUIRE(nntile_record_pending(record) == 2); /* nothing has run yet */
            OK(nntile_record_run(record, &error));       /* submits both, does not wait */
        }
    }
    OK(nntile_record_read(record, &w_tensor, w_host, sizeof zeros,
                          &error)); /* waits, and reports what failed */

    nntile_record_stats stats = {.struct_size = sizeof stats};
    OK(nntile_record_stats_get(record, &stats, &error));
    printf("%s: %lld ops, %lld graphs, %lld lowerings\n", mode == NNTILE_GRAPH ? "graph" : "eager",
           (long long)stats.ops, (long long)stats.graphs, (long long)stats.lowerings);
    REQUIRE(stats.ops == 2 * STEPS);
    if (mode == NNTILE_GRAPH)
        REQUIRE(stats.lowerings <
                stats.graphs);       /* equal graphs find their plan, although lr changes */
    else REQUIRE(stats.graphs == 1); /* nothing was read: all steps waited for the one behind */
    nntile_buffer_destroy(gradient);
    nntile_buffer_destroy(target);
    nntile_buffer_destroy(w);
    nntile_record_destroy(record);
}

int main(void) {
    nntile_error* error = NULL;
    float expected[N], eager[N], graph[N];
    for (int i = 0; i < N; ++i) {
        float w = 0;
        for (int step = 0; step < STEPS; ++step)
            w -= (float)(0.5 / (step + 1)) * (w - (float)(i + 1));
        expected[i] = w;
    }
    OK(nntile_context_create(NULL, &error));
    descend(NNTILE_EAGER, eager);
    descend(NNTILE_GRAPH, graph);
    OK(nntile_context_shutdown(&error));
    for (int i = 0; i < N; ++i) {
        REQUIRE(fabsf(eager[i] - expected[i]) < 1e-6f);
        REQUIRE(eager[i] == graph[i]); /* the same bits */
    }
    printf("w = %g %g %g %g %g\n", graph[0], graph[1], graph[2], graph[3], graph[4]);
    return 0;
}
