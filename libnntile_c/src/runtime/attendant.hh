// SPDX-License-Identifier: BSD-3-Clause
// A thread for what the worker of a GPU must not do: wait for the engine's mutex, whose owner may
// wait for that worker, or for data. There is one only where there are GPUs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace nntile::runtime {

struct RunTask;

class Attendant {
public:
    using Duty = void (*)(RunTask&);
    void start(double spin_seconds);  // which it looks for more before it sleeps
    void stop();                      // when nothing is left to do
    void hand(Duty duty, RunTask& task);

private:
    void serve();
    struct Job {
        Duty duty;
        RunTask* task;
    };
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Job> jobs_;
    std::atomic<bool> called_{false};
    bool asleep_ = false, ended_ = false;
    double spin_seconds_ = 0;
    std::thread thread_;
};

}  // namespace nntile::runtime
