// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/engine.hh"

#include <algorithm>

#include "runtime/backend.hh"
#include "runtime/compiled_plan.hh"
#include "tile/cost.hh"

namespace nntile::runtime {

Engine& engine() {
    static Engine* const e = new Engine;  // never destroyed: workers may outlive static objects
    return *e;
}

// What blocks waste by their size classes is not a task's. Only tasks that cannot run are cut finer
// for it: cuts change last bits, and those should not depend on the budget. A task that is larger
// than a GPU takes would run on a core, so it is cut, too.
void cut_for(int64_t budget) {
    const int64_t most = std::min(budget / 9 * 8, backend::most_device_task_bytes());
    tile::set_most_task_bytes(std::max<int64_t>(most, 1));
}

void drop(Tile* tile) {
    if (forked()) return;
    Engine& e = engine();
    std::lock_guard lock(e.mutex);
    if (!tile->ram.handle) {
        delete tile;
        return;
    }
    e.stager.disown(tile);
}

void Engine::report(Status status, std::string text) {
    std::lock_guard lock(error_mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    status_ = status;
    text_ = std::move(text);
    failed_.store(true, std::memory_order_release);
}

void Engine::moved(Tile* tile, int error) {
    Stager::Ready ready;
    {
        std::lock_guard lock(mutex);
        stager.moved(tile, error, ready);
        stager.advance(ready);
    }
    carry_on(ready);
}

void Engine::throw_error() {
    if (!failed_.load(std::memory_order_acquire)) return;
    std::lock_guard lock(error_mutex_);
    if (!failed_.exchange(false)) return;
    throw Error(status_, text_);
}

std::string Engine::last_error() {
    std::lock_guard lock(error_mutex_);
    return text_;
}

void Engine::check_open() const {
    check_not_forked();
    check(open, Status::invalid_state, "no context is active");
}

namespace {

constexpr int64_t task_limit = 500'000;  // in flight: half a second of work, 30 MB

}  // namespace

void Engine::check_fits(int64_t need_bytes, size_t tiles) const {
    if (pool.owned_bytes + need_bytes <= pool.most(need_bytes) + stager.disk_room()) return;
    fail(Status::out_of_memory, "out of memory: ", need_bytes, " bytes in ", tiles,
         " tiles are asked for, the budget is ", pool.budget, " bytes",
         stager.has_disk()
             ? text_of(" and ", stager.disk_room(), " on the disk in ", stager.disk()->folder())
             : "",
         ", ", pool.owned_bytes, " bytes are in use; the largest holders: ", pool.holders());
}

void Engine::pace() {
    if (submitted - done <= task_limit && !stager.crowded.load(std::memory_order_relaxed)) return;
    const Outside outside;  // tasks may need the interpreter
    std::unique_lock lock(mutex);
    Patience patience;
    while (open && (submitted - done > task_limit || stager.crowded))
        if (patience.wait(changed, lock)) fail_interrupted();
}

void Engine::wait_for_change(Patience& patience, std::unique_lock<std::mutex>& lock) {
    if (patience.wait(changed, lock)) fail_interrupted();
    check_open();
}

void Engine::drain(std::unique_lock<std::mutex>& lock) {
    Patience patience;
    while (active_runs > 0)
        if (patience.wait(changed, lock)) fail_interrupted();
}

Guest::Guest(Engine& engine, uint64_t generation) : engine_(engine) {
    check_not_forked();
    std::lock_guard lock(engine_.mutex);
    check(engine_.open && generation == runtime::generation(), Status::invalid_state,
          "this value belongs to a context that has been shut down");
    ++engine_.guests;
}

Guest::~Guest() {
    std::lock_guard lock(engine_.mutex);
    if (--engine_.guests == 0) engine_.changed.notify_all();
}

namespace {

// A worker rounds and treats subnormal numbers as the thread did that started it, whatever the
// program has set since; so does a thread in its place, for as long as this lives.
class FloatState {
public:
    FloatState() : own_(float_state()), differs_(own_ != engine().float_state) {
        if (differs_) set_float_state(engine().float_state);
    }
    ~FloatState() {
        if (differs_) set_float_state(own_);
    }
    FloatState(const FloatState&) = delete;

private:
    const uint32_t own_;
    const bool differs_;  // seldom, and it takes a while to set
};

void end_run(Run* run) {
    Engine& e = engine();
    std::shared_ptr<CompiledPlan> plan = run->plan;
    std::vector<HostFunction> functions = std::move(run->host_functions);  // ended without the lock
    Stager::Ready ready;
    std::unique_lock lock(e.mutex);
    for (size_t m = 0; m < run->memory.size(); ++m)
        if (plan->memories[m].kind == MemoryKind::slot) e.pool.count_end(run->memory[m]);
    if (run->managed) e.stager.ended(run);
    for (size_t m = 0; run->held && m < plan->external; ++m)
        e.stager.let_go(run->memory[m], plan->memories[m].first_writer != tile::none);
    run->held = false;
    run->plan = nullptr;
    run->state->run = nullptr;
    run->self = {};
    run->late.clear();
    plan->keep_spare(std::unique_ptr<Run>(run));
    --e.active_runs;
    e.changed.notify_all();
    if (e.stager.idle()) return;
    e.stager.advance(ready);  // it has made room
    lock.unlock();
    carry_on(ready);
}

// Lets go what waits in the list of a task that has ended.
void release_late(RunTask& task) {
    for (Late *late = task.close(), *next; late; late = next) {
        next = late->next;  // the entry dies with its run or its waiter
        if (late->task) release(*late->task);
        else late->waiter->remove();
    }
}

// The rest of its end, for which the engine's mutex may be needed.
void settle(RunTask& task) {
    Run* run = task.run;
    if (run->managed) {
        Stager::Ready ready;
        {
            std::lock_guard lock(engine().mutex);
            engine().stager.finished(task, ready);
        }
        carry_on(ready);
    }
    engine().done.fetch_add(1, std::memory_order_relaxed);
    finish_one(run);
}

// A function of the host that goes on after it has returned, where its data may be on a device.
void start_at_home(RunTask& task) {
    backend::bring_home(task);
    if (start_task(task)) return;
    backend::give_back(task);
    completed(task);
}

void submit(RunTask& task) {
    if (task.homeless) {
        skip_task(task);
        return completed(task);
    }
    if (!ends_later(task)) return backend::submit(task);
    // Not worth a worker, which it would keep from work
    if (backend::devices() > 0) engine().attendant.hand(start_at_home, task);
    else if (!start_task(task)) completed(task);
}

}  // namespace

void completed(RunTask& task) {
    const Run* run = task.run;
    // What is released last is popped first: first tasks of later runs, then our successors from
    // the last to the first.
    release_late(task);
    const std::span<const uint32_t> successors = run->plan->successors_of(task.index);
    for (auto s = successors.rbegin(); s != successors.rend(); ++s) release(run->tasks[*s]);
    if (backend::on_device_worker()) engine().attendant.hand(settle, task);
    else settle(task);
}

void refused(RunTask& task, int why) {
    engine().report(
        Status::runtime,
        message_of(task, text_of("no worker can run this task (StarPU: ", why, ")").c_str()));
    completed(task);
}

void release(RunTask& task) {
    if (task.pending.fetch_sub(1, std::memory_order_acq_rel) == 1) submit(task);
}

// Tasks that are skipped end at once and make others ready: one after the other, not one inside of
// the other.
void carry_on(Stager::Ready& ready) {
    thread_local Stager::Ready* outer = nullptr;
    if (outer) {
        outer->insert(outer->end(), ready.begin(), ready.end());
        return;
    }
    outer = &ready;
    for (size_t k = 0; k < ready.size(); ++k) release(*ready[k]);
    outer = nullptr;
}

void end_task(void* task, Status status, const char* text) {
    auto& ended = *static_cast<RunTask*>(task);
    finish_task(ended, status, text);
    backend::give_back(ended);
    completed(ended);
}

void finish_one(Run* run) {
    if (run->left.fetch_sub(1, std::memory_order_acq_rel) == 1) end_run(run);
}

void run_small(const Run& run) {
    const FloatState state;
    for (uint32_t t : run.plan->order) execute_here(run.tasks[t]);
    engine().done.fetch_add(static_cast<int64_t>(run.plan->task_count()),
                            std::memory_order_relaxed);
}

void run_here(Run* run) {
    const FloatState state;
    for (uint32_t t : run->plan->order) {
        RunTask& task = run->tasks[t];
        execute_here(task);
        release_late(task);
        engine().done.fetch_add(1, std::memory_order_relaxed);
    }
    if (run->left.fetch_sub(run->plan->task_count(), std::memory_order_acq_rel) ==
        run->plan->task_count())
        end_run(run);
}

}  // namespace nntile::runtime
