// SPDX-License-Identifier: BSD-3-Clause
// Launches that are noted and played on virtual workers: graphs whose times are known.
#include <cmath>

#include "runtime/simulate.hh"
#include "tile/cost.hh"
#include "toy.hh"

using namespace toy;
namespace {

constexpr double task = 0.5;  // seconds, and what moving bytes adds is far less

struct Estimate {
    Estimate() { runtime::begin_estimate(); }
    ~Estimate() {
        if (!ended) runtime::end_estimate();
    }
    double on(int workers) {
        if (!ended) noted = runtime::end_estimate();
        ended = true;
        return runtime::play(*noted, workers).seconds;
    }
    double critical() { return runtime::play(*noted, 1).critical_seconds; }
    std::unique_ptr<runtime::Noted> noted;
    bool ended = false;
};

bool is(double seconds, double tasks) { return std::abs(seconds - tasks * task) < 0.01 * task; }

std::shared_ptr<runtime::Plan> one_task(int reads, bool update = false) {
    Builder b(1);
    std::vector<uint32_t> in;
    for (int k = 0; k < reads; ++k) in.push_back(b.input());
    if (update) b.task({}, b.output(in[0]), 0, true);
    else b.task(in, b.output());
    return b.plan();
}

void chain() {
    Builder b(1);
    uint32_t x = b.input();
    for (int k = 0; k < 7; ++k) {
        const uint32_t y = k < 6 ? b.temporary() : b.output();
        b.task({x}, y);
        x = y;
    }
    auto plan = b.plan();
    const StorageRef in = filled(1, 1);
    Estimate e;
    launch(*plan, {in}, 1, 1);
    for (int workers : {1, 2, 64}) CHECK(is(e.on(workers), 7));
    CHECK(is(e.critical(), 7) && e.noted->tasks == 7 && e.noted->launches == 1);
}

// Temporaries in few slots do not hold back more workers than the plan was made for.
void independent() {
    begin(1);
    Builder b(1);
    for (int k = 0; k < 20; ++k) {
        const uint32_t h = b.temporary();
        b.task({}, h);
        b.task({h}, b.output());
    }
    auto plan = b.plan();
    CHECK(plan->edge_count() > 20);  // of slots
    Estimate e;
    launch(*plan, {}, 20, 1);
    CHECK(is(e.on(1), 40) && is(e.on(20), 2) && is(e.on(64), 2));
    CHECK(is(e.on(3), 2 * 7) && is(e.on(7), 2 * 3));
    CHECK(is(e.critical(), 2));
}

// What is taken from another worker's stack has a price: two chains that one task begins.
void steals() {
    tile::Machine machine;
    machine.task_seconds = task;
    machine.spread_seconds = task / 2;
    tile::set_cost(machine);
    Builder b(1);
    const uint32_t x = b.temporary();
    b.task({}, x);
    for (int k = 0; k < 2; ++k) b.task({x}, b.output());
    auto plan = b.plan();
    Estimate e;
    launch(*plan, {}, 2, 1);
    CHECK(is(e.on(1), 3) && is(e.on(2), 2.5));
    machine.spread_seconds = 1e-9;
    tile::set_cost(machine);
}

// Launches wait for each other through the tiles that they share, whether or not those have ended.
void between_launches() {
    auto read = one_task(1), update = one_task(1, true), make = one_task(0);
    const StorageRef x = filled(1, 1);
    Estimate after;  // a writer, then two readers
    const StorageRef y = launch(*make, {}, 1, 1)[0];
    const auto first = launch(*read, {y}, 1, 1), second = launch(*read, {y}, 1, 1);
    CHECK(is(after.on(8), 2) && is(after.on(1), 3));

    Estimate war;  // two readers, then a writer, then a reader
    const auto third = launch(*read, {x}, 1, 1), fourth = launch(*read, {x}, 1, 1);
    update->launch({std::vector{x}, std::vector{x}, {}, {}});
    const auto fifth = launch(*read, {x}, 1, 1);
    CHECK(is(war.on(8), 3) && is(war.on(1), 4));

    begin(1, 4 << 20);  // memory for one tile of 3 MiB, which six values have one after the other
    constexpr int64_t n = 3 << 17;
    Builder large(n);
    large.task({}, large.output());
    auto make_large = large.plan();
    Estimate fresh;
    for (int k = 0; k < 6; ++k) launch(*make_large, {}, 1, n);
    CHECK(is(fresh.on(6), 1));
}

// What follows a wait of the host begins after it; what was launched before it and is not read goes
// on.
void host_waits() {
    auto make = one_task(0);
    Estimate e;
    const auto a = launch(*make, {}, 1, 1), b = launch(*make, {}, 1, 1);
    values(*a[0]);
    const auto c = launch(*make, {}, 1, 1);
    CHECK(is(e.on(8), 2) && is(e.critical(), 2) && e.noted->tasks == 3);
    Estimate all;
    launch(*make, {}, 1, 1);
    runtime::wait();
    runtime::wait();
    launch(*make, {}, 1, 1);
    runtime::wait();
    launch(*make, {}, 1, 1);
    CHECK(is(all.on(8), 3) && all.noted->tasks == 3);
}

void errors() {
    CHECK_THROWS(runtime::end_estimate(), Status::invalid_state, "none has begun");
    Estimate e;
    CHECK_THROWS(runtime::begin_estimate(), Status::invalid_state, "another one has begun");
    CHECK_THROWS(e.on(1), Status::invalid_argument, "nothing was submitted");
    Estimate next;  // the first has ended
    launch(*one_task(0), {}, 1, 1);
    CHECK(is(next.on(1), 1));
    for (int workers : {0, -1, 65537})
        CHECK_THROWS(next.on(workers), Status::invalid_argument, "workers must be in [1, 65536]");
    CHECK_THROWS(runtime::end_estimate(), Status::invalid_state, "none has begun");
}

void many() {
    auto make = one_task(0);
    auto read = one_task(1);
    Estimate e;
    StorageRef x = launch(*make, {}, 1, 1)[0];
    for (int k = 0; k < 50'000; ++k) {
        launch(*read, {x}, 1, 1);
        if (k % 100 == 99) x = launch(*read, {x}, 1, 1)[0];
    }
    const auto start = Clock::now();
    for (int workers : {1, 64, 1000}) e.on(workers);
    const double seconds = seconds_since(start);
    std::printf("  50,501 tasks on 1, 64 and 1000 workers: %.2f s\n", seconds);
    CHECK(e.noted->tasks == 50'501 && seconds < 10);
}

}  // namespace

int main(int argc, char** argv) {
    begin(2);
    tile::Machine machine;
    machine.task_seconds = task;
    machine.spread_seconds = 1e-9;
    tile::set_cost(machine);
    run_all({{"chain", chain},
             {"steals", steals},
             {"between_launches", between_launches},
             {"host_waits", host_waits},
             {"errors", errors},
             {"independent", independent},
             {"many", many}},
            argc > 1 ? argv[1] : nullptr);
    return 0;
}
