// SPDX-License-Identifier: BSD-3-Clause
// The dependency engine: which task of which run is ready. StarPU sees ready tasks only.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "base/error.hh"
#include "base/wait.hh"
#include "runtime/attendant.hh"
#include "runtime/pool.hh"
#include "runtime/stager.hh"

namespace nntile::runtime {

struct Engine final : Stager::Around {
    std::mutex mutex;                 // pool, tiles, states of runs, the fields up to `abandon`
    std::condition_variable changed;  // a run has ended or a guest has left
    Pool pool;
    Stager stager{pool, *this};
    Attendant attendant;
    bool open = false;  // a context is active and takes launches
    int64_t active_runs = 0;
    int64_t guests = 0;  // threads inside read() or write()
    int64_t launches = 0;

    std::atomic<bool> abandon{false};            // the process ends: tasks no longer compute
    std::atomic<int64_t> submitted{0}, done{0};  // tasks
    uint32_t float_state = 0;                    // of the workers' threads

    // The first error of a task is kept until somebody asks.
    void report(Status status, std::string text) override;
    void moved(Tile* tile, int error) override;
    bool others_run(int64_t managed) const override { return active_runs > managed; }
    bool abandoned() const override { return abandon.load(std::memory_order_relaxed); }
    void notify() override { changed.notify_all(); }
    void throw_error();  // throws and forgets it
    void forget_error() { failed_ = false; }
    std::string last_error();  // also one that was thrown before

    // Throws invalid_state unless a context is active in this process.
    void check_open() const;
    // out_of_memory if so much more than what tensors hold has no place, whatever ends. `lock`
    // holds the mutex.
    void check_fits(int64_t need_bytes, size_t tiles) const;
    // While the program is far ahead of its work, it waits here, where it holds no lock.
    void pace();
    // Until something has changed; interrupted, or invalid_state if the context is no longer open.
    void wait_for_change(Patience& patience, std::unique_lock<std::mutex>& lock);
    // Waits until no run is in flight. `lock` holds the mutex.
    void drain(std::unique_lock<std::mutex>& lock);

private:
    std::mutex error_mutex_;
    std::atomic<bool> failed_{false};
    Status status_ = Status::ok;
    std::string text_;
};
Engine& engine();
void cut_for(int64_t budget);  // automatic cuts, from now on

// How the calling thread rounds, and what it does with subnormal numbers.
inline uint32_t float_state() {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr();
#else
    return 0;
#endif
}
inline void set_float_state([[maybe_unused]] uint32_t state) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(state);
#endif
}

void release(RunTask& task);          // one thing less that it waits for; submits it after the last
void carry_on(Stager::Ready& ready);  // releases them; without the mutex
void finish_one(Run* run);            // a task, or the launch; ends the run after the last
// All tasks, by the calling thread: they wait for nothing outside of the run
void run_here(Run* run);
void run_small(const Run& run);  // likewise, and nothing waits for them

// Counts a thread that uses handles outside of the engine's mutex; shutdown waits for it.
class Guest {
public:
    Guest(Engine& engine, uint64_t generation);  // invalid_state if that context has ended
    ~Guest();

private:
    Engine& engine_;
};

}  // namespace nntile::runtime
