// SPDX-License-Identifier: BSD-3-Clause
#include "base/thread_times.hh"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace nntile {

ThreadId this_thread() {
    thread_local const ThreadId self = [] {
        ThreadId thread{static_cast<pid_t>(syscall(SYS_gettid))};
        pthread_getcpuclockid(pthread_self(), &thread.clock);
        return thread;
    }();
    return self;
}

std::chrono::nanoseconds cpu_time(ThreadId thread) {
    timespec time{};
    if (clock_gettime(thread.clock, &time) != 0) return {};
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool sleeps(ThreadId thread) {
    char path[64], text[256];
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread.id);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return true;
    const ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    if (size <= 0) return true;
    text[size] = 0;
    // "id (name) state ...": a name may hold anything, of at most 15 characters.
    const char* const end = std::strrchr(text, ')');
    return !end || end[1] == 0 || end[2] != 'R';
}

}  // namespace nntile
