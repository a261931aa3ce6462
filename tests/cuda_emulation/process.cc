// SPDX-License-Identifier: BSD-3-Clause
#include "process.hh"

#include <execinfo.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "settings.hh"

namespace emulation {

namespace {

void futex_wait(std::atomic<uint32_t>& word, uint32_t value, const timespec* limit) {
    syscall(SYS_futex, &word, FUTEX_WAIT, value, limit, nullptr, 0);
}
void futex_wake(std::atomic<uint32_t>& word) {
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool is_device(uintptr_t address) {
    return address >= first_address && address < first_address + max_devices * address_step;
}

// ---- in the device's process

void on_device_fault(int, siginfo_t* info, void*) {
    Control& c = *engine();
    const Thread& t = *emulation_thread;
    const bool own = is_device(reinterpret_cast<uintptr_t>(info->si_addr));
    set_text(
        c, "%s: thread (%u,%u,%u) of block (%u,%u,%u) touches %p, %s",
        c.kernel ? c.kernel->name : "?", t.thread.x, t.thread.y, t.thread.z, t.block.x, t.block.y,
        t.block.z, info->si_addr,
        own ? "outside of what is allocated on this device" : "which is not memory of the device");
    c.status = cudaErrorIllegalAddress;
    c.answered.store(c.asked.load());
    futex_wake(c.answered);
    _exit(1);
}

// A line of /proc/self/maps.
struct Mapping {
    uintptr_t begin = 0, end = 0;
    bool writable = false, file = false, heap = false, special = false;
};
Mapping mapping_of(const char* line) {
    Mapping m;
    char* rest;
    m.begin = std::strtoul(line, &rest, 16);
    m.end = std::strtoul(rest + 1, &rest, 16);
    m.writable = rest[2] == 'w';
    m.file = std::strchr(line, '/') != nullptr;
    const char* bracket = std::strchr(line, '[');
    m.heap = bracket && std::strncmp(bracket, "[heap]", 6) == 0;
    m.special = bracket && !m.heap;
    return m;
}

// Takes from this process what is the host's: writable memory but for this thread's stack, data of
// libraries (zeroed data follows a mapping of the file), and our own.
void hide_host(const Control* control) {
    static char text[1 << 20];
    const int file = open("/proc/self/maps", O_RDONLY);
    size_t n = 0;
    for (ssize_t got; n < sizeof text - 1 && (got = read(file, text + n, sizeof text - 1 - n)) > 0;)
        n += static_cast<size_t>(got);
    close(file);
    text[n] = 0;
    const uintptr_t kept[] = {reinterpret_cast<uintptr_t>(&n), reinterpret_cast<uintptr_t>(control),
                              reinterpret_cast<uintptr_t>(stacks())};
    uintptr_t end_of_file = 0;
    for (char* line = text; *line;) {
        char* const next = std::strchr(line, '\n');
        if (!next) break;
        *next = 0;
        const Mapping m = mapping_of(line);
        line = next + 1;
        bool keep = m.file || m.special || m.begin == end_of_file;
        if (keep) end_of_file = m.end;
        for (uintptr_t address : kept) keep = keep || (address >= m.begin && address < m.end);
        if (m.writable && !keep)
            mprotect(reinterpret_cast<void*>(m.begin), m.end - m.begin, PROT_NONE);
    }
}

[[noreturn]] void device_main(Control* control) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_engine(control);
    static Thread nobody;
    emulation_thread = &nobody;
    static std::byte signal_stack[64 << 10];
    stack_t alternative{};
    alternative.ss_sp = signal_stack;
    alternative.ss_size = sizeof signal_stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action{};
    action.sa_sigaction = on_device_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    for (int s : {SIGINT, SIGTERM}) signal(s, SIG_IGN);
    if (settings().isolate >= 2) hide_host(control);
    for (uint32_t done = 0;;) {
        while (control->asked.load() == done) futex_wait(control->asked, done, nullptr);
        done = control->asked.load();
        if (control->request == Control::end) _exit(0);
        if (control->request == Control::protect)
            mprotect(reinterpret_cast<void*>(control->address), control->bytes,
                     control->protection);
        else run_kernel(*control);
        control->answered.store(done);
        futex_wake(control->answered);
    }
}

// ---- in the host's process

// A child dies with the thread that has made it: so one that lives as long as the process makes
// all.
class Maker {
public:
    pid_t child_of(Control* control) {
        std::lock_guard one_at_a_time(callers_);
        std::unique_lock lock(mutex_);
        wanted_ = control;
        if (!started_) {
            started_ = true;
            std::thread([this] { serve(); }).detach();
        }
        changed_.notify_all();
        changed_.wait(lock, [&] { return wanted_ == nullptr; });
        return made_;
    }

private:
    void serve() {
        std::unique_lock lock(mutex_);
        for (;;) {
            changed_.wait(lock, [&] { return wanted_ != nullptr; });
            const pid_t process = _Fork();  // without the handlers of pthread_atfork
            if (process == 0) device_main(wanted_);
            made_ = process;
            wanted_ = nullptr;
            changed_.notify_all();
        }
    }
    std::mutex callers_, mutex_;
    std::condition_variable changed_;
    Control* wanted_ = nullptr;
    pid_t made_ = 0;
    bool started_ = false;
};

struct sigaction before;

void on_host_fault(int number, siginfo_t* info, void* context) {
    if (is_device(reinterpret_cast<uintptr_t>(info->si_addr))) {
        char text[160], name[16] = "";
        pthread_getname_np(pthread_self(), name, sizeof name);
        const int n =
            std::snprintf(text, sizeof text,
                          "emulation: the host (thread \"%s\") touches memory of a device: %p\n",
                          name, info->si_addr);
        (void)!write(2, text, static_cast<size_t>(n));
        void* frames[32];
        backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
        signal(SIGSEGV, SIG_DFL);
        return;  // again, for good
    }
    if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        return before.sa_handler(number);
    signal(SIGSEGV, SIG_DFL);
}

}  // namespace

pid_t make_process(Control* control) {
    static auto* const maker = new Maker;  // never destroyed: its thread uses it
    return maker->child_of(control);
}

void ask(Control& c, pid_t process) {
    const uint32_t number = c.asked.load() + 1;
    c.asked.store(number);
    futex_wake(c.asked);
    const timespec patience{1, 0};
    for (uint32_t seen; (seen = c.answered.load()) != number;) {
        futex_wait(c.answered, seen, &patience);
        int how = 0;
        if (c.answered.load() != number && waitpid(process, &how, WNOHANG) != 0) {
            c.status = cudaErrorLaunchFailure;
            set_text(c, "the device's process has ended (%d) in %s", how,
                     c.kernel ? c.kernel->name : "?");
            return;
        }
    }
}

void watch_host() {
    struct sigaction action{};
    action.sa_sigaction = on_host_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &before);
}

}  // namespace emulation
