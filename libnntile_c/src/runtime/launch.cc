// SPDX-License-Identifier: BSD-3-Clause
// One launch: take memory, bind tiles, link to the tasks of earlier runs, submit what is ready.
#include "base/error.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/engine.hh"
#include "runtime/simulate.hh"
#include "runtime/trace.hh"

namespace nntile::runtime {

namespace {

void check_arguments(const CompiledPlan& plan, const Launch& launch) {
    check(
        launch.inputs.size() == plan.inputs.size() && launch.outputs.size() == plan.outputs.size(),
        Status::invalid_argument, "launch: ", launch.inputs.size(), " inputs and ",
        launch.outputs.size(), " outputs given, the plan has ", plan.inputs.size(), " and ",
        plan.outputs.size());
    check(launch.scalars.size() >= plan.scalars, Status::invalid_argument,
          "launch: ", launch.scalars.size(), " scalars given, the plan reads ", plan.scalars);
    check(launch.host_calls.size() >= plan.host_calls, Status::invalid_argument,
          "launch: ", launch.host_calls.size(), " host calls given, the plan makes ",
          plan.host_calls);
}

// An input that was never written gets tiles of unspecified bytes: reading torch.empty() is legal.
void define_inputs(const Launch& launch) {
    for (const std::shared_ptr<Storage>& storage : launch.inputs) {
        if (!storage->tiles.empty()) continue;
        allocate(*storage);
        storage->undefined = false;
    }
}

void check_inputs(const CompiledPlan& plan, const Launch& launch) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
        const Storage& storage = *launch.inputs[i];
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        check(storage.generation == generation(), Status::invalid_state, "launch: input ", i,
              " belongs to a context that has been shut down");
        check(storage.tiles.size() >= memory.size(), Status::internal, "launch: input ", i, " has ",
              storage.tiles.size(), " tiles, the plan reads ", memory.size());
        for (size_t t = 0; t < memory.size(); ++t)
            check(memory[t] == tile::none ||
                      storage.tiles[t]->size_class >= plan.memories[memory[t]].size_class,
                  Status::internal, "launch: tile ", t, " of input ", i,
                  " is smaller than the plan's");
    }
}

// A task that cannot have all that it needs at once is found before anything has happened.
void check_largest(const CompiledPlan& plan) {
    if (plan.fits(engine().pool.budget)) return;
    const PlanTask& task = plan.tasks[plan.largest_task];
    fail(Status::out_of_memory, "out of memory: ", task.kind->op, ": one task needs ",
         plan.largest_task_bytes, " bytes of operands and results at once, the budget is ",
         engine().pool.budget, " bytes");
}

std::unique_ptr<Run> spare_run(CompiledPlan& plan) {
    if (plan.spare.empty()) return std::make_unique<Run>(plan.task_count());
    std::unique_ptr<Run> run = std::move(plan.spare.back());
    plan.spare.pop_back();
    return run;
}

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

void link(Run& run, const CompiledPlan& plan) {
    for (size_t m = 0; m < run.memory.size(); ++m) {
        const Memory& a = plan.memories[m];
        const Tile& tile = *run.memory[m];
        for (uint32_t head : plan.heads_of(a)) wait_for(run, tile.writer, run.tasks[head]);
        if (a.first_writer == tile::none) continue;
        RunTask& writer = run.tasks[a.first_writer];
        wait_for(run, tile.writer, writer);
        for (const TaskRef& reader : tile.readers) wait_for(run, reader, writer);
    }
}

// What later runs have to wait for.
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

void bind_inputs(Run& run, const CompiledPlan& plan, const Launch& launch) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        for (size_t t = 0; t < memory.size(); ++t)
            if (memory[t] != tile::none) run.memory[memory[t]] = launch.inputs[i]->tiles[t].get();
    }
}

// An output in the memory of an input shares its tile; all others get an owner.
void bind_outputs(const Run& run, const CompiledPlan& plan, const Launch& launch,
                  std::vector<std::vector<TileRef>>& bound) {
    std::vector<TileRef> owners(plan.external);
    for (size_t i = 0; i < plan.inputs.size() && plan.updates_inputs; ++i) {
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        for (size_t t = 0; t < memory.size(); ++t)
            if (memory[t] != tile::none) owners[memory[t]] = launch.inputs[i]->tiles[t];
    }
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
        const Storage& storage = *launch.outputs[i];
        for (uint32_t m : plan.memory_of(plan.outputs[i])) {
            if (!owners[m])
                owners[m] = engine().pool.own(run.memory[m], storage.dtype, storage.sizes);
            bound[i].push_back(owners[m]);
        }
    }
}

