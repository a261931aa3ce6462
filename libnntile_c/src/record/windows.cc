// SPDX-License-Identifier: BSD-3-Clause
// Eager mode: calls wait for those that follow, so that a product and the element-wise calls behind
// it are one graph. When it ends, scopes.hh says; a thread asks for one behind which nothing comes
// while nothing runs.
#include <chrono>

#include "base/settings.hh"
#include "base/thread_times.hh"
#include "record/recorder.hh"

namespace nntile::record {

static Pause::Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }

bool Recorder::ends_at(Event event) {
    const Limits limits{executor_->most_waiting_bytes(), !settings().windows};
    return should_end(waiting_, event, policy_of(scopes_.now(), limits));
}

void Recorder::begin_call(std::optional<Event> event) {
    bury();
    last_writes_.clear();
    if (at_once()) executor_->start();
    if (event && ends_at(*event)) flush();
}

void Recorder::finish_call(int64_t result_bytes, int64_t input_bytes, bool effect) {
    ++ops_recorded;
    ++waiting_.calls;
    waiting_.traffic += input_bytes + result_bytes;
    if (!at_once()) return;
    waiting_.bytes += result_bytes;
    if (ends_at(effect ? Event::effect : Event::recorded)) return flush(Failure::of_call);
    last_call_.store(now(), std::memory_order_relaxed);
    caller_.store(this_thread(), std::memory_order_relaxed);
    if (scopes_.has(Scope::step) || watched_.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(watch_mutex_);
    watched_ = true;
    if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
    watch_changed_.notify_one();
}

void Recorder::begin(Scope scope) {
    if (scope == Scope::step && !scopes_.has(Scope::step)) {
        std::lock_guard lock(mutex_);
        bury();
        if (at_once()) flush();
    }
    scopes_.begin(scope);
}

bool Recorder::end(Scope scope) {
    if (!scopes_.end(scope)) return false;
    if (scopes_.has(scope)) return true;
    std::lock_guard lock(mutex_);
    bury();
    if (!at_once()) return true;
    if (scope == Scope::step) flush(Failure::whole);
    else if (ends_at(Event::recorded)) flush();
    return true;
}

void Recorder::watch() {
    Pause pause;
    std::unique_lock lock(watch_mutex_);
    while (!ends_) {
        if (!watched_) {
            watch_changed_.wait(lock);
            continue;
        }
        watch_changed_.wait_for(lock, Pause::patience);
        const ThreadId caller = caller_.load(std::memory_order_relaxed);
        const Pause::Time last = last_call_.load(std::memory_order_relaxed), at = now();
        // To ask whether it sleeps reads a file: not while it calls on.
        const bool asleep = at - last >= Pause::patience && sleeps(caller);
        const bool nobody_calls = pause.is_one({last, at, asleep, cpu_time(caller)});
        if (ends_ || !watched_ || scopes_.has(Scope::composition) || !nobody_calls ||
            !executor_->idle())
            continue;
        lock.unlock();
        if (mutex_.try_lock()) {  // else somebody is here: look again
            std::lock_guard held(mutex_, std::adopt_lock);
            watched_ = false;  // finish_call() reads it with the mutex held
            bury();
            if (ends_at(Event::idle)) (void)try_flush(Failure::later);
        }
        lock.lock();
    }
}

void Recorder::end_watch() {
    {
        std::lock_guard lock(watch_mutex_);
        ends_ = true;
        watch_changed_.notify_one();
    }
    if (watcher_.joinable()) watcher_.join();
}

}  // namespace nntile::record
