// SPDX-License-Identifier: BSD-3-Clause
// A thread that computes, one that sleeps, one that has ended.
#include "base/thread_times.hh"

#include <atomic>
#include <thread>

#include "../check.hh"

using namespace nntile;
using namespace std::chrono_literals;

namespace {

// What holds of another thread is seen after a while only: it must be scheduled.
template <class Condition>
bool comes(Condition&& condition) {
    for (int k = 0; k < 20'000; ++k, std::this_thread::sleep_for(1ms))
        if (condition()) return true;
    return false;
}

struct Other {
    std::atomic<bool> known{false}, ends{false};
    ThreadId id;
    std::thread thread;

    template <class Body>
    explicit Other(Body body)
        : thread([this, body] {
              id = this_thread();
              known = true;
              while (!ends) body();
          }) {
        while (!known) std::this_thread::yield();
    }
    ~Other() { join(); }
    void join() {
        ends = true;
        if (thread.joinable()) thread.join();
    }
};

void one_that_computes() {
    Other busy([] {});
    const auto begin = cpu_time(busy.id);
    CHECK(comes([&] { return cpu_time(busy.id) > begin + 5ms; }));
    for (int k = 0; k < 20; ++k) CHECK(!sleeps(busy.id));  // on a core, or waiting for one
}

void one_that_sleeps() {
    Other idle([] { std::this_thread::sleep_for(2ms); });
    CHECK(comes([&] { return sleeps(idle.id); }));
    CHECK(cpu_time(idle.id) < 5s);
}

void one_that_has_ended() {
    Other gone([] {});
    gone.join();
    CHECK(comes([&] { return sleeps(gone.id); }));
    CHECK(cpu_time(gone.id) == 0ns);
}

}  // namespace

int main() {
    CHECK(this_thread().id == this_thread().id);
    CHECK(!sleeps(this_thread()));
    one_that_computes();
    one_that_sleeps();
    one_that_has_ended();
    return test::result();
}
