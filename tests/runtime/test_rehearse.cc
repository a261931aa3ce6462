// SPDX-License-Identifier: BSD-3-Clause
// Launches on tiles without data, played with budgets and disks: graphs whose bytes are known.
#include "runtime/rehearse.hh"

#include <cmath>

#include "tile/cost.hh"
#include "toy.hh"

using namespace toy;
using runtime::rehearse;
namespace {

constexpr double task = 0.5;                       // seconds
constexpr int64_t numbers = 1 << 17;               // of a tile
constexpr int64_t tile_bytes = numbers * 8;        // 1 MiB
constexpr double disk = 1e3 * (int64_t{1} << 20);  // 1 ms a tile

struct Imagine {
    Imagine() { runtime::imagine(true, 0); }
    ~Imagine() { runtime::imagine(false, 0); }
};

std::shared_ptr<runtime::Plan> update() {
    Builder b(numbers);
    b.task({}, b.output(b.input()), 1, true);
    return b.plan();
}

// A step changes `count` tiles, one after the other, and then one more tile `again` times.
std::unique_ptr<runtime::Noted> noted(int count, int again = 0) {
    const Imagine imagine;
    std::vector<StorageRef> x;
    for (int k = 0; k < count; ++k) x.push_back(filled(numbers, k));
    StorageRef y = filled(numbers, count);
    if (again == 0) y = nullptr;
    runtime::begin_estimate();
    const auto plan = update();
    for (int step = 0; step < 5; ++step) {
        for (StorageRef& s : x) s = launch(*plan, {s}, 1, numbers)[0];
        for (int k = 0; k < again; ++k) y = launch(*plan, {y}, 1, numbers)[0];
        runtime::end_step();
    }
    return runtime::end_estimate();
}

void room_for_all() {
    const auto steps = noted(8);
    const runtime::Rehearsed all = rehearse(*steps, {2, 0, disk});
    CHECK(all.peak_bytes == 8 * tile_bytes && all.reserved_peak_bytes >= 8 * tile_bytes);
    CHECK(all.moved.read == 0 && all.moved.written == 0 && all.swap_peak_bytes == 0);
    CHECK(std::abs(all.seconds - 4 * task) < 0.01);
    CHECK(all.holders.size() == 1 && all.holders[0].bytes == all.peak_bytes);
    CHECK(all.holders[0].op == "write" && all.holders[0].tiles == 8);
    CHECK(runtime::stats().peak_bytes == 0 && runtime::stats().tasks == 0);
}

void a_budget() {
    const auto steps = noted(16);
    const runtime::Rehearsed small = rehearse(*steps, {1, 8 * tile_bytes, disk});
    CHECK(small.reserved_peak_bytes <= 8 * tile_bytes + (4 << 20));
    CHECK(small.swap_peak_bytes >= 8 * tile_bytes);
    // All but what has room: each tile is read and written once in a step
    for (int64_t moved : {small.moved.read, small.moved.written})
        CHECK(moved >= 8 * tile_bytes && moved <= 16 * tile_bytes);
    CHECK(small.least.read >= 7 * tile_bytes && small.least.read <= small.moved.read);
    CHECK(small.least.written >= 7 * tile_bytes && small.least.written <= small.moved.written);
    CHECK(small.seconds > 16 * task - 0.01);
    // A disk of which a tile takes two tasks' time
    const runtime::Rehearsed slow = rehearse(*steps, {1, 8 * tile_bytes, disk / 1000});
    CHECK(slow.seconds >= static_cast<double>(slow.moved.read + slow.moved.written) / tile_bytes);
}

// While the disk is busy with what comes first, a worker does what is in memory.
void tasks_before_their_turn() {
    const double alone = rehearse(*noted(16), {1, 8 * tile_bytes, disk / 1000}).seconds;
    const double both = rehearse(*noted(16, 12), {1, 9 * tile_bytes, disk / 1000}).seconds;
    CHECK(both < alone + 2 * task);
}

void one_task_too_large() {
    Builder b(numbers);
    b.task({b.input()}, b.output());
    const auto plan = b.plan();
    std::unique_ptr<runtime::Noted> copy;
    {
        const Imagine imagine;
        const StorageRef x = filled(numbers, 1);
        runtime::begin_estimate();
        launch(*plan, {x}, 1, numbers);
        copy = runtime::end_estimate();
    }
    CHECK_THROWS(rehearse(*copy, {1, 3 * tile_bytes / 2, disk}), Status::out_of_memory,
                 "mix: one task needs 2097152 bytes");
    CHECK_THROWS(rehearse(*copy, {1, tile_bytes / 2, disk}), Status::out_of_memory,
                 "write: 1048576 bytes have no place");
    CHECK(rehearse(*copy, {1, 4 * tile_bytes, disk}).peak_bytes == 2 * tile_bytes);
}

void errors() {
    const auto steps = noted(1);
    CHECK_THROWS(rehearse(*steps, {0, 0, disk}), Status::invalid_argument, "workers must be");
    CHECK_THROWS(rehearse(*steps, {1, -1, disk}), Status::invalid_argument, "memory of -1");
    CHECK_THROWS(rehearse(*steps, {1, 0, 0}), Status::invalid_argument, "a disk of 0");
    CHECK_THROWS(rehearse(*steps, {1, 0, NAN}), Status::invalid_argument, "a disk of nan");
    CHECK_THROWS(rehearse({}, {1, 0, disk}), Status::invalid_argument, "nothing was submitted");
    CHECK_THROWS(runtime::imagine(true, -1), Status::invalid_argument, "memory of -1");
    CHECK_THROWS(runtime::end_step(), Status::invalid_state, "none has begun");
}

void no_data() {
    const StorageRef before = filled(numbers, 3);
    const auto plan = update();
    StorageRef without;
    {
        const Imagine imagine;
        without = filled(numbers, 1);
        CHECK_THROWS(values(*without), Status::invalid_state, "the result of write, i64 (131072,)");
        CHECK_THROWS(launch(*plan, {before}, 1, numbers), Status::invalid_state, "has data");
    }
    CHECK_THROWS(launch(*plan, {without}, 1, numbers), Status::invalid_state, "has no data");
    CHECK_THROWS(values(*without), Status::invalid_state, "has no data");
    CHECK(values(*before)[7] == 3);
}

}  // namespace

int main(int argc, char** argv) {
    begin(2);
    tile::Machine machine;
    machine.task_seconds = task;
    machine.spread_seconds = 1e-9;
    tile::set_cost(machine);
    run_all({{"room_for_all", room_for_all},
             {"a_budget", a_budget},
             {"tasks_before_their_turn", tasks_before_their_turn},
             {"one_task_too_large", one_task_too_large},
             {"errors", errors},
             {"no_data", no_data}},
            argc > 1 ? argv[1] : nullptr);
    return 0;
}
