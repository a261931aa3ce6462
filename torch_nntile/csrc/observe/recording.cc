// SPDX-License-Identifier: BSD-3-Clause
#include "observe/recording.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <mutex>
#include <vector>

#include "contract/device.h"
#include "contract/errors.h"
#include "observe/places.h"

namespace torch_nntile {
namespace {

std::mutex listeners_mutex;
std::array<std::atomic<nntile_trace_function>, 2> listeners{};

void forward(const nntile_trace_task* task) {
    for (const auto& listener : listeners)
        if (nntile_trace_function function = listener.load(std::memory_order_acquire))
            function(task);
}

thread_local Mark mark_now;

void set_mark(Mark mark) {
    mark_now = mark;
    nntile_trace_mark(static_cast<int64_t>(uint64_t{mark.call} << 32 | mark.op));
}

std::atomic<uint32_t> calls{0};  // of the profile

// The same clock as that of tasks.
int64_t now() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Each worker writes into a lane of its own, each thread of the host into one of a few, so nobody
// waits.
struct Lane {
    std::mutex mutex;
    std::deque<nntile_stub_event> events;  // many: to move them as a vector grows takes time
    std::deque<std::string> names;         // those of plans may go away
};
constexpr size_t worker_lanes = 64, lanes = worker_lanes + 16;
std::array<Lane, lanes>& all_lanes() {
    static auto* const all = new std::array<Lane, lanes>;  // workers may outlive static objects
    return *all;
}

std::atomic<int32_t> threads{0};
thread_local const int32_t this_thread = threads++;

Lane& lane_of_this_thread() {
    return all_lanes()[worker_lanes + static_cast<size_t>(this_thread) % (lanes - worker_lanes)];
}

void add(Lane& lane, nntile_stub_event event) {
    std::lock_guard lock(lane.mutex);
    if (!profiling.load(std::memory_order_relaxed)) return;
    if (lane.names.empty() || lane.names.back() != event.name) lane.names.emplace_back(event.name);
    event.name = lane.names.back().c_str();
    lane.events.push_back(event);
}

void collect(const nntile_trace_task* t) {
    nntile_stub_event event{};
    constexpr int32_t beside_the_workers = -3;
    event.row = t->worker >= 0 ? t->worker : beside_the_workers;
    event.name = t->op;
    event.kernel = t->kernel;
    event.place = t->place;
    event.begin_ns = t->begin_ns;
    event.end_ns = t->end_ns;
    event.run = t->run;
    event.node = t->node;
    event.task = t->task;
    event.bytes = t->bytes;
    event.flops = t->flops;
    event.call = Mark::of(*t).call;
    const auto lane = static_cast<size_t>(std::max(t->worker, 0)) % worker_lanes;
    add(all_lanes()[lane], event);
}

nntile_stub_event event_of(const Home& home, bool made) {
    nntile_stub_event event{};
    constexpr int32_t storage = -4;
    event.row = storage;
    event.thread = this_thread;
    event.name = event.kernel = "";
    event.begin_ns = event.end_ns = now();
    event.run = event.node = -1;
    event.task = static_cast<int64_t>(reinterpret_cast<uintptr_t>(home.address));
    event.bytes = made ? static_cast<int64_t>(home.nbytes) : -static_cast<int64_t>(home.nbytes);
    return event;
}

std::vector<nntile_stub_event> taken;  // guarded by Python's order of calls: begin, end, events

}  // namespace

void listen(Listener who, nntile_trace_function function) {
    std::lock_guard lock(listeners_mutex);
    listeners[static_cast<size_t>(who)] = function;
    const bool any = listeners[0].load() || listeners[1].load();
    nntile_trace_set(any ? &forward : nullptr);
}

Mark Mark::of(const nntile_trace_task& task) {
    const auto mark = static_cast<uint64_t>(task.mark);
    return {static_cast<uint32_t>(mark), static_cast<uint32_t>(mark >> 32)};
}

void mark_op(uint32_t op) { set_mark({op, mark_now.call}); }

Recording::Recording(const char* name, int32_t row) : name_(name), row_(row), place_(place_now()) {
    nntile_trace_place(place_);
    if (!profiling.load(std::memory_order_relaxed)) [[likely]]
        return;
    begin_ = now();
    outer_ = mark_now.call;
    if (row == recorded) set_mark({mark_now.op, call_ = ++calls});
}

void Recording::end() {
    if (call_) set_mark({mark_now.op, outer_});
    nntile_stub_event event{};
    event.row = row_;
    event.thread = this_thread;
    event.name = name_;
    event.kernel = "";
    event.place = place_;
    event.begin_ns = begin_;
    event.end_ns = now();
    event.run = event.node = event.task = -1;
    event.call = call_;
    add(lane_of_this_thread(), event);
}

// Inside of a captured function nothing has run that one could wait for.
void Recording::wait_for_it() {
    call(nntile_record_submit, record());
    if (nntile_context_active()) call(nntile_context_wait);
}

void add_storage(const Home& home, bool made) {
    nntile_stub_event event = event_of(home, made);
    if (made) event.place = place_now();
    add(lane_of_this_thread(), event);
}

bool begin_profile() {
    if (profiling.exchange(true)) return false;
    for (Lane& lane : all_lanes()) {
        std::lock_guard lock(lane.mutex);
        lane.events.clear();
        lane.names.clear();
    }
    taken.clear();
    calls = 0;
    address_space().each(
        [&](const Home& home) { add(lane_of_this_thread(), event_of(home, true)); });
    listen(Listener::profile, &collect);
    return true;
}

void end_profile() {
    listen(Listener::profile, nullptr);
    profiling = false;
}

size_t profile_events(const nntile_stub_event** events) {
    if (taken.empty())
        for (Lane& lane : all_lanes()) {
            std::lock_guard lock(lane.mutex);
            taken.insert(taken.end(), lane.events.begin(), lane.events.end());
        }
    *events = taken.data();
    return taken.size();
}

}  // namespace torch_nntile
