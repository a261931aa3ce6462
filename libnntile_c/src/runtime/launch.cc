// SPDX-License-Identifier: BSD-3-Clause
// One launch: take memory, bind tiles, link to the tasks of earlier runs, submit what is ready.
#include "base/error.hh"
#include "runtime/backend.hh"
#include "runtime/bind.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/engine.hh"
#include "runtime/imagine.hh"
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
    check(launch.host_functions.size() >= plan.host_calls, Status::invalid_argument,
          "launch: ", launch.host_functions.size(), " host calls given, the plan makes ",
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
        check(storage.imagined == imagining(), Status::invalid_state, "launch: input ", i,
              storage.imagined ? " has no data: it was made in an estimate"
                               : " has data, which an estimate would not change");
        check(storage.tiles.size() >= memory.size(), Status::internal, "launch: input ", i, " has ",
              storage.tiles.size(), " tiles, the plan reads ", memory.size());
        for (size_t t = 0; t < memory.size(); ++t)
            check(memory[t] == tile::none ||
                      storage.tiles[t]->size_class >= plan.memories[memory[t]].size_class,
                  Status::internal, "launch: tile ", t, " of input ", i,
                  " is smaller than the plan's");
    }
}

std::unique_ptr<Run> spare_run(CompiledPlan& plan) {
    if (plan.spare.empty()) return std::make_unique<Run>(plan.task_count());
    std::unique_ptr<Run> run = std::move(plan.spare.back());
    plan.spare.pop_back();
    return run;
}

template <class AnyLaunch>
void bind_inputs(std::vector<Tile*>& memory_of, const CompiledPlan& plan, const AnyLaunch& launch) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        for (size_t t = 0; t < memory.size(); ++t)
            if (memory[t] != tile::none) memory_of[memory[t]] = launch.inputs[i]->tiles[t].get();
    }
}

// An output in the memory of an input shares its tile; all others get an owner.
template <class Own>
void bind_outputs(const CompiledPlan& plan, const Launch& launch,
                  std::vector<std::vector<TileRef>>& bound, Own&& own) {
    std::vector<TileRef> owners(plan.external);
    for (size_t i = 0; i < plan.inputs.size() && plan.updates_inputs; ++i) {
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        for (size_t t = 0; t < memory.size(); ++t)
            if (memory[t] != tile::none) owners[memory[t]] = launch.inputs[i]->tiles[t];
    }
    for (size_t i = 0; i < plan.outputs.size(); ++i) {
        const Storage& storage = *launch.outputs[i];
        for (uint32_t m : plan.memory_of(plan.outputs[i])) {
            if (!owners[m]) owners[m] = own(m, storage);
            bound[i].push_back(owners[m]);
        }
    }
}

void bring(Run& run, Launch& launch) {
    run.scalars.assign(launch.scalars.begin(), launch.scalars.end());
    run.host_functions = std::move(launch.host_functions);
    run.places.assign(launch.places.begin(), launch.places.end());
    run.marks.assign(launch.marks.begin(), launch.marks.end());
    run.gpu_math = backend::gpu_math();
}

// What the outputs held is dropped: without the engine's mutex.
void give(const Launch& launch, std::vector<std::vector<TileRef>>& bound) {
    for (size_t i = 0; i < bound.size(); ++i) {
        launch.outputs[i]->tiles = std::move(bound[i]);
        launch.outputs[i]->generation = generation();
        launch.outputs[i]->undefined = false;
        launch.outputs[i]->imagined = imagining();
    }
}

// Of tiles without data: notes what it would use.
void launch_imagined(std::shared_ptr<CompiledPlan> shared, const Launch& launch) {
    CompiledPlan& plan = *shared;
    std::vector<Tile*> memory(plan.memories.size(), nullptr);
    std::vector<TileRef> made(plan.external);  // dropped without the lock
    std::vector<std::vector<TileRef>> bound(plan.outputs.size());
    {
        std::lock_guard lock(engine().mutex);
        engine().check_open();
        check_inputs(plan, launch);
        bind_inputs(memory, plan, launch);
        for (uint32_t m : plan.needed_by) {
            const Memory& a = plan.memories[m];
            if (m >= plan.external) continue;
            const PlanTask& maker = plan.tasks[a.first_writer == tile::none ? 0 : a.first_writer];
            made[m] = imagine_tile(a.size_class, DType::none, {}, maker.kind->op,
                                   plan.place_of(maker, launch.places));
            memory[m] = made[m].get();
        }
        bind_outputs(plan, launch, bound, [&](uint32_t m, const Storage& storage) {
            made[m]->dtype = storage.dtype;
            made[m]->sizes = storage.sizes;
            return made[m];
        });
        Happened event{Happened::Kind::launch};
        for (size_t m = 0; m < plan.external; ++m)
            event.tiles.push_back(memory[m] ? memory[m]->identity : 0);
        event.plan = std::move(shared);
        event.places.assign(launch.places.begin(), launch.places.end());
        note(std::move(event));
        note_launch(plan, memory);
    }
    give(launch, bound);
}

// To hand tasks over takes a thread some microseconds, and to be woken again by a worker some tens.
// Who would spend as much time on that as on the work itself does the work: only where nothing
// waits for a worker.
constexpr double handing_over = 5e-6, awaiting = 1e-4;  // seconds of work

bool may_run_here() { return backend::devices() == 0 && starpu_worker_get_id() < 0; }

bool runs_here(const CompiledPlan& plan, const Run& run, bool awaited) {
    return !plan.for_workers && plan.work_seconds <= (awaited ? awaiting : handing_over) &&
           run.late.empty() && may_run_here();
}

