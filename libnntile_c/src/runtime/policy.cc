// SPDX-License-Identifier: BSD-3-Clause
// A task made ready by a worker (its last predecessor ended there) is that worker's own. Of its own
// tasks it takes those of the earliest run first, as the program called them: so a gradient is
// computed before the next layer's, what it was made of is freed, and a collective that waits for
// it begins. Within a run those come first that the next task with an effect waits for; else last
// in, first out: the worker goes on with the data that it has just written. Tasks from other
// threads go into one queue, first in, first out. A worker takes its own, then from the queue, then
// steals a late one of another worker, then polls for spin_seconds, then sleeps on its own
// condition variable.
//
// A task for GPUs goes to the one on which it should end first: by the tasks that wait there, which
// take the time that the cost module says, and by what has to be copied there. Each takes its own,
// in the same order, or in that of the plan once a device was full, for the plan says what is used
// next (device_residency.hh); one that has none takes a late one of another, if to copy what it
// needs costs less than what waits there. What a CUDA worker makes ready for cores goes into the
// queue of all. It never sleeps in here: its thread makes all copies from and to its device and
// sees when tasks there have ended, so it comes back at once, or, when nothing has come for
// spin_seconds, after a nap of a hundredth of the time for which nothing has come.
//
// A push wakes a sleeper only if nobody awake will take the task: the pushing worker will pop one
// itself, each polling worker another. Without this rule each step of a chain costs a futex call
// and moves to a cold core.
#include "runtime/policy.hh"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <deque>
#include <utility>
#include <vector>

#include "runtime/compiled_plan.hh"
#include "runtime/replicas.hh"