// Whether all that it uses can be in main memory from now to its end.
bool bind_at_once(Run& run, const CompiledPlan& plan, const Launch& launch) {
    Engine& e = engine();
    if (!e.stager.idle()) return false;
    for (size_t i = 0; e.stager.has_disk() && i < plan.inputs.size(); ++i) {
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        for (size_t t = 0; t < memory.size(); ++t)
            if (memory[t] != tile::none &&
                !Stager::ready(*launch.inputs[i]->tiles[t],
                               plan.memories[memory[t]].first_writer != tile::none))
                return false;
    }
    std::vector<Tile*> taken;
    if (!e.pool.reserve(plan.needs, false, e.active_runs > 0, taken)) return false;
    for (size_t i = 0; i < plan.needed_by.size(); ++i) run.memory[plan.needed_by[i]] = taken[i];
    return true;
}

void prepare(Run& run, std::shared_ptr<CompiledPlan> plan, Launch& launch, bool managed) {
    run.state = new RunState{&run};
    run.self = TaskRef(run.state, 0);
    run.mark = trace_mark;
    run.scalars.assign(launch.scalars.begin(), launch.scalars.end());
    run.host_calls = std::move(launch.host_calls);
    run.places.assign(launch.places.begin(), launch.places.end());
    run.number = engine().launches;
    run.left.store(plan->task_count() + 1, std::memory_order_relaxed);  // + 1: the launch itself
    for (size_t t = 0; t < plan->task_count(); ++t) {
        // One more: of a task that is staged, that; of a root, the launch
        const int32_t before = plan->tasks[t].predecessors;
        run.tasks[t].pending.store(before + (managed || before == 0), std::memory_order_relaxed);
        run.tasks[t].late.store(nullptr, std::memory_order_relaxed);
        run.tasks[t].homeless = false;
    }
    run.plan = std::move(plan);
}

// To hand tasks over takes a thread some microseconds, and to be woken again by a worker some tens.
// Who would spend as much time on that as on the work itself does the work: only where nothing
// waits for a worker.
bool runs_here(const CompiledPlan& plan, const Run& run, bool awaited) {
    constexpr double handing_over = 5e-6, awaiting = 1e-4;  // seconds of work
    return !plan.for_workers && plan.work_seconds <= (awaited ? awaiting : handing_over) &&
           run.late.empty() && starpu_worker_get_id() < 0 &&
           !trace_function.load(std::memory_order_relaxed);
}

}  // namespace

Place Run::place_of(const PlanTask& task) const {
    const std::span<const Place> all =
        places.empty() ? std::span<const Place>(plan->places) : places;
    return task.where < all.size() ? all[task.where] : 0;
}

void CompiledPlan::launch(Launch launch) {
    Engine& e = engine();
    check_arguments(*this, launch);
    if (!active()) e.check_open();
    define_inputs(launch);
    std::vector<std::vector<TileRef>> bound(outputs.size());
    std::unique_ptr<Run> run;
    bool here = false, managed = false;
    Stager::Ready ready;
    {
        std::unique_lock lock(e.mutex);
        e.check_open();
        check_inputs(*this, launch);
        e.stager.want_at_once(largest_task_bytes);
        e.check_fits(need_bytes, needs.size());
        check_largest(*this);
        run = spare_run(*this);
        run->memory.assign(memories.size(), nullptr);
        managed = !bind_at_once(*run, *this, launch);
        if (managed)
            for (uint32_t m : needed_by) run->memory[m] = e.pool.bare(memories[m].size_class);
        bind_inputs(*run, *this, launch);
        bind_outputs(*run, *this, launch, bound);
        prepare(*run, shared_from_this(), launch, managed);
        link(*run, *this);
        here = !managed && runs_here(*this, *run, launch.awaited);
        remember(*run, *this);
        if (noting.load(std::memory_order_relaxed)) note_launch(*this, *run);
        // Slots go back at once: the next run may take them and then waits for this one's tasks.
        for (size_t m = 0; m < memories.size(); ++m)
            if (memories[m].kind == MemoryKind::slot) {
                e.pool.count_use(run->memory[m]);
                if (!managed) e.pool.give(run->memory[m]);
            }
        e.stager.note(this, run->memory, external);
        ++e.active_runs;
        ++e.launches;
        run->held = !managed && e.stager.has_disk();
        for (size_t m = 0; run->held && m < external; ++m) e.stager.hold(run->memory[m]);
        if (managed) {
            e.stager.add(run.get());
            e.stager.advance(ready);
        }
        e.submitted.fetch_add(static_cast<int64_t>(task_count()), std::memory_order_relaxed);
    }
    for (size_t i = 0; i < outputs.size(); ++i) {  // what they held is dropped without the lock
        launch.outputs[i]->tiles = std::move(bound[i]);
        launch.outputs[i]->generation = generation();
        launch.outputs[i]->undefined = false;
    }
    Run* started = run.release();  // its end gives it back to `spare`
    if (here) run_here(started);
    else if (managed) carry_on(ready);
    else
        for (uint32_t t : roots) release(started->tasks[t]);
    finish_one(started);
}

}  // namespace nntile::runtime
