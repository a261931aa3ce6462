// SPDX-License-Identifier: BSD-3-Clause
// Windows of eager mode: calls wait for those that follow, so that a product and the element-wise calls behind it are
// one graph. A window ends by what is recorded; a thread empties one behind which nothing comes while nothing runs.
#include <chrono>
#include <utility>

#include "base/environment.hh"
#include "base/error.hh"
#include "record/recorder.hh"

namespace nntile::record {

namespace {

// Calls. A step of an optimizer has ten for each parameter, a composition some dozens.
constexpr size_t most_waiting = 64, most_in_composition = 1'000, most_in_step = 20'000;
// Long for a machine, and longer than the pauses of a program that goes on: a window that is split there is another
// plan. Short for a person who waits for what is computed meanwhile.
constexpr auto patience = std::chrono::milliseconds(5);

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

// Work that a window does not go on over: it begins the next one.
void Recorder::begin_call(bool heavy) {
    bury();
    if (at_once()) executor_->start();
    if (heavy && at_once() && pending_ops_ > 0) flush();
}

void Recorder::finish_call(int64_t result_bytes) {
    ++ops_recorded;
    ++pending_ops_;
    if (!at_once()) return;
    pending_bytes_ += result_bytes;
    if (is_full()) return flush();
    last_call_.store(now(), std::memory_order_relaxed);
    if (window_ || watched_.load(std::memory_order_relaxed)) return;
    std::lock_guard lock(watch_mutex_);
    watched_ = true;
    if (!watcher_.joinable()) watcher_ = std::thread([this] { watch(); });
    watch_changed_.notify_one();
}

bool Recorder::is_full() {
    static const bool off = environment_is("NNTILE_WINDOWS", "0");
    if (window_) return pending_ops_ >= most_in_step;
    const int64_t most_bytes = executor_->most_waiting_bytes();
    if (off || most_bytes < 0) return true;
    if (composing_ > 0) return pending_ops_ >= most_in_composition;
    // Large results are not held back: they are worth a worker, and if they do not fit, it is this call that fails.
    return pending_ops_ >= most_waiting || pending_bytes_ > most_bytes;
}

void Recorder::compose(bool begin) {
    if (begin) {
        ++composing_;
        return;
    }
    if (--composing_ > 0) return;
    std::lock_guard lock(mutex_);
    bury();
    if (at_once() && pending_ops_ > 0 && is_full()) flush();
}

void Recorder::watch() {
    std::unique_lock lock(watch_mutex_);
    while (!ends_) {
        if (!watched_) {
            watch_changed_.wait(lock);
            continue;
        }
        watch_changed_.wait_for(lock, patience);
        const std::chrono::nanoseconds since(now() - last_call_.load(std::memory_order_relaxed));
        if (ends_ || !watched_ || composing_ > 0 || since < patience || !executor_->idle()) continue;
        lock.unlock();
        if (mutex_.try_lock()) {                // else somebody is here: look again
            std::lock_guard held(mutex_, std::adopt_lock);
            watched_ = false;                   // finish_call() reads it with the mutex held
            empty_window();
        }
        lock.lock();
    }
}

// What does not fit into memory stays, and the next call says so. What fails otherwise is lost, with its reason.
void Recorder::empty_window() {
    if (!at_once() || window_ || pending_ops_ == 0) return;
    try {
        bury();
        flush();
    } catch (const std::exception&) {           // nobody is there to hear of it
    }
    failed_ = false;
}

void Recorder::end_watch() {
    {
        std::lock_guard lock(watch_mutex_);
        ends_ = true;
        watch_changed_.notify_one();
    }
    if (watcher_.joinable()) watcher_.join();
}

void Recorder::window(bool open) {
    std::lock_guard lock(mutex_);
    bury();
    const bool step = std::exchange(window_, open);
    if (at_once() && pending_ops_ > 0) flush(step);
}

}  // namespace nntile::record