namespace nntile::runtime {

namespace {

constexpr double steal_after =
    3e-6;  // the owner gets this long to take what was just pushed for it
constexpr double nap_share = 0.01, shortest_nap = 10e-6, longest_nap = 1e-3;
constexpr long sleep_ns =
    50'000'000;  // StarPU's own requests (stop, transfers) are looked at this often

// What decides between two tasks of a worker; those without a run are StarPU's own.
struct Own {
    int64_t run;
    uint32_t needed_by;  // or, once a device was full, where it is in the order of the plan
    uint64_t number;     // of the push
    starpu_task* task;
    double seconds;  // of a task for GPUs
    // For a heap, whose first element is the greatest
    bool operator<(const Own& other) const {
        if (run != other.run) return run > other.run;
        if (needed_by != other.needed_by) return needed_by > other.needed_by;
        return number < other.number;
    }
};

Own own_of(starpu_task* task, uint64_t number) {
    const auto* t = static_cast<const RunTask*>(task->sched_data);
    if (!t) return {-1, 0, number, task, 0};
    return {t->run->number, t->run->plan->tasks[t->index].needed_by, number, task, 0};
}

struct Worker {
    std::vector<Own> own;  // a heap
    uint64_t pushes = 0;
    pthread_cond_t wake;
    bool asleep = false;
    bool rested = false;    // only this worker: nothing came since it last slept
    double idle_since = 0;  // only this worker, of a device; 0: it is not
    // Of a device
    bool device = false;
    unsigned node = 0;
    double waiting = 0;   // seconds of its own tasks
    double free_at = 0;   // when those that it has taken should have ended
    uint64_t copies = 0;  // that it has seen begin
};

struct Policy {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;  // never held around a wait of StarPU
    std::deque<starpu_task*> queue;
    std::vector<int> devices;  // their workers
    std::atomic<int> device_ready{0};
    Worker workers[STARPU_NMAXWORKERS];
    std::atomic<int> ready{0}, polling{0};
    int sleeping = 0;
    bool stopping = false;
};

Policy* policy;
double spin_seconds;

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void pause() {
#if defined(__x86_64__)
    for (int i = 0; i < 20; ++i) __builtin_ia32_pause();
#endif
}

void init(unsigned context) {
    policy = new Policy;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    for (Worker& w : policy->workers) pthread_cond_init(&w.wake, &attributes);
    pthread_condattr_destroy(&attributes);
    for (unsigned w = 0; w < starpu_worker_get_count(); ++w) {
        Worker& worker = policy->workers[w];
        worker.device = starpu_worker_get_type(static_cast<int>(w)) == STARPU_CUDA_WORKER;
        worker.node = starpu_worker_get_memory_node(w);
        if (worker.device) policy->devices.push_back(static_cast<int>(w));
    }
    starpu_sched_ctx_set_policy_data(context, policy);
}

void deinit(unsigned) {
    for (Worker& w : policy->workers) pthread_cond_destroy(&w.wake);
    delete policy;
    policy = nullptr;
}

void rouse(Worker& w) {  // mutex held
    w.asleep = false;
    --policy->sleeping;
    pthread_cond_signal(&w.wake);
}

// ---- tasks for GPUs

// A copy to a device, from main memory or from another one: on a slow bus, and with what starts it.
constexpr double copy_start = 10e-6, copy_rate = 20e9;  // seconds; bytes per second

double seconds_to_copy(starpu_task* task, unsigned node) {
    const auto* t = static_cast<const RunTask*>(task->sched_data);
    double seconds = 0;
    if (!t) return seconds;
    for (const Entry& e : t->run->plan->entries_of(t->index)) {
        if (!(e.mode & STARPU_R)) continue;
        const Tile& tile = *t->run->memory[e.memory];
        int valid = 0, loading = 0;
        starpu_data_query_status2(tile.ram.handle, static_cast<int>(node), nullptr, &valid,
                                  &loading, nullptr);
        if (!valid && !loading)
            seconds += copy_start + static_cast<double>(tile.block_bytes()) / copy_rate;
    }
    return seconds;
}
double seconds_to_run(starpu_task* task) {
    const auto* t = static_cast<const RunTask*>(task->sched_data);
    const std::vector<float>* all = t ? &t->run->plan->seconds : nullptr;
    return all && t->index < all->size() ? static_cast<double>((*all)[t->index]) : 0;
}

int push_for_devices(starpu_task* task) {
    const std::vector<int>& devices = policy->devices;
    const bool one = devices.size() == 1;
    SmallVector<double, 8> copies;  // asked for without the mutex
    for (const int number : devices)
        copies.push_back(one ? 0 : seconds_to_copy(task, policy->workers[number].node));
    const double work = one ? 0 : seconds_to_run(task), time = one ? 0 : now();
    pthread_mutex_lock(&policy->mutex);
    // Where it should end first. If all are lost, the worker of the first gives it to cores.
    size_t best = 0;
    double best_end = HUGE_VAL;
    for (size_t d = 0; !one && d < devices.size(); ++d) {
        const Worker& w = policy->workers[devices[d]];
        const double end = std::max(w.free_at - time, 0.0) + w.waiting + copies[d];
        if (replicas::lost(w.node) || end >= best_end) continue;
        best = d;
        best_end = end;
    }
    Worker& w = policy->workers[devices[best]];
    Own own = own_of(task, ++w.pushes);
    if (const auto* t = static_cast<const RunTask*>(task->sched_data); t && t->run->followed)
        own.needed_by = t->run->plan->sequence().position[t->index];
    own.seconds = work + copies[best];
    w.own.push_back(own);
    std::push_heap(w.own.begin(), w.own.end());
    w.waiting += own.seconds;
    policy->device_ready.fetch_add(1);
    starpu_push_task_end(task);
    pthread_mutex_unlock(&policy->mutex);
    return 0;
}

// Takes one of the device's own tasks: the next, or the last of its heap, which is none of the next
// ones.
Own take_own(Worker& w, bool next) {  // mutex held
    if (next) std::pop_heap(w.own.begin(), w.own.end());
    const Own own = w.own.back();
    w.own.pop_back();
    w.waiting = w.own.empty() ? 0 : w.waiting - own.seconds;
    return own;
}

starpu_task* take_for_device(Worker& me) {  // mutex held
    Own own{};
    if (!me.own.empty()) {
        own = take_own(me, true);
    } else {
        Worker* from = nullptr;
        for (const int number : policy->devices) {
            Worker& w = policy->workers[number];
            if (!w.own.empty() && (!from || w.waiting > from->waiting)) from = &w;
        }
        if (!from) return nullptr;
        const double copies = seconds_to_copy(from->own.back().task, me.node);
        if (from->waiting <= copies && !replicas::lost(from->node)) return nullptr;
        own = take_own(*from, false);
        own.seconds = seconds_to_run(own.task) + copies;
    }
    me.free_at = std::max(me.free_at, now()) + own.seconds;
    policy->device_ready.fetch_sub(1);
    return own.task;
}

int push(starpu_task* task) {
    if (task->where == STARPU_CUDA) return push_for_devices(task);
    int self = starpu_worker_get_id();
    if (self >= 0 && policy->workers[self].device) self = -1;
    pthread_mutex_lock(&policy->mutex);
    if (self >= 0) {
        Worker& w = policy->workers[self];
        w.own.push_back(own_of(task, ++w.pushes));
        std::push_heap(w.own.begin(), w.own.end());
    } else {
        policy->queue.push_back(task);
    }
    const int ready = policy->ready.fetch_add(1) + 1;
    starpu_push_task_end(task);
    if (policy->sleeping && ready > policy->polling.load() + (self >= 0))
        for (Worker& w : policy->workers)
            if (w.asleep) {
                rouse(w);
                break;
            }
    pthread_mutex_unlock(&policy->mutex);
    return 0;
}

starpu_task* take(int self, bool steal) {  // mutex held
    starpu_task* task = nullptr;
    if (auto& own = policy->workers[self].own; !own.empty()) {
        std::pop_heap(own.begin(), own.end());
        task = own.back().task;
        own.pop_back();
    } else if (!policy->queue.empty()) {
        task = policy->queue.front();
        policy->queue.pop_front();
    } else if (steal) {
        for (Worker& w : policy->workers)
            if (!w.own.empty() && !w.device) {  // the last of a heap is none of the next ones
                task = w.own.back().task;
                w.own.pop_back();
                break;
            }
    }
    if (task) policy->ready.fetch_sub(1);
    return task;
}

starpu_task* sleep(Worker& me, int self) {
    starpu_worker_relax_on();  // StarPU may now stop, or wait for, this worker
    pthread_mutex_lock(&policy->mutex);
    if (!policy->ready.load() && !policy->stopping) {
        timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += sleep_ns;
        until.tv_sec += until.tv_nsec / 1'000'000'000;
        until.tv_nsec %= 1'000'000'000;
        me.asleep = true;
        ++policy->sleeping;
        pthread_cond_timedwait(&me.wake, &policy->mutex, &until);
        if (me.asleep) {
            me.asleep = false;
            --policy->sleeping;
            me.rested = true;
        }
    }
    starpu_task* task = policy->ready.load() ? take(self, true) : nullptr;
    pthread_mutex_unlock(&policy->mutex);
    starpu_worker_relax_off();
    return task;
}

// Polls while there is nothing to do; a worker that slept through a whole period does not poll
// again.
void poll(Worker& me) {
    if (me.rested || spin_seconds <= 0) return;
    policy->polling.fetch_add(1);
    for (double end = now() + spin_seconds; !policy->ready.load() && now() < end;) pause();
    policy->polling.fetch_sub(1);
}

// All devices are lost, and cores take what they have not begun.
void hand_to_cores() {
    pthread_mutex_lock(&policy->mutex);
    for (const int number : policy->devices) {
        Worker& w = policy->workers[number];
        while (!w.own.empty()) {
            starpu_task* const task = take_own(w, true).task;
            task->where = STARPU_CPU;
            policy->queue.push_back(task);
            policy->device_ready.fetch_sub(1);
            policy->ready.fetch_add(1);
        }
    }
    for (Worker& w : policy->workers)
        if (w.asleep) rouse(w);
    pthread_mutex_unlock(&policy->mutex);
}

starpu_task* pop_for_device(Worker& me) {
    starpu_task* task = nullptr;
    if (replicas::lost(me.node)) {
        if (policy->device_ready.load() && replicas::working() == 0) hand_to_cores();
    } else if (policy->device_ready.load()) {
        pthread_mutex_lock(&policy->mutex);
        task = take_for_device(me);
        pthread_mutex_unlock(&policy->mutex);
    }
    const uint64_t copies = std::exchange(me.copies, replicas::copies(me.node));
    if (task || me.copies != copies) {
        me.idle_since = 0;
    } else if (me.idle_since == 0) {
        me.idle_since = now();
    } else if (const double idle = now() - me.idle_since; idle > spin_seconds) {
        const double seconds = std::clamp(nap_share * idle, shortest_nap, longest_nap);
        const timespec nap{0, static_cast<long>(1e9 * seconds)};
        nanosleep(&nap, nullptr);
    }
    return task;
}

starpu_task* pop(unsigned) {
    const int self = starpu_worker_get_id();
    Worker& me = policy->workers[self];
    if (me.device) return pop_for_device(me);
    if (!policy->ready.load()) poll(me);
    starpu_task* task = nullptr;
    if (policy->ready.load()) {
        pthread_mutex_lock(&policy->mutex);
        task = take(self, false);
        if (!task && policy->ready.load()) {  // only other workers have tasks
            pthread_mutex_unlock(&policy->mutex);
            for (double end = now() + steal_after; now() < end;) pause();
            pthread_mutex_lock(&policy->mutex);
            task = take(self, true);
        }
        pthread_mutex_unlock(&policy->mutex);
    }
    if (!task) task = sleep(me, self);
    if (task) me.rested = false;
    return task;
}

}  // namespace

starpu_sched_policy* depth_first_policy(double seconds) {
    static starpu_sched_policy p{};
    spin_seconds = seconds;
    p.init_sched = init;
    p.deinit_sched = deinit;
    p.push_task = push;
    p.pop_task = pop;
    p.policy_name = "nntile";
    p.policy_description = "depth first, sleeping";
    p.worker_type = STARPU_WORKER_LIST;
    return &p;
}

void keep_awake() {
    pthread_mutex_lock(&policy->mutex);
    policy->stopping = true;
    for (Worker& w : policy->workers)
        if (w.asleep) rouse(w);
    pthread_mutex_unlock(&policy->mutex);
}

}  // namespace nntile::runtime
