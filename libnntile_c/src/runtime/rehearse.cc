// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/rehearse.hh"

#include <algorithm>
#include <cmath>
#include <queue>
#include <set>
#include <tuple>

#include "base/error.hh"
#include "runtime/bind.hh"
#include "runtime/compiled_plan.hh"

namespace nntile::runtime {

namespace {

constexpr int64_t unlimited = int64_t{1} << 60;
constexpr int64_t tasks_ahead = 500'000;  // as Engine::pace()

// One transfer after the other; reads go first, but for one write in four.
class ImaginedDisk final : public Backing {
public:
    int64_t reserve(int64_t bytes) override {
        used_ += rounded(bytes);
        return 0;
    }
    void free(int64_t, int64_t bytes) override { used_ -= rounded(bytes); }
    void start(Transfer& t) override { (t.writes ? writes_ : reads_).push(&t); }
    int64_t most_bytes() const override { return unlimited; }
    int64_t used_bytes() const override { return used_; }
    const std::string& folder() const override { return folder_; }

    Transfer* next() {
        const bool write = !writes_.empty() && (reads_.empty() || in_a_row_ == 3);
        std::queue<Transfer*>& from = write ? writes_ : reads_;
        if (from.empty()) return nullptr;
        in_a_row_ = write ? 0 : in_a_row_ + 1;
        Transfer* t = from.front();
        from.pop();
        return t;
    }

private:
    static int64_t rounded(int64_t bytes) {
        return (bytes + Disk::unit - 1) / Disk::unit * Disk::unit;
    }
    std::queue<Transfer*> reads_, writes_;
    int in_a_row_ = 0;
    int64_t used_ = 0;
    const std::string folder_;
};

class Stage final : Stager::Around {
public:
    Stage(const Story& story, const Machine& machine) : story_(story), machine_(machine) {
        pool_.budget = machine.memory_bytes > 0 ? machine.memory_bytes : unlimited;
        pool_.workers = free_ = machine.workers;
        auto disk = machine.memory_bytes > 0 ? std::make_unique<ImaginedDisk>() : nullptr;
        disk_ = disk.get();
        if (disk_) pool_.set_page(memory::fine_page);
        stager_.open(std::move(disk), machine.workers);
    }
    ~Stage() {
        stager_.close();
        for (const auto& [number, tile] : tiles_) tile->owned = false;
        pool_.end_all();
    }

    // stop_at: ends when so many bytes are held for the first time.
    void play(int64_t stop_at = INT64_MAX) {
        stop_at_ = stop_at;
        for (uint64_t tile : story_.before) {
            allocate({tile});
            write({tile});
        }
        for (const Happened& event : story_.events) {
            if (pool_.peak_bytes >= stop_at_) return;
            pace();
            switch (event.kind) {
                case Happened::Kind::launch: launch(event); break;
                case Happened::Kind::allocate: allocate(event.tiles); break;
                case Happened::Kind::write: write(event.tiles); break;
                case Happened::Kind::drop: drop(event.tiles[0]); break;
                case Happened::Kind::step: end_step(); break;
            }
        }
        if (steps_.empty()) end_step();
    }

    struct Step {
        double at = 0;
        Moved moved;
    };
    const std::vector<Step>& steps() const { return steps_; }
    Pool& pool() { return pool_; }
    int64_t swap_peak() const { return stager_.counts.used_peak; }
    std::vector<Holder> holders() const;

private:
    using Positions = std::vector<uint32_t>;  // by task, in the plan's order
    struct Playing {
        std::unique_ptr<Run> run;
        const Happened* event;
        const Positions* positions;
    };
    struct End {
        double at;
        uint64_t number;
        RunTask* task;
        Transfer* transfer;
        bool operator<(const End& other) const {  // for a queue whose top is the largest
            return std::tie(at, number) > std::tie(other.at, other.number);
        }
    };

    // ---- Stager::Around
    void report(Status status, std::string text) override { fail(status, text); }
    void moved(Tile* tile, int error) override {
        Stager::Ready ready;
        stager_.moved(tile, error, ready);
        stager_.advance(ready);
        release(ready);
    }
    bool others_run(int64_t managed) const override {
        return static_cast<int64_t>(runs_.size()) > managed;
    }
    bool abandoned() const override { return false; }
    void notify() override {}

    // ---- the program
    void pace() {
        while (in_flight_ > tasks_ahead || stager_.crowded) advance_time();
    }

