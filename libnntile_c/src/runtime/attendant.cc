// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/attendant.hh"

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <utility>

namespace nntile::runtime {

using Clock = std::chrono::steady_clock;

void Attendant::start(double spin_seconds) {
    ended_ = false;
    spin_seconds_ = spin_seconds;
    sigset_t all, before;  // signals are for the threads of the program
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { serve(); });
    pthread_setname_np(thread_.native_handle(), "nntile-gpu");
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Attendant::stop() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
}

void Attendant::hand(Duty duty, RunTask& task) {
    std::lock_guard lock(mutex_);
    jobs_.push_back({duty, &task});
    called_.store(true);
    if (asleep_) changed_.notify_one();
}

void Attendant::serve() {
    std::vector<Job> jobs;
    std::unique_lock lock(mutex_);
    for (;;) {
        if (jobs_.empty() && spin_seconds_ > 0) {  // the next end of a task is near
            lock.unlock();
            const auto until = Clock::now() + std::chrono::duration<double>(spin_seconds_);
            while (!called_.load() && Clock::now() < until) std::this_thread::yield();
            lock.lock();
        }
        asleep_ = true;
        changed_.wait(lock, [&] { return ended_ || !jobs_.empty(); });
        asleep_ = false;
        if (jobs_.empty()) return;
        std::swap(jobs, jobs_);
        called_.store(false);
        lock.unlock();
        for (const Job& job : jobs) job.duty(*job.task);
        jobs.clear();
        lock.lock();
    }
}

}  // namespace nntile::runtime
