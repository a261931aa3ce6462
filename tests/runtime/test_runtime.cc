// SPDX-License-Identifier: BSD-3-Clause
// The runtime by itself: tile graphs made by hand, toy kernels.

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>

#include "runtime/memory.hh"
#include "runtime/schedule.hh"
#include "toy.hh"

using namespace toy;
namespace {

// ---- dependencies

void edges() {
    Builder b(1);
    const uint32_t x = b.input(), y = b.temporary(), z = b.temporary(), w = b.output();
    b.task({x}, y);               // 0
    b.task({y}, z);               // 1 after 0
    b.task({x, y}, w);            // 2 after 0
    b.task({z, w}, y);            // 3 after 1 and 2 (write after read), and so after 0
    b.task({x}, b.temporary(x));  // 4 writes over x: after its readers 0 and 2; 0 is before 2
    const std::vector<std::pair<uint32_t, uint32_t>> expected{
        {0, 1}, {0, 2}, {2, 3}, {1, 3}, {2, 4}};
    CHECK(b.graph.edges() == expected);
}

void size_classes() {
    using namespace runtime::memory;
    CHECK(class_bytes(class_of(0)) == 64 && class_bytes(class_of(4096)) == 4096);
    std::mt19937_64 random(1);
    for (int i = 0; i < 100000; ++i) {
        const auto bytes = static_cast<int64_t>(random() >> (24 + random() % 40));
        const int64_t rounded = class_bytes(class_of(bytes));
        CHECK(rounded >= bytes && class_of(rounded) == class_of(bytes) &&
              class_of(bytes) < class_count);
        CHECK(bytes < 512 || static_cast<double>(rounded) < 1.125 * static_cast<double>(bytes));
    }
}

// Chains of row tiles share slots, but as many chains as workers run at the same time.
void slots() {
    begin(2);
    Builder b(1000);
    for (int row = 0; row < 50; ++row) {
        const uint32_t x = b.input(), h = b.temporary(), g = b.temporary(), y = b.output();
        b.task({x}, h);
        b.task({h}, g);
        b.task({h, g}, y);
    }
    auto plan = b.plan();
    CHECK(plan->temporary_bytes() ==
          8 * runtime::memory::class_bytes(runtime::memory::class_of(8000)));
    CHECK(plan->text().starts_with("plan { 150 tasks, "));
    CHECK(plan->text().find("100 temporaries in 8 slots of 65536 bytes, external: %0 %3") !=
          std::string::npos);
}

void in_place() {
    begin();
    Builder b(500);
    const uint32_t w = b.input(), v = b.output(w);
    b.task({}, v, 1, true);  // w = 3 * w + 1, a thousand times, nothing waits
    auto plan = b.plan();
    StorageRef s = filled(500, 0);
    uint64_t expected = 0;
    const int64_t before = runtime::stats().tiles;
    for (int i = 0; i < 1000; ++i) {
        s = launch(*plan, {s}, 1, 500)[0];
        expected = 3 * expected + 1;
    }
    CHECK(values(*s) == std::vector<int64_t>(500, static_cast<int64_t>(expected)));
    CHECK(runtime::stats().tiles == before);
}

// A tile whose halves are written by two tasks and read as one; more operands than StarPU's fixed
// arrays.
void blocks_and_many_operands() {
    begin();
    Builder b(40);
    std::vector<uint32_t> in;
    for (int i = 0; i < 40; ++i) in.push_back(b.input());
    const uint32_t halves = b.temporary(), all = b.output();
    for (int64_t half = 0; half < 2; ++half) {
        tile::Task& t = b.task({in[static_cast<size_t>(half)]}, halves, 100);
        t.sizes = {20};
        t.operands[1].offset = 20 * half;
    }
    in.push_back(halves);
    b.task(in, all);
    std::vector<StorageRef> s;
    for (int64_t i = 0; i < 40; ++i) s.push_back(filled(40, i));
    auto plan = b.plan();
    int64_t sum = 0;
    for (int64_t i = 0; i < 40; ++i) sum += (i + 2) * i;
    std::vector<int64_t> expected(40, sum + 42 * 100);
    std::fill(expected.begin() + 20, expected.end(), sum + 42 * 102);
    CHECK(values(*launch(*plan, s, 1, 40)[0]) == expected);
}

void threads() {
    begin();
    Builder b(10);
    const uint32_t x = b.input(), w = b.input(), t = b.temporary(), v = b.output(x);
    b.task({w}, t);           // 2 w
    b.task({t}, v, 0, true);  // x = 3 x + 4 w
    auto plan = b.plan();
    StorageRef shared = filled(10, 1);
    auto work = [&] {
        uint64_t expected = 0;
        StorageRef s = filled(10, 0);
        for (int i = 0; i < 300; ++i) {
            s = launch(*plan, {s, shared}, 1, 10)[0];
            expected = 3 * expected + 4;
            if (i % 37 == 0) CHECK(values(*s)[9] == static_cast<int64_t>(expected));
        }
        CHECK(values(*s)[0] == static_cast<int64_t>(expected));
    };
    std::vector<std::thread> all;
    for (int i = 0; i < 4; ++i) all.emplace_back(work);
    for (std::thread& thread : all) thread.join();
}

// The thread that ran the last task, and how it treats subnormal numbers.
std::atomic<std::thread::id> ran;
std::atomic<double> subnormal;
int who(const kernels::Args& args) {
    ran = std::this_thread::get_id();
    volatile double tiny = 1e-300;
    tiny = tiny * 1e-10;
    subnormal = tiny;
    return mix(args);
}
const kernels::KernelRow who_row{"who", "", who, nullptr};

// Little work is done by the thread that launches it, unless it waits for a worker; as a worker
// would do it.
void small_work_runs_here() {
    begin();
    const auto here = std::this_thread::get_id();
    Builder b(10);
    const uint32_t t = b.temporary();
    b.task({b.input()}, t, 1, false, 0, who_row);
    b.task({t}, b.output(), 1, false, 0, who_row);
    auto small = b.plan();
    CHECK(values(*launch(*small, {filled(10, 1)}, 1, 10)[0])[0] == 7 && ran.load() == here);

    Builder l(10);
    // As the cost module knows it
    l.task({l.input()}, l.output(), 1, false, 20'000, who_row).bytes = 1 << 24;
    StorageRef waits = launch(*l.plan(), {filled(10, 1)}, 1, 10)[0];
    auto begun = Clock::now();
    StorageRef last = launch(*small, {waits}, 1, 10)[0];
    CHECK(seconds_since(begun) < 0.01);                   // the launch did not wait
    CHECK(values(*last)[0] == 15 && ran.load() != here);  // neither did that work run here

#if defined(__x86_64__)
    const uint32_t own = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(own | 0x8040);  // subnormal numbers are zeros
    launch(*small, {filled(10, 1)}, 1, 10);
    const uint32_t after = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(own);
    CHECK(ran.load() == here && subnormal.load() != 0 && (after & 0x8040) == 0x8040);
#endif
}

void scalars_and_host_calls() {
    begin();
    Builder b(4);
    const uint32_t x = b.input(), t = b.temporary(), y = b.output();
    b.task({x}, t).params[0] = {{}, 1};
    tile::Task& host = b.task({t}, y);
    host.kernel = nullptr;
    host.host_call = 0;
    host.params = {{{.i = 1}}};  // it would add to y
    host.operands.insert(host.operands.begin() + 1, tile::Operand{});
    host.operands[0].offset = 1;
    StorageRef in = filled(4, 10);
    std::vector<kernels::Param> scalars{{.i = 7}, {.i = 5}};
    StorageRef out = empty(4);
    std::vector<StorageRef> inputs{in}, outputs{out};
    host.operands.insert(host.operands.begin() + 2, tile::Operand{});
    host.operands[1].scalar = 0;
    host.index_offset = 9;  // of an axis of 4 in parts of one, then one of 8
    host.sizes = {1, 4};
    host.index_strides = {8, 1};
    auto plan = b.plan();
    auto copy = [](const HostPart& part, void* const* data, char*) {
        CHECK(product(part.sizes) == 4 && part.accumulate && part.starts == (Dims{1, 1}));
        CHECK(*static_cast<const int64_t*>(data[1]) == 7 && data[2] == nullptr);
        for (int i = 0; i < 4; ++i)
            static_cast<int64_t*>(data[3])[i] = static_cast<const int64_t*>(data[0])[0] + i;
        return 0;
    };
    plan->launch({inputs, outputs, scalars, {{copy, {}}}});
    scalars[1].i = 0;  // was copied
    CHECK((values(*out) == std::vector<int64_t>{25, 26, 27, 28}));
    CHECK_THROWS(plan->launch({inputs, outputs, scalars, {}}), Status::invalid_argument,
                 "0 host calls");
    CHECK_THROWS(plan->launch({inputs, outputs, {}, {}}), Status::invalid_argument,
                 "0 scalars given");
}

// ---- errors

void errors() {
    begin();
    Builder b(4);
    const uint32_t x = b.input(), t = b.temporary(), y = b.output();
    b.task({x}, t, 0, false, 0, refuse_row);
    b.task({x}, y, 1);
    b.graph.op_names[0] = "nll_loss";
    b.graph.places[0] = place_of("model.py:14");
    auto plan = b.plan();
    StorageRef in = filled(4, 10), out = launch(*plan, {in}, 1, 4)[0];
    CHECK_THROWS(runtime::wait(), Status::index_error,
                 "nll_loss: target 12 is out of range [0, 10) [model.py:14]");
    runtime::wait();               // handed over once
    CHECK(values(*out)[0] == 21);  // the other tasks ran
    launch(*plan, {in}, 1, 4);
    std::vector<int64_t> host(4);
    CHECK_THROWS((runtime::wait(), 0), Status::index_error, "nll_loss");

    Builder c(4);
    c.task({c.input()}, c.output(), 0, false, 0, explode_row);
    out = launch(*c.plan(), {in}, 1, 4)[0];
    CHECK_THROWS(runtime::read(*out, host.data()), Status::runtime,
                 "explode: no kernel should do this");
    CHECK(values(*in)[3] == 10);
}

void states() {
    begin();
    CHECK_THROWS(runtime::start({}), Status::invalid_state,
                 "a context is already active; call shutdown first");
    CHECK_THROWS(runtime::restrict_to("cuda"), Status::unsupported, "CUDA");
    CHECK_THROWS(runtime::restrict_to("tpu"), Status::invalid_argument, "tpu");
    runtime::restrict_to("cpu");
    Builder b(4);
    b.task({b.input()}, b.output(), 1);
    auto plan = b.plan();
    StorageRef s = filled(4, 1), untouched = empty(4);
    CHECK(values(*launch(*plan, {s}, 1, 4)[0])[0] == 3);
    CHECK(values(*untouched) == std::vector<int64_t>(4, 0));
    launch(*plan, {untouched}, 1, 4);  // reads unspecified bytes
    CHECK(untouched->tiles.size() == 1);
    runtime::shutdown();
    runtime::shutdown();
    std::vector<int64_t> host(4);
    CHECK_THROWS(runtime::read(*s, host.data()), Status::invalid_state, "shut down");
    CHECK_THROWS(launch(*plan, {s}, 1, 4), Status::invalid_state, "no context is active");
    begin();
    CHECK_THROWS(runtime::read(*s, host.data()), Status::invalid_state, "shut down");
    CHECK_THROWS(launch(*plan, {s}, 1, 4), Status::invalid_state, "shut down");
    CHECK(values(*launch(*plan, {filled(4, 2)}, 1, 4)[0])[0] == 5);  // the plan lives on
    runtime::shutdown();
    runtime::Config config;
    config.ncuda = 1;
    CHECK_THROWS(runtime::start(config), Status::unsupported, "no CUDA");
    config = {};
    config.ncpu = 0;
    CHECK_THROWS(runtime::start(config), Status::invalid_argument, "no worker");
}

// ---- memory

void copies() {
    begin();
    Storage s;  // (24 cut as 4 x 6(2, 4), 5 cut (2, 3)), element of 2 bytes
    s.dtype = DType::i16;
    s.sizes = {24, 5};
    s.cuts = {{{4, {}}, {6, {2}}}, {{5, {2}}}};
    s.names = {"", ""};
    std::vector<int16_t> host(120), back(120);
    for (int16_t i = 0; i < 120; ++i) host[static_cast<size_t>(i)] = i;
    runtime::allocate(s);
    CHECK(s.tiles.size() == 4 && s.bytes() == 240);
    runtime::write(s, host.data());
    runtime::read(s, back.data());
    CHECK(host == back);
    Storage none;
    none.dtype = DType::f32;
    none.sizes = {0, 3};
    none.cuts = {{}, {}};
    runtime::allocate(none);
    runtime::write(none, nullptr);
    runtime::read(none, back.data());
    Storage scalar;
    scalar.dtype = DType::f64;
    double pi = 3.5, same = 0;
    runtime::allocate(scalar);
    runtime::write(scalar, &pi);
    runtime::read(scalar, &same);
    CHECK(pi == same);
}

void budget() {
    constexpr int64_t mib = 1 << 20, n = mib / 8;
    begin(2, 16 * mib);
    CHECK_THROWS(runtime::allocate(*empty(17 * n)), Status::out_of_memory,
                 "the budget is 16777216 bytes");
    std::vector<StorageRef> held;
    for (int i = 0; i < 10; ++i) held.push_back(filled(n, i));
    CHECK_THROWS(runtime::allocate(*empty(7 * n)), Status::out_of_memory,
                 "the largest holders: i64 (131072,): 10485760 bytes in 10 tiles");
    CHECK(values(*held[3])[5] == 3);  // nothing was lost

    // 300 runs of 3 MiB of temporaries and 1 MiB of output each, in 6 MiB: paced, never refused.
    Builder b(n);
    uint32_t last = b.input();
    for (int i = 0; i < 6; ++i) {
        const uint32_t next = i == 5 ? b.output() : b.temporary();
        b.task({last}, next, 1);
        last = next;
    }
    auto plan = b.plan();
    for (int i = 0; i < 300; ++i)
        held[0] = launch(*plan, {held[static_cast<size_t>(i % 9 + 1)]}, 1, n)[0];
    CHECK(values(*held[0])[0] == 64 * (299 % 9 + 1) + 63);
    CHECK(runtime::stats().tile_bytes <= 16 * mib);
    // The host writes much faster than tasks read, and never waits for a result.
    Builder slow(n);
    slow.task({slow.input()}, slow.output(), 1, false, 100);
    auto reader = slow.plan();
    for (int i = 0; i < 100; ++i) held[1] = launch(*reader, {filled(n, i)}, 1, n)[0];
    CHECK(values(*held[1])[0] == 2 * 99 + 1);
    CHECK(runtime::stats().tile_bytes <= 16 * mib);
    held.clear();
    runtime::wait();
    CHECK(runtime::stats().pool_bytes == runtime::stats().tile_bytes);
    runtime::allocate(*empty(15 * n));  // the pool makes room for a larger tile
    runtime::trim();
    CHECK(runtime::stats().tiles == 0);

    Builder big(n);  // a plan that can never fit says so and submits nothing
    for (int i = 0; i < 17; ++i) big.task({}, big.output());
    auto never = big.plan();
    CHECK_THROWS(launch(*never, {}, 17, n), Status::out_of_memory, "17825792 bytes in 17 tiles");
    CHECK(runtime::stats().in_flight == 0);
}

// Two threads with 12 MiB each in a budget of 8: updates, tasks that read what others write, reads
// of the host, tiles that are dropped on their way.
void a_disk() {
    constexpr int64_t mib = 1 << 20, n = mib / 8;
    begin(2, 8 * mib, std::filesystem::temp_directory_path());
    Builder b(n);
    const uint32_t x = b.input(), y = b.input(), t = b.temporary(), v = b.output(x);
    b.task({y}, t, 1);        // 2 y + 1
    b.task({t}, v, 0, true);  // x = 3 x + 4 y + 2
    const auto plan = b.plan();
    Builder same(n);
    same.output(same.input());
    const auto nothing = same.plan();  // of no task
    const auto work = [&](uint64_t first) {
        std::vector<StorageRef> held;
        std::vector<uint64_t> expected;
        for (uint64_t k = 0; k < 12; ++k) {
            expected.push_back(first + k);
            held.push_back(filled(n, static_cast<int64_t>(first + k)));
        }
        for (size_t i = 0; i < 240; ++i) {
            const size_t own = i % 12, other = (7 * i + 3) % 12;
            if (own == other) continue;
            held[own] = launch(*plan, {held[own], held[other]}, 1, n)[0];
            expected[own] = 3 * expected[own] + 4 * expected[other] + 2;
            if (i % 31 == 0) CHECK(values(*held[own])[7] == static_cast<int64_t>(expected[own]));
            if (i % 17 == 0) held[other] = launch(*nothing, {held[other]}, 1, n)[0];
            if (i % 43 == 0) (void)launch(*plan, {filled(n, 5), held[own]}, 1, n);
        }
        for (size_t k = 0; k < 12; ++k)
            CHECK(values(*held[k])[n - 1] == static_cast<int64_t>(expected[k]));
    };
    std::thread other(work, 100);
    work(1);
    other.join();
    const runtime::Stats stats = runtime::stats();
    CHECK(stats.evictions > 24 && stats.read_bytes > 12 * mib);
    CHECK(stats.reserved_peak_bytes <= 9 * mib);
    runtime::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
    run_all({{"edges", edges},
             {"size_classes", size_classes},
             {"slots", slots},
             {"in_place", in_place},
             {"blocks_and_many_operands", blocks_and_many_operands},
             {"threads", threads},
             {"small_work_runs_here", small_work_runs_here},
             {"scalars_and_host_calls", scalars_and_host_calls},
             {"errors", errors},
             {"states", states},
             {"copies", copies},
             {"budget", budget},
             {"a_disk", a_disk}},
            argc > 1 ? argv[1] : nullptr);
    return 0;
}