    void allocate(const std::vector<uint64_t>& numbers) {
        std::vector<Pool::Need> needs;
        for (uint64_t n : numbers) needs.push_back({story_.origins.at(n).size_class, 1});
        std::vector<Tile*> taken;
        if (!stager_.idle() || !pool_.reserve(needs, true, false, taken))
            for (const Pool::Need& need : needs) taken.push_back(pool_.bare(need.size_class));
        for (size_t k = 0; k < numbers.size(); ++k) own(taken[k], numbers[k]);
    }

    void own(Tile* tile, uint64_t number) {
        pool_.adopt(tile, DType::none, {});
        tiles_[number] = tile;
    }

    void write(const std::vector<uint64_t>& numbers) {
        for (uint64_t n : numbers) {
            Tile* tile = tiles_.at(n);
            while (tile->writer.running() || any_reader(*tile)) advance_time();
            if (!disk_ && tile->ram.block) continue;
            Stager::Ready ready;
            stager_.want(tile, 1);
            while (!stager_.pin(tile, true)) {
                if (stager_.hopeless()) fail_write(*tile, story_.origins.at(n));
                advance_time();
            }
            stager_.want(tile, -1);
            stager_.unpin_host(tile, true);
            stager_.advance(ready);
            release(ready);
        }
    }

    [[noreturn]] void fail_write(const Tile& tile, const Origin& origin) const {
        const std::string line = text_of_place(origin.place);
        fail(Status::out_of_memory, "out of memory: ", origin.op, ": ", tile.block_bytes(),
             " bytes have no place, the budget is ", pool_.budget, " bytes",
             line.empty() ? "" : " [" + line + "]");
    }

    static bool any_reader(const Tile& tile) {
        return std::any_of(tile.readers.begin(), tile.readers.end(),
                           [](const TaskRef& r) { return r.running(); });
    }

    void drop(uint64_t number) {
        const auto at = tiles_.find(number);
        Tile* tile = at->second;
        tiles_.erase(at);
        stager_.disown(tile);
    }

    // As CompiledPlan::launch().
    void launch(const Happened& event) {
        const CompiledPlan& plan = *event.plan;
        check_largest(plan, pool_.budget,
                      text_of_place(plan.place_of(plan.tasks[plan.largest_task], event.places)));
        auto owner = std::make_unique<Run>(plan.task_count());
        Run& run = *owner;
        run.memory.assign(plan.memories.size(), nullptr);
        for (size_t m = 0; m < plan.external; ++m)
            if (const auto known = tiles_.find(event.tiles[m]); known != tiles_.end())
                run.memory[m] = known->second;
        stager_.want_at_once(plan.largest_task_bytes);
        const bool managed = !bind_at_once(pool_, stager_, !runs_.empty(), run, plan);
        if (managed) bind_bare(pool_, run, plan);
        for (uint32_t m : plan.needed_by)
            if (m < plan.external) own(run.memory[m], event.tiles[m]);
        prepare(run, event.plan, launches_, managed);
        run.places = event.places;
        link(run, plan);
        remember(run, plan);
        for (size_t m = plan.external; m < plan.memories.size(); ++m) {
            pool_.count_use(run.memory[m]);
            if (!managed) pool_.give(run.memory[m]);
        }
        stager_.note(run);
        ++launches_;
        in_flight_ += static_cast<int64_t>(plan.task_count());
        run.held = !managed && stager_.has_disk();
        for (size_t m = 0; run.held && m < plan.external; ++m) stager_.hold(run.memory[m]);
        runs_.emplace(&run, Playing{std::move(owner), &event, &positions_of(plan)});
        if (pool_.peak_bytes >= stop_at_) return;
        if (managed) {
            Stager::Ready ready;
            stager_.add(&run);
            stager_.advance(ready);
            release(ready);
        } else {
            for (uint32_t t : plan.roots) release(run.tasks[t]);
        }
        finish_one(run);
    }

    const Positions& positions_of(const CompiledPlan& plan) {
        Positions& positions = positions_[&plan];
        if (positions.empty() && plan.task_count() > 0) {
            positions.resize(plan.task_count());
            for (uint32_t p = 0; p < plan.order.size(); ++p) positions[plan.order[p]] = p;
        }
        return positions;
    }

    void end_step() {
        while (!runs_.empty()) advance_time();
        steps_.push_back({now_, moved()});
    }

    // Until now, and what is done of the transfer under way, which may be as much as a step moves.
    Moved moved() const {
        Moved all{stager_.counts.read_bytes, stager_.counts.written_bytes};
        if (moving_)
            (moving_->writes ? all.written : all.read) +=
                static_cast<int64_t>((now_ - moving_since_) * machine_.swap_bytes_per_second);
        return all;
    }

