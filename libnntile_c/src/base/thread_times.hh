// SPDX-License-Identifier: BSD-3-Clause
// How another thread of this process spends its time.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <ctime>

namespace nntile {

struct ThreadId {
    pid_t id = 0;
    clockid_t clock = CLOCK_THREAD_CPUTIME_ID;  // of its time on a core
};
ThreadId this_thread();

// On a core, up to now; 0 of a thread that has ended.
std::chrono::nanoseconds cpu_time(ThreadId thread);

// It neither runs nor waits for a core. Also true of one that has ended, and where the system does
// not say.
bool sleeps(ThreadId thread);

}  // namespace nntile
