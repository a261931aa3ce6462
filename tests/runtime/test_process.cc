// SPDX-License-Identifier: BSD-3-Clause
// The runtime and its process: starts and ends, signals, fork, exit, idle workers.
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "toy.hh"

extern char** environ;

using namespace toy;

namespace {

double cpu_seconds() {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    auto s = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return s(u.ru_utime) + s(u.ru_stime);
}

void forked_child() {
    begin();
    Builder b(4);
    b.task({b.input()}, b.output(), 1);
    auto plan = b.plan();
    StorageRef s = filled(4, 1);
    const pid_t child = fork();
    if (child == 0) {
        alarm(5);
        std::vector<int64_t> host(4);
        CHECK(runtime::forked() && !runtime::active());
        CHECK_THROWS(runtime::read(*s, host.data()), Status::invalid_state, "spawn start method");
        CHECK_THROWS(launch(*plan, {s}, 1, 4), Status::invalid_state, "forked child");
        CHECK_THROWS(runtime::start({}), Status::invalid_state, "forked child");
        CHECK_THROWS(runtime::wait(), Status::invalid_state, "forked child");
        CHECK_THROWS(runtime::shutdown(), Status::invalid_state, "forked child");
        CHECK(!runtime::describe().empty() && runtime::stats().ncpu == 0);
        s.reset();
        plan.reset();
        std::exit(0);  // with handlers
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(values(*launch(*plan, {s}, 1, 4)[0])[0] == 3);  // the parent goes on
}

void idle() {
    begin();
    // After a fork OpenBLAS's thread spins for 2^28 ticks, 90 to 130 ms, and then sleeps.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    const double before = cpu_seconds();
    const auto start = Clock::now();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const double used = (cpu_seconds() - before) / seconds_since(start);
    std::printf("  idle: %.2f %% of a core\n", 100 * used);
    CHECK(used < 0.02);
}

void many_starts() {
    struct sigaction before[65], after;
    for (int s = 1; s < 65; ++s) sigaction(s, nullptr, &before[s]);
    setenv("STARPU_HOME", "/proc/nowhere", 1);  // cannot be made
    std::fflush(stderr);
    const int saved = dup(2);
    std::FILE* file = std::tmpfile();
    dup2(fileno(file), 2);
    Builder b(100);
    b.task({b.input()}, b.output(), 1);
    auto plan = b.plan();
    const auto start = Clock::now();
    for (int i = 0; i < 20; ++i) {
        begin(1 + i % 3);
        CHECK(values(*launch(*plan, {filled(100, i)}, 1, 100)[0])[0] == 2 * i + 1);
    }
    std::printf("  20 starts: %.0f ms each\n", seconds_since(start) / 20 * 1000);
    dup2(saved, 2);
    CHECK(std::fseek(file, 0, SEEK_END) == 0 && std::ftell(file) == 0);  // not a word on stderr
    for (int s = 1; s < 65; ++s)
        CHECK(sigaction(s, nullptr, &after) != 0 || after.sa_handler == before[s].sa_handler);
    CHECK(std::string(std::getenv("STARPU_HOME")) == "/proc/nowhere" &&
          !std::getenv("STARPU_SILENT"));
    unsetenv("STARPU_HOME");
}

// Something that kernels use and that goes away when the process ends.
struct Library {
    std::atomic<bool> alive{true};
    ~Library() {
        alive = false;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
} library;

int use_library(const kernels::Args& args) {
    const int result = mix(args);
    if (!library.alive) std::_Exit(7);
    return result;
}
const kernels::KernelRow library_row{"library", "", use_library, nullptr};

// The child: ends while tasks run and many wait.
int leave() {
    alarm(20);
    begin();
    Builder b(10);
    uint32_t last = b.input();
    for (int i = 0; i < 100; ++i) {
        const uint32_t next = i == 99 ? b.output() : b.temporary();
        b.task({last}, next, 1, false, 2000, library_row);
        last = next;
    }
    static StorageRef kept = filled(10, 1);  // destroyed after the handlers of exit
    auto plan = b.plan();
    for (int i = 0; i < 20; ++i) launch(*plan, {kept}, 1, 10);
    return 0;  // 4 s of work left
}

void exit_without_shutdown(const char* self) {
    runtime::shutdown();
    const auto start = Clock::now();
    for (int i = 0; i < 20; ++i) {
        char mode[] = "leave";
        char* arguments[] = {const_cast<char*>(self), mode, nullptr};
        pid_t child = 0;
        CHECK(posix_spawn(&child, self, nullptr, nullptr, arguments, environ) == 0);
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    std::printf("  20 exits: %.0f ms each\n", seconds_since(start) / 20 * 1000);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "leave") return leave();
    run_all({{"many_starts", many_starts},  // first: it looks at signal handlers
             {"forked_child", forked_child},
             {"idle", idle},
             {"exit_without_shutdown", [&] { exit_without_shutdown(argv[0]); }}},
            argc > 1 ? argv[1] : nullptr);
    return 0;
}
