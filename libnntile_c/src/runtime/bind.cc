// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/bind.hh"

#include "base/error.hh"
#include "runtime/compiled_plan.hh"

namespace nntile::runtime {

namespace {

// `later` waits for `earlier`, unless that has already ended.
void wait_for(Run& run, const TaskRef& earlier, RunTask& later) {
    RunTask* task = earlier.running();
    if (!task) return;
    Late& entry = run.late.emplace_back();
    entry.task = &later;
    later.pending.fetch_add(1, std::memory_order_relaxed);
    if (task->enter(entry)) return;
    later.pending.fetch_sub(1, std::memory_order_relaxed);
    run.late.pop_back();
}

}  // namespace

void check_largest(const CompiledPlan& plan, int64_t budget, const std::string& line) {
    if (plan.fits(budget)) return;
    fail(Status::out_of_memory, "out of memory: ", plan.tasks[plan.largest_task].kind->op,
         ": one task needs ", plan.largest_task_bytes,
         " bytes of operands and results at once, the budget is ", budget, " bytes",
         line.empty() ? "" : " [" + line + "]");
}

bool bind_at_once(Pool& pool, Stager& stager, bool patient, Run& run, const CompiledPlan& plan) {
    if (!stager.idle()) return false;
    for (size_t m = 0; stager.has_disk() && m < plan.external; ++m)
        if (run.memory[m] &&
            !Stager::ready(*run.memory[m], plan.memories[m].first_writer != tile::none))
            return false;
    std::vector<Tile*> taken;
    if (!pool.reserve(plan.needs, false, patient, taken)) return false;
    for (size_t i = 0; i < plan.needed_by.size(); ++i) run.memory[plan.needed_by[i]] = taken[i];
    return true;
}

void bind_bare(Pool& pool, Run& run, const CompiledPlan& plan) {
    for (uint32_t m : plan.needed_by) run.memory[m] = pool.bare(plan.memories[m].size_class);
}

void prepare(Run& run, std::shared_ptr<CompiledPlan> plan, int64_t number, bool managed) {
    run.state = new RunState{&run};
    run.self = TaskRef(run.state, 0);
    run.number = number;
    run.left.store(plan->task_count() + 1, std::memory_order_relaxed);  // + 1: the launch itself
    for (size_t t = 0; t < plan->task_count(); ++t) {
        // One more: of a task that is staged, that; of a root, the launch
        const int32_t before = plan->tasks[t].predecessors;
        run.tasks[t].pending.store(before + (managed || before == 0), std::memory_order_relaxed);
        run.tasks[t].late.store(nullptr, std::memory_order_relaxed);
        run.tasks[t].homeless = run.tasks[t].early = false;
    }
    run.plan = std::move(plan);
}

void link(Run& run, const CompiledPlan& plan) {
    for (size_t m = 0; m < run.memory.size(); ++m) {
        const Memory& a = plan.memories[m];
        Tile& tile = *run.memory[m];
        for (uint32_t head : plan.heads_of(a)) wait_for(run, tile.writer, run.tasks[head]);
        if (a.first_writer == tile::none) continue;
        if (tile.data_bytes < a.bytes) tile.data_bytes = a.bytes;
        RunTask& writer = run.tasks[a.first_writer];
        wait_for(run, tile.writer, writer);
        for (const TaskRef& reader : tile.readers) wait_for(run, reader, writer);
    }
}

void remember(Run& run, const CompiledPlan& plan) {
    for (size_t m = 0; m < run.memory.size(); ++m) {
        const Memory& a = plan.memories[m];
        Tile& tile = *run.memory[m];
        if (a.last_writer == tile::none) {
            for (uint32_t head : plan.heads_of(a)) tile.add_reader({run.state, head});
            continue;
        }
        tile.writer = {run.state, a.last_writer};
        tile.readers.clear();
        for (uint32_t tail : plan.tails_of(a)) tile.add_reader({run.state, tail});
    }
}

}  // namespace nntile::runtime
