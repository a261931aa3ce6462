// SPDX-License-Identifier: BSD-3-Clause
#include "base/wait.hh"

#include "base/error.hh"

namespace nntile {

namespace {

thread_local Interrupted interrupted = nullptr;

struct Shared {
    std::mutex mutex;
    InterpreterLock lock;
};
Shared& shared() {
    static auto* const s = new Shared;  // threads may outlive static objects
    return *s;
}

}  // namespace

void set_interrupted(Interrupted asked) { interrupted = asked; }

void set_interpreter_lock(const InterpreterLock& lock) {
    std::lock_guard guard(shared().mutex);
    shared().lock = lock;
}

Outside::Outside() {
    {
        std::lock_guard guard(shared().mutex);
        lock_ = shared().lock;
    }
    if (lock_.held && lock_.held()) state_ = lock_.leave();
}

Outside::~Outside() {
    if (state_) lock_.back(state_);
}

bool Patience::wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock) {
    if (!interrupted) {
        changed.wait(lock);
        return false;
    }
    changed.wait_until(lock, next_);
    if (std::chrono::steady_clock::now() < next_) return false;
    lock.unlock();
    const bool stop = interrupted() != 0;
    lock.lock();
    next_ = std::chrono::steady_clock::now() + period;
    return stop;
}

void fail_interrupted() {
    fail(Status::interrupted, "interrupted while waiting; what was submitted goes on");
}

}  // namespace nntile
