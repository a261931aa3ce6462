// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/simulate.hh"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "base/error.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/engine.hh"
#include "runtime/imagine.hh"
#include "tile/cost.hh"

namespace nntile::runtime {

namespace {

using tile::none;

// What the engine remembers in tiles is forgotten when tasks end, so the collector has a memory of
// its own.
class Collector {
public:
    void launch(const CompiledPlan& plan, const std::vector<Tile*>& memory) {
        const uint32_t first = count();
        std::vector<float>& seconds = now_.work.seconds;
        seconds.insert(seconds.end(), plan.seconds.begin(), plan.seconds.end());
        now_.tasks += static_cast<int64_t>(plan.task_count());
        ++now_.launches;
        std::vector<bool> waits(plan.task_count(), false);
        for (uint32_t t = 0; t < plan.task_count(); ++t)
            for (uint32_t s : plan.needed_successors_of(t)) {
                wait(first + t, first + s);
                waits[s] = true;
            }
        for (uint32_t t = 0; t < plan.task_count(); ++t)
            if (!waits[t]) wait(host_, first + t);
        for (uint32_t m : plan.needed_by) uses_.erase(memory[m]);
        for (size_t m = 0; m < plan.external; ++m)
            link(plan, plan.memories[m], uses_[memory[m]], first);
    }

    void wait_of_host(const Tile* tile) {
        const auto known = uses_.find(tile);
        if (known == uses_.end() || known->second.writer == none) return;
        const uint32_t now = host_now();
        wait(known->second.writer, now);
    }

    void wait_of_host_for_all() {
        const uint32_t before = host_ == none ? 0 : host_ + 1, now = host_now();
        for (uint32_t t = before; t < now; ++t) wait(t, now);
    }

    void end_step() {
        now_.work.tasks = count();
        now_.work.touches.resize(count());
        now_.work.steal_seconds = tile::cost()->machine.spread_seconds;
        steps_.push_back(std::exchange(now_, {}));
        uses_.clear();
        host_ = none;
    }

    std::unique_ptr<Noted> end() {
        if (now_.launches > 0 || steps_.empty()) end_step();
        auto noted = std::make_unique<Noted>();
        static_cast<Work&>(*noted) = std::move(steps_[reported_step(steps_.size())]);
        return noted;
    }

private:
    struct Uses {
        uint32_t writer = none;
        std::vector<uint32_t> readers;  // since then
    };

    uint32_t count() const { return static_cast<uint32_t>(now_.work.seconds.size()); }

    void wait(uint32_t earlier, uint32_t later) {
        if (earlier != none && earlier != later) now_.work.edges.emplace_back(earlier, later);
    }

    // As launch.cc links runs and remembers them.
    void link(const CompiledPlan& plan, const Memory& m, Uses& uses, uint32_t first) {
        for (uint32_t head : plan.heads_of(m)) wait(uses.writer, first + head);
        if (m.first_writer == none) {
            for (uint32_t head : plan.heads_of(m)) uses.readers.push_back(first + head);
            return;
        }
        wait(uses.writer, first + m.first_writer);
        for (uint32_t reader : uses.readers) wait(reader, first + m.first_writer);
        uses.writer = first + m.last_writer;
        uses.readers.clear();
        for (uint32_t tail : plan.tails_of(m)) uses.readers.push_back(first + tail);
    }

    // A point in the time of the host; waits that follow each other without a launch share one.
    uint32_t host_now() {
        if (host_ != none && host_ + 1 == count()) return host_;
        const uint32_t now = count();
        now_.work.seconds.push_back(0);
        wait(host_, now);
        return host_ = now;
    }

    Work now_;
    std::vector<Work> steps_;
    std::unordered_map<const Tile*, Uses> uses_;
    uint32_t host_ = none;
};

std::unique_ptr<Collector> collector;  // the engine's mutex

double critical_seconds(const Workload& work) {
    std::vector<uint32_t> begin(work.tasks + 1, 0), to(work.edges.size()), pending(work.tasks, 0),
        ready;
    for (const auto& [from, later] : work.edges) {
        ++begin[from + 1];
        ++pending[later];
    }
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<uint32_t> next(begin.begin(), begin.end() - 1);
    for (const auto& [from, later] : work.edges) to[next[from]++] = later;
    std::vector<double> start(work.tasks, 0);
    for (uint32_t t = 0; t < work.tasks; ++t)
        if (pending[t] == 0) ready.push_back(t);
    double longest = 0;
    while (!ready.empty()) {
        const uint32_t t = ready.back();
        ready.pop_back();
        const double end = start[t] + work.seconds[t];
        longest = std::max(longest, end);
        for (uint32_t e = begin[t]; e < begin[t + 1]; ++e) {
            start[to[e]] = std::max(start[to[e]], end);
            if (--pending[to[e]] == 0) ready.push_back(to[e]);
        }
    }
    return longest;
}

}  // namespace

void begin_estimate() {
    check_not_forked();
    std::lock_guard lock(engine().mutex);
    check(!collector, Status::invalid_state, "estimate: another one has begun and has not ended");
    collector = std::make_unique<Collector>();
    begin_story();
    noting.store(true, std::memory_order_relaxed);
}

void end_step() {
    std::lock_guard lock(engine().mutex);
    check(collector != nullptr, Status::invalid_state, "estimate: none has begun");
    collector->end_step();
    note({Happened::Kind::step});
}

std::unique_ptr<Noted> end_estimate() {
    std::lock_guard lock(engine().mutex);
    check(collector != nullptr, Status::invalid_state, "estimate: none has begun");
    noting.store(false, std::memory_order_relaxed);
    const std::unique_ptr<Collector> ended = std::move(collector);
    std::unique_ptr<Noted> noted = ended->end();
    noted->story = end_story();
    return noted;
}

void note_launch(const CompiledPlan& plan, const std::vector<Tile*>& memory) {
    if (collector) collector->launch(plan, memory);  // it may have ended since `noting` was read
}

void note_wait(const Tile* tile) {
    if (collector) collector->wait_of_host(tile);
}

void note_wait_for_all() {
    if (collector) collector->wait_of_host_for_all();
}

Played play(const Noted& noted, int workers) {
    check(workers >= 1 && workers <= most_workers, Status::invalid_argument,
          "estimate: workers must be in [1, ", most_workers, "], got ", workers);
    check(noted.tasks > 0, Status::invalid_argument, "estimate: nothing was submitted");
    Played played;
    played.seconds = make_schedule(noted.work, workers).seconds;
    for (float seconds : noted.work.seconds) played.work_seconds += seconds;
    played.critical_seconds = critical_seconds(noted.work);
    return played;
}

}  // namespace nntile::runtime