// What it reads is here, and no task uses what it writes. Engine's mutex.
bool is_ready(const CompiledPlan& plan, const SmallLaunch& launch) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
        const Storage& storage = *launch.inputs[i];
        if (storage.generation != generation() || storage.imagined) return false;
        const std::span<const uint32_t> memory = plan.memory_of(plan.inputs[i]);
        if (storage.tiles.size() != memory.size()) return false;
        for (size_t t = 0; t < memory.size(); ++t) {
            if (memory[t] == tile::none) continue;
            const Memory& m = plan.memories[memory[t]];
            const Tile& tile = *storage.tiles[t];
            const bool free = m.last_writer == tile::none ? !tile.writer.running() : tile.idle();
            if (!free || !tile.ram.block || tile.size_class < m.size_class) return false;
        }
    }
    return true;
}

TileRef owner_of(const Tile* tile, const SmallLaunch& launch) {
    for (const auto& storages : {launch.inputs, launch.outputs})
        for (const Storage* storage : storages)
            for (const TileRef& own : storage->tiles)
                if (own.get() == tile) return own;
    fail(Status::internal, "launch: a tile has another owner");
}

}  // namespace

Place CompiledPlan::place_of(const PlanTask& task, std::span<const Place> of_run) const {
    const std::span<const Place> all = of_run.empty() ? std::span<const Place>(places) : of_run;
    return task.recorded < all.size() ? all[task.recorded] : 0;
}

Place Run::place_of(const PlanTask& task) const { return plan->place_of(task, places); }

Mark Run::mark_of(const PlanTask& task) const {
    return task.recorded < marks.size() ? marks[task.recorded] : 0;
}

void CompiledPlan::launch(Launch launch) {
    Engine& e = engine();
    check_arguments(*this, launch);
    if (!active()) e.check_open();
    define_inputs(launch);
    if (imagining()) return launch_imagined(shared_from_this(), launch);
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
        check_largest(*this, e.pool.budget);
        run = spare_run(*this);
        run->memory.assign(memories.size(), nullptr);
        bind_inputs(run->memory, *this, launch);
        managed = !bind_at_once(e.pool, e.stager, e.active_runs > 0, *run, *this);
        if (managed) bind_bare(e.pool, *run, *this);
        bind_outputs(*this, launch, bound, [&](uint32_t m, const Storage& storage) {
            return e.pool.own(run->memory[m], storage.dtype, storage.sizes);
        });
        prepare(*run, shared_from_this(), e.launches, managed);
        bring(*run, launch);
        link(*run, *this);
        here = !managed && runs_here(*this, *run, launch.awaited);
        remember(*run, *this);
        if (noting.load(std::memory_order_relaxed)) note_launch(*this, run->memory);
        // Slots go back at once: the next run may take them and then waits for this one's tasks.
        for (size_t m = 0; m < memories.size(); ++m)
            if (memories[m].kind == MemoryKind::slot) {
                e.pool.count_use(run->memory[m]);
                if (!managed) e.pool.give(run->memory[m]);
            }
        e.stager.note(*run);
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
    give(launch, bound);
    Run* started = run.release();  // its end gives it back to `spare`
    if (here) run_here(started);
    else if (managed) carry_on(ready);
    else
        for (uint32_t t : roots) release(started->tasks[t]);
    finish_one(started);
}

bool CompiledPlan::is_small() const {
    return !for_workers && host_calls == 0 && work_seconds <= handing_over;
}

bool CompiledPlan::run_small(const SmallLaunch& launch) {
    Engine& e = engine();
    if (!may_run_here() || noting.load(std::memory_order_relaxed)) return false;
    thread_local std::vector<Tile*> taken;
    std::unique_ptr<Run> run;
    {
        std::lock_guard lock(e.mutex);
        if (!e.open || e.stager.has_disk() || !e.stager.idle() || !is_ready(*this, launch))
            return false;
        if (!e.pool.reserve(needs, true, false, taken)) return false;
        if (!std::ranges::all_of(taken, &Tile::idle)) {
            for (Tile* tile : taken) e.pool.give(tile);
            return false;
        }
        run = spare_run(*this);
        run->memory.assign(memories.size(), nullptr);
        bind_inputs(run->memory, *this, launch);
        for (size_t i = 0; i < taken.size(); ++i) run->memory[needed_by[i]] = taken[i];
        for (size_t i = 0; i < outputs.size(); ++i) {
            Storage& storage = *launch.outputs[i];
            for (uint32_t m : memory_of(outputs[i])) {
                Tile* tile = run->memory[m];
                storage.tiles.push_back(tile->owned
                                            ? owner_of(tile, launch)
                                            : e.pool.own(tile, storage.dtype, storage.sizes));
            }
        }
        for (size_t m = external; m < memories.size(); ++m) e.pool.count_use(run->memory[m]);
        ++e.guests;  // a shutdown waits
        ++e.launches;
        e.submitted.fetch_add(static_cast<int64_t>(task_count()), std::memory_order_relaxed);
    }
    run->plan = shared_from_this();
    run->scalars.assign(launch.scalars.begin(), launch.scalars.end());
    run->places.assign(launch.places, launch.place);
    run->marks.assign(current_mark ? launch.places : 0, current_mark);
    runtime::run_small(*run);
    for (Storage* storage : launch.outputs) storage->generation = generation();
    std::lock_guard lock(e.mutex);
    run->plan = nullptr;
    for (size_t m = external; m < memories.size(); ++m) {
        e.pool.count_end(run->memory[m]);
        e.pool.give(run->memory[m]);
    }
    keep_spare(std::move(run));
    if (--e.guests == 0) e.changed.notify_all();
    return true;
}

}  // namespace nntile::runtime
