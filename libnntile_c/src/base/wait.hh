// SPDX-License-Identifier: BSD-3-Clause
// Waits that may be long, in a process whose interpreter has a lock of its own and signals to look
// at. Nothing here knows which interpreter: it hands over functions.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace nntile {

// Asked by the calling thread while it waits; not 0: the wait ends with Status::interrupted.
using Interrupted = int (*)();
void set_interrupted(Interrupted asked);

// The interpreter's lock: whether this thread holds it; give it back, take it again.
struct InterpreterLock {
    int (*held)() = nullptr;
    void* (*leave)() = nullptr;
    void (*back)(void* state) = nullptr;
};
void set_interpreter_lock(const InterpreterLock& lock);

// While it lives, this thread does not hold the interpreter's lock.
class Outside {
public:
    Outside();
    ~Outside();
    Outside(const Outside&) = delete;

private:
    InterpreterLock lock_;
    void* state_ = nullptr;
};

// Held around waits. Its holder may need the interpreter's lock there, to ask whether it is
// interrupted; so nobody waits for this one and holds that one.
class LongMutex {
public:
    void lock() {
        if (mutex_.try_lock()) return;
        Outside outside;
        mutex_.lock();
    }
    bool try_lock() { return mutex_.try_lock(); }
    void unlock() { mutex_.unlock(); }

private:
    std::mutex mutex_;
};

// For one wait: when to ask, and the answer.
class Patience {
public:
    // Waits until somebody notifies, or it is time to ask again: spurious for the caller. Asks
    // without `lock`, which it holds again when it returns. True: interrupted.
    bool wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock);

private:
    static constexpr auto period = std::chrono::milliseconds(50);
    std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + period;
};

[[noreturn]] void fail_interrupted();

}  // namespace nntile