    // ---- tasks: as the engine, whose tasks StarPU runs
    void release(Stager::Ready& ready) {
        for (RunTask* task : ready) release(*task);
    }

    void release(RunTask& task) {
        if (task.pending.fetch_sub(1, std::memory_order_relaxed) != 1) return;
        const Positions& positions = *runs_.at(task.run).positions;
        ready_.emplace(task.run->number, positions[task.index], &task);
    }

    void completed(RunTask& task) {
        Run& run = *task.run;
        for (Late *late = task.close(), *next; late; late = next) {
            next = late->next;
            release(*late->task);
        }
        for (uint32_t s : run.plan->successors_of(task.index)) release(run.tasks[s]);
        --in_flight_;
        if (run.managed) {
            Stager::Ready ready;
            stager_.finished(task, ready);
            release(ready);
        }
        finish_one(run);
    }

    void finish_one(Run& run) {
        if (run.left.fetch_sub(1, std::memory_order_relaxed) != 1) return;
        const std::shared_ptr<CompiledPlan> plan = run.plan;
        for (size_t m = plan->external; m < run.memory.size(); ++m) pool_.count_end(run.memory[m]);
        if (run.managed) stager_.ended(&run);
        for (size_t m = 0; run.held && m < plan->external; ++m)
            stager_.let_go(run.memory[m], plan->memories[m].first_writer != tile::none);
        run.state->run = nullptr;
        runs_.erase(&run);
        Stager::Ready ready;
        if (!stager_.idle()) stager_.advance(ready);
        release(ready);
    }

    // ---- time
    void advance_time() {
        for (; free_ > 0 && !ready_.empty(); --free_) {
            RunTask* task = std::get<RunTask*>(*ready_.begin());
            ready_.erase(ready_.begin());
            add_end(task->run->plan->seconds[task->index], task, nullptr);
        }
        if (disk_ && !moving_) {
            moving_ = disk_->next();
            moving_since_ = now_;
            if (moving_)
                add_end(static_cast<double>(moving_->bytes) / machine_.swap_bytes_per_second,
                        nullptr, moving_);
        }
        check(!ends_.empty(), Status::internal, "estimate: a task waits for nothing");
        const End end = ends_.top();
        ends_.pop();
        now_ = end.at;
        if (end.task) {
            ++free_;
            completed(*end.task);
        } else {
            moving_ = nullptr;
            end.transfer->done(*end.transfer, 0);
        }
    }

    void add_end(double seconds, RunTask* task, Transfer* transfer) {
        ends_.push({now_ + seconds, ++ends_added_, task, transfer});
    }

    const Story& story_;
    const Machine machine_;
    Pool pool_{true};
    Stager stager_{pool_, *this};
    ImaginedDisk* disk_ = nullptr;
    std::unordered_map<uint64_t, Tile*> tiles_;  // that are owned
    std::unordered_map<Run*, Playing> runs_;
    std::unordered_map<const CompiledPlan*, Positions> positions_;
    std::set<std::tuple<int64_t, uint32_t, RunTask*>> ready_;  // by launch, then in order
    std::priority_queue<End> ends_;
    uint64_t ends_added_ = 0;
    Transfer* moving_ = nullptr;
    double now_ = 0, moving_since_ = 0;
    int free_ = 1;
    int64_t launches_ = 0, in_flight_ = 0, stop_at_ = INT64_MAX;
    std::vector<Step> steps_;
};

std::vector<Holder> Stage::holders() const {
    std::map<std::pair<std::string, Place>, Holder> all;
    const auto add = [&](const Tile* tile, const std::string& op, Place place) {
        Holder& holder = all[{op, place}];
        holder.op = op;
        holder.place = place;
        holder.bytes += tile->block_bytes();
        ++holder.tiles;
    };
    for (const auto& [number, tile] : tiles_) {
        const Origin& origin = story_.origins.at(number);
        add(tile, origin.op, origin.place);
    }
    std::set<const Tile*> seen;  // runs share slots
    for (const auto& [run, playing] : runs_) {
        const CompiledPlan& plan = *playing.event->plan;
        for (size_t m = plan.external; m < plan.memories.size(); ++m) {
            const uint32_t writer = plan.memories[m].first_writer;
            if (writer == tile::none || !seen.insert(run->memory[m]).second) continue;
            const PlanTask& task = plan.tasks[writer];
            add(run->memory[m], task.kind->op, plan.place_of(task, playing.event->places));
        }
    }
    std::vector<Holder> sorted;
    for (auto& [key, holder] : all) sorted.push_back(std::move(holder));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
    return sorted;
}

// The operands of all tasks in the order of the plans, and where steps end.
struct Recorded {
    Trace trace;
    std::vector<size_t> steps;
};

class Reader {
public:
    explicit Reader(const Story& story) : story_(story) {
        for (uint64_t tile : story.before) (void)number_of(tile);
        known_ = trace().bytes.size();
        for (const Happened& event : story.events) {
            if (event.kind == Happened::Kind::launch) launch(event);
            else if (event.kind == Happened::Kind::step) recorded.steps.push_back(trace().tasks());
            else if (event.kind == Happened::Kind::write)
                for (uint64_t tile : event.tiles) {
                    begin_task();
                    use(number_of(tile), true, true);
                }
            else if (event.kind == Happened::Kind::drop)
                trace().drops.push_back({trace().tasks(), number_of(event.tiles[0])});
        }
        if (recorded.steps.empty()) recorded.steps.push_back(trace().tasks());
    }
    Recorded recorded;

private:
    Trace& trace() { return recorded.trace; }

