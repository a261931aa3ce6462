// SPDX-License-Identifier: BSD-3-Clause
// What it costs to make a plan, by stage. `test_lowering N` repeats N times and prints; without N
// it only has to work.
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "check.hh"
#include "pipeline.hh"
#include "tile/cuts.hh"

namespace nntile {

namespace {

using Graph = graph::Graph;

// Of this thread, so that a busy machine makes no difference.
double cpu_us() {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e6 * static_cast<double>(t.tv_sec) + 1e-3 * static_cast<double>(t.tv_nsec);
}

graph::StoredRef stored(DType dtype, const Dims& sizes) {
    auto s = std::make_shared<graph::Stored>();
    s->dtype = dtype;
    s->sizes = sizes;
    for (int64_t n : sizes) s->cuts.push_back(tile::whole(n));
    s->names.resize(sizes.size());
    return s;
}

uint32_t input(Graph& g, const Dims& sizes, DType dtype = DType::f32) {
    return g.add_input(dtype, sizes, {}, stored(dtype, sizes));
}

uint32_t add(Graph& g, const char* op, std::vector<uint32_t> inputs,
             std::vector<graph::Attr> attrs = {}) {
    return g.add(*schema::find_op(op), inputs, std::move(attrs))[0];
}

Graph one_add(int64_t n) {
    Graph g;
    g.set_output(add(g, "add", {input(g, {n, 64}), input(g, {n, 64})}));
    return g;
}

Graph one_product(int64_t n) {
    Graph g;
    const uint32_t a = input(g, {n, 64}), b = input(g, {64, 64});
    g.set_output(add(g, "matmul", {a, g.add_view(b, {{64, 64}, {1, 64}, 0}), graph::no_value}));
    return g;
}

// Products and maps in turn: tasks of a training step.
Graph chain(int64_t n, int length) {
    Graph g;
    uint32_t x = input(g, {n, 64});
    const uint32_t w = input(g, {64, 64});
    for (int i = 0; i < length; ++i)
        x = i % 2 ? add(g, "matmul", {x, w, graph::no_value}) : add(g, "relu", {x});
    g.set_output(x);
    return g;
}

void measure(const char* name, const Graph& recorded, int repeats) {
    double tiling_us = 0, lower_us = 0, plan_us = 0, all_us = 0;
    size_t tasks = 0;
    for (int r = 0; r < repeats; ++r) {
        Graph g = recorded;
        run_passes(g);
        double from = cpu_us();
        const tile::Tiling tiling = tile::choose_tiling(g, {});
        tiling_us += cpu_us() - from;
        from = cpu_us();
        const tile::Lowered lowered = tile::lower(g, tiling);
        lower_us += cpu_us() - from;
        from = cpu_us();
        const auto plan = runtime::make_plan(lowered.tiles, lowered.inputs, lowered.outputs);
        plan_us += cpu_us() - from;
        from = cpu_us();
        tasks = compile(recorded, {})->plan->task_count();
        all_us += cpu_us() - from;
        CHECK(plan->task_count() == tasks);
    }
    const double each = 1.0 / repeats;
    if (repeats > 1)
        std::printf("%s tasks %zu tiling %.2f lower %.2f plan %.2f all %.2f us, %.2f us a task\n",
                    name, tasks, tiling_us * each, lower_us * each, plan_us * each, all_us * each,
                    all_us * each / static_cast<double>(tasks));
}

}  // namespace
}  // namespace nntile

int main(int argc, char** argv) {
    const int repeats = argc > 1 ? std::atoi(argv[1]) : 1;
    nntile::runtime::start({.ncpu = 1, .ncuda = 0});
    nntile::measure("add", nntile::one_add(37), repeats);
    nntile::measure("product", nntile::one_product(37), repeats);
    nntile::measure("chain", nntile::chain(37, 1000), std::max(1, repeats / 500));
    nntile::runtime::shutdown();
    return nntile::test::result();
}
