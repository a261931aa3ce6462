// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/attendant.hh"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace nntile::runtime {

void Attendant::start() {
    ended_ = false;
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
    changed_.notify_one();
}

void Attendant::serve() {
    std::vector<Job> jobs;
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return ended_ || !jobs_.empty(); });
        if (jobs_.empty()) return;
        std::swap(jobs, jobs_);
        lock.unlock();
        for (const Job& job : jobs) job.duty(*job.task);
        jobs.clear();
        lock.lock();
    }
}

}  // namespace nntile::runtime