    uint32_t number_of(uint64_t tile) {
        const auto [at, fresh] = numbers_.try_emplace(tile, 0);
        if (fresh) at->second = add(story_.origins.at(tile).size_class);
        return at->second;
    }

    uint32_t add(uint32_t size_class) {
        trace().bytes.push_back(memory::class_bytes(size_class));
        return static_cast<uint32_t>(trace().bytes.size() - 1);
    }

    void begin_task() { trace().first.push_back(trace().uses.size()); }

    void use(uint32_t tile, bool fresh, bool writes) {
        if (used_.size() <= tile) used_.resize(tile + 1, false);
        fresh = fresh || (!used_[tile] && tile >= known_);
        used_[tile] = true;
        trace().uses.push_back({tile, fresh, writes});
    }

    void launch(const Happened& event) {
        const CompiledPlan& plan = *event.plan;
        std::vector<uint32_t> of(plan.memories.size());
        for (size_t m = 0; m < of.size(); ++m)
            of[m] =
                m < plan.external ? number_of(event.tiles[m]) : add(plan.memories[m].size_class);
        for (uint32_t t : plan.order) {
            begin_task();
            for (const Entry& e : plan.entries_of(t))
                use(of[e.memory], e.fresh, e.mode != STARPU_R);
        }
    }

    const Story& story_;
    std::unordered_map<uint64_t, uint32_t> numbers_;
    std::vector<bool> used_;
    uint32_t known_ = 0;
};

}  // namespace

Rehearsed rehearse(const Noted& noted, const Machine& machine) {
    check(machine.workers >= 1 && machine.workers <= most_workers, Status::invalid_argument,
          "estimate: workers must be in [1, ", most_workers, "], got ", machine.workers);
    check(machine.memory_bytes >= 0 && machine.memory_bytes <= unlimited, Status::invalid_argument,
          "estimate: memory of ", machine.memory_bytes, " bytes");
    check(std::isfinite(machine.swap_bytes_per_second) && machine.swap_bytes_per_second > 0,
          Status::invalid_argument, "estimate: a disk of ", machine.swap_bytes_per_second,
          " bytes a second");
    check(noted.tasks > 0, Status::invalid_argument, "estimate: nothing was submitted");
    Rehearsed result;
    size_t step = 0;
    {
        Stage stage(noted.story, machine);
        stage.play();
        step = reported_step(stage.steps().size());
        const Stage::Step last = stage.steps()[step],
                          before = step ? stage.steps()[step - 1] : Stage::Step{};
        result.seconds = last.at - before.at;
        result.moved = {last.moved.read - before.moved.read,
                        last.moved.written - before.moved.written};
        result.peak_bytes = stage.pool().peak_bytes;
        result.reserved_peak_bytes = stage.pool().reserved_peak();
        result.swap_peak_bytes = stage.swap_peak();
    }
    Stage again(noted.story, machine);
    again.play(result.peak_bytes);
    result.holders = again.holders();
    if (machine.memory_bytes > 0) {
        const Recorded recorded = std::move(Reader(noted.story).recorded);
        // What the pool lets small needs have beyond the budget
        const int64_t room = machine.memory_bytes + machine.memory_bytes / 64;
        result.least = least_moved(recorded.trace, step ? recorded.steps[step - 1] : 0,
                                   recorded.steps[step], room);
    }
    return result;
}

}  // namespace nntile::runtime
