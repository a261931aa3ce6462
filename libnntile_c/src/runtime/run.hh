// SPDX-License-Identifier: BSD-3-Clause
// One execution of a plan, and how tasks of different runs wait for each other.
//
// Inside a run every task counts its predecessors; the worker that ends the last one submits the
// task to StarPU. A task of a later run that must wait for one of an earlier run enters itself in
// that task's list (Late); the list is closed when the task ends.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "base/wait.hh"
#include "runtime/residency.hh"
#include "runtime/runtime.hh"

namespace nntile::runtime {

class CompiledPlan;
struct PlanTask;
class Tile;
struct Run;

class Waiter;
struct RunTask;
struct Late {
    Late* next = nullptr;
    RunTask* task = nullptr;  // one of these two
    Waiter* waiter = nullptr;
};

struct RunTask {
    Run* run = nullptr;
    uint32_t index = 0;
    std::atomic<int32_t> pending{0};
    std::atomic<Late*> late{nullptr};
    int64_t begin_ns = 0;   // of one that goes on after its function has returned
    int word = -1;          // of one on a device: see devices.hh
    bool begun = false;     // on a device
    bool homeless = false;  // staged, but it has no place in main memory: it is skipped
    bool early = false;     // staged before it was its turn

    bool done() const { return late.load(std::memory_order_acquire) == closed(); }
    // False: the task has already ended, and its effects are visible to the caller.
    bool enter(Late& entry) {
        Late* head = late.load(std::memory_order_acquire);
        do {
            if (head == closed()) return false;
            entry.next = head;
        } while (!late.compare_exchange_weak(head, &entry, std::memory_order_acq_rel,
                                             std::memory_order_acquire));
        return true;
    }
    Late* close() { return late.exchange(closed(), std::memory_order_acq_rel); }

private:
    static Late* closed() {
        static Late mark;
        return &mark;
    }
};

// In engine.cc: a task has ended, and its tiles are free for others; or nobody takes it.
void completed(RunTask& task);
void refused(RunTask& task, int why);

// Lets a thread sleep until some tasks have ended. It owns its entries in their lists, which stay
// there when the thread goes away before.
class Waiter {
public:
    void enter(RunTask& task) {
        Late& entry = entries_.emplace_back();
        entry.waiter = this;
        add();
        if (!task.enter(entry)) remove();
    }
    void add() {
        std::lock_guard lock(mutex_);
        ++count_;
    }
    void remove() {
        // Notified under the lock: the waiter may go away right after
        std::unique_lock lock(mutex_);
        if (--count_ > 0) return;
        if (!left_) return zero_.notify_one();
        lock.unlock();
        delete this;
    }
    // False: interrupted; the waiter ends itself after the last task.
    static bool wait(std::unique_ptr<Waiter> self) {
        std::unique_lock lock(self->mutex_);
        Patience patience;
        while (self->count_ > 0)
            if (patience.wait(self->zero_, lock)) {
                if (self->count_ > 0) self.release()->left_ = true;
                return false;
            }
        return true;
    }

private:
    std::mutex mutex_;
    std::condition_variable zero_;
    std::deque<Late> entries_;
    int64_t count_ = 0;
    bool left_ = false;
};

// What tiles remember of a run; outlives it. Everything here is guarded by the engine's mutex.
struct RunState {
    Run* run = nullptr;  // nullptr: ended
    uint32_t references = 0;
};

// A task of a run. Copies and destruction: engine's mutex held.
class TaskRef {
public:
    TaskRef() = default;
    TaskRef(RunState* state, uint32_t task) : state_(state), task_(task) { ++state_->references; }
    TaskRef(const TaskRef& other) : state_(other.state_), task_(other.task_) {
        if (state_) ++state_->references;
    }
    TaskRef(TaskRef&& other) noexcept : state_(other.state_), task_(other.task_) {
        other.state_ = nullptr;
    }
    TaskRef& operator=(TaskRef other) noexcept {
        std::swap(state_, other.state_);
        std::swap(task_, other.task_);
        return *this;
    }
    ~TaskRef() {
        if (state_ && --state_->references == 0) delete state_;
    }
    RunTask* running() const;  // nullptr: ended, or no task

private:
    RunState* state_ = nullptr;
    uint32_t task_ = 0;
};

struct Run {
    explicit Run(size_t task_count) : tasks(new RunTask[task_count]) {
        for (size_t t = 0; t < task_count; ++t) {
            tasks[t].run = this;
            tasks[t].index = static_cast<uint32_t>(t);
        }
    }
    std::shared_ptr<CompiledPlan> plan;
    std::unique_ptr<RunTask[]> tasks;
    std::vector<Tile*> memory;  // by memory of the plan
    std::vector<kernels::Param> scalars;
    std::vector<HostFunction> host_functions;
    std::deque<Late> late;  // entries of this run's tasks in lists of earlier runs
    std::atomic<size_t> left{0};
    std::vector<Place> places;  // of the calls that were recorded; empty: those of the plan
    std::vector<Mark> marks;    // likewise, for a profiler; 0 of those that it lacks
    int64_t number = 0;         // of the launch
    uint32_t gpu_math = 0;      // kernels::GpuMath, as it was then
    // Only where there is a disk, or a device is full (`followed`): tasks that were launched
    // before, and by external memory what comes after the run
    bool followed = false;
    int64_t begin = 0;
    std::vector<Next> expected;
    Place place_of(const PlanTask& task) const;
    Mark mark_of(const PlanTask& task) const;
    // Of a run that is staged: how many of its tasks are in their turn, how many are not staged
    // yet, up to where what they need is read into free memory, and by memory how many uses are
    // past
    bool managed = false;
    uint32_t staged = 0, unstaged = 0, fetched = 0;
    std::vector<uint32_t> past;
    bool held = false;  // its external tiles are, until its end
    TaskRef self;       // keeps the state alive
    RunState* state = nullptr;
};

inline RunTask* TaskRef::running() const {
    if (!state_ || !state_->run) return nullptr;
    RunTask* task = &state_->run->tasks[task_];
    return task->done() ? nullptr : task;
}

}  // namespace nntile::runtime
