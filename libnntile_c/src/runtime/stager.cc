// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/stager.hh"

#include <algorithm>
#include <cstring>

#include "base/error.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/device_residency.hh"
#include "runtime/trace.hh"

namespace nntile::runtime {

namespace {

constexpr int64_t mib = 1 << 20;

// What is read, and what is written, before somebody waits for it. More would keep the disk busier,
// but it has the place of what is used sooner or, written too early, is changed again.
int64_t read_ahead(int64_t budget) { return std::min(budget / 4, 256 * mib); }
int64_t written_ahead(int64_t budget) { return std::min(budget / 16, 64 * mib); }

// How many tasks a worker may have before their turn until one in its turn is staged, which they
// take memory from; and how far they are looked for.
constexpr int64_t early_of_worker = 4;
constexpr int looked_at = 256;
constexpr int64_t most_fetched = 16 * mib;  // at once

}  // namespace

void Stager::open(std::unique_ptr<Backing> disk, int workers) {
    disk_ = std::move(disk);
    workers_ = workers;
    counts = {};
    spare_ = 0;
    full_ = false;
    trouble_.clear();
    habit_.clear();
}

void Stager::close() {
    residency_.clear();
    disk_ = nullptr;
}

// ---- tiles

When Stager::now() const {
    return runs_.empty() ? launched_ : runs_.front()->begin + runs_.front()->staged;
}

// Whether nobody needs what is there; else when it is needed next.
bool Stager::dead(const Tile& tile, Next& next) const {
    next = {now(), true};
    if (tile.wanted) return false;
    for (const auto& [run, memory] : tile.uses) {
        const Sequence& sequence = run->plan->sequence();
        uint32_t& past = run->past[memory];
        const uint32_t end = sequence.first[memory + 1];
        while (past < end && is_past(*run, sequence.uses[past].position)) ++past;
        if (past == end) continue;
        next.at = run->begin + sequence.uses[past].position;
        return sequence.uses[past].fresh;
    }
    next = tile.expected;
    return !tile.owned;
}

bool Stager::is_past(const Run& run, uint32_t position) const {
    return position < run.staged || run.tasks[run.plan->order[position]].early;
}

void Stager::leave(Tile* tile) {
    residency_.leave(*tile);
    pool_.detach(tile);
}

void Stager::forget_disk(Tile* tile) {
    if (!tile->disk.there()) return;
    disk_->free(tile->disk.at, tile->block_bytes());
    tile->disk.at = -1;
    full_ = false;
}

// Whether a run that was bound as a whole may still use it. Where there is a disk such runs pin
// what they use; without one they need not, for a tile that is taken again keeps its references.
bool Stager::in_use_unpinned(const Tile& tile) {
    const auto uses = [](const TaskRef& ref) {
        const RunTask* task = ref.running();
        return task && !task->run->managed;
    };
    return uses(tile.writer) || std::any_of(tile.readers.begin(), tile.readers.end(), uses);
}

void Stager::settle(Tile* tile) {
    if (tile->ram.pins > 0 || tile->ram.writing || tile->ram.loading) return;
    if (!tile->owned && tile->holds == 0) return recycle(tile);
    Next next;
    const bool none = dead(*tile, next);
    if (none) forget_disk(tile);
    if (!tile->ram.block) return;
    if (!none) {
        if (disk_) residency_.enter(*tile, next, now(), tile->disk.there());
    } else if (!in_use_unpinned(*tile)) {
        leave(tile);
    }
}

void Stager::recycle(Tile* tile) {
    residency_.leave(*tile);
    forget_disk(tile);
    tile->expected = {};
    full_ = false;
    pool_.recycle(tile);
}

void Stager::take(Tile* tile) {
    residency_.leave(*tile);
    if (tile->ram.pins++ == 0) pinned_bytes_ += tile->block_bytes();
}

void Stager::hold(Tile* tile) {
    if (!disk_) return;
    ++tile->holds;
    take(tile);
}

void Stager::let_go(Tile* tile, bool written) {
    --tile->holds;
    unpin(tile, written);
}

void Stager::unpin(Tile* tile, bool written) {
    if (written) forget_disk(tile);
    if (--tile->ram.pins > 0) return;
    pinned_bytes_ -= tile->block_bytes();
    settle(tile);
}

bool Stager::follows() const { return disk_ || device_residency::followed(); }

void Stager::note(Run& run) {
    run.followed = follows();
    if (!run.followed) return;
    CompiledPlan& plan = *run.plan;
    const Sequence& sequence = plan.sequence();
    std::vector<Habit::Use> uses;
    uses.reserve(plan.external);
    for (size_t m = 0; m < plan.external; ++m) {
        Tile& tile = *run.memory[m];
        if (tile.identity == 0) tile.identity = ++identities_;
        Next first{0, true};
        if (sequence.first[m] < sequence.first[m + 1]) {
            const Sequence::Use& use = sequence.uses[sequence.first[m]];
            first = {use.position, !use.fresh};
        }
        uses.push_back({tile.identity, first});
    }
    run.begin = launched_;
    habit_.launch(reinterpret_cast<uintptr_t>(&plan), launched_, uses);
    run.expected.resize(plan.external);
    for (size_t m = 0; m < plan.external; ++m)
        run.memory[m]->expected = run.expected[m] = habit_.expected(m);
    launched_ += static_cast<When>(plan.task_count());
}

void Stager::disown(Tile* tile) {
    pool_.disown(tile);
    if (follows() && tile->identity != 0) habit_.dropped(tile->identity, launched_);
    settle(tile);
}

// ---- the disk

// A profiler hears of what moves, and which task a read is for.
void Stager::tell(const Tile& tile, const char* what, int64_t begin) {
    const TraceFunction trace = trace_function.load(std::memory_order_acquire);
    if (!trace) return;
    const std::string op = text_of(what, " ", name_of(tile.dtype), " ", text_of_dims(tile.sizes));
    Place place = 0;
    int64_t run = -1, node = -1;
    if (!tile.waiting.empty()) {
        const RunTask& task = *tile.waiting.front();
        const PlanTask& plan = task.run->plan->tasks[task.index];
        place = task.run->place_of(plan);
        run = task.run->number;
        node = plan.recorded == tile::none ? -1 : static_cast<int64_t>(plan.recorded);
    }
    const auto which = static_cast<int64_t>(reinterpret_cast<uintptr_t>(&tile));
    trace({op.c_str(), -1, 0, begin, trace_clock(), "disk", place, run, node, which,
           tile.block_bytes(), 0});
}

bool Stager::spill(Tile* tile) {
    const int64_t at = disk_->reserve(tile->block_bytes());
    if (at < 0) {
        full_ = true;
        trouble_ = text_of("; the disk holds ", disk_->used_bytes(), " of the ",
                           disk_->most_bytes(), " bytes that it may hold in ", disk_->folder());
        return false;
    }
    counts.used_peak = std::max(counts.used_peak, disk_->used_bytes());
    residency_.leave(*tile);
    tile->disk.at = at;
    tile->ram.writing = true;
    writing_bytes_ += tile->block_bytes();
    ++transfers_;
    tile->disk.by = this;
    tile->disk.began = trace_clock();
    tile->disk.transfer = {at, tile->ram.block, tile->block_bytes(), true, on_done};
    pool_.bring_home(*tile, start_write, tile);
    return true;
}

void Stager::start_write(void* tile) {
    Spilled& spilled = static_cast<Tile*>(tile)->disk;
    spilled.by->disk_->start(spilled.transfer);
}

void Stager::load(Tile* tile) {
    tile->ram.loading = true;
    loading_bytes_ += tile->block_bytes();
    ++transfers_;
    tile->disk.by = this;
    tile->disk.began = trace_clock();
    tile->disk.transfer = {tile->disk.at, tile->ram.block, tile->block_bytes(), false, on_done};
    disk_->start(tile->disk.transfer);
}

void Stager::on_done(Transfer& transfer, int error) {
    const auto* disk = reinterpret_cast<const Spilled*>(&transfer);  // its first member
    disk->by->around_.moved(disk->of, error);
}

void Stager::moved(Tile* tile, int error, Ready& ready) {
    --transfers_;
    Replica& ram = tile->ram;
    const bool written = ram.writing;
    if (!error) tell(*tile, written ? "write" : "read", tile->disk.began);
    if (error) {
        trouble_ = text_of("; ", written ? "writing to" : "reading from", " the disk failed in ",
                           disk_->folder(), ": ", std::strerror(error));
        forget_disk(tile);
        if (written) full_ = true;
    }
    if (written) {
        pool_.give_back(*tile);
        ram.writing = false;
        writing_bytes_ -= tile->block_bytes();
        tile->disk.new_here = true;
        if (!error) counts.written_bytes += tile->block_bytes();
    } else {
        ram.loading = false;
        loading_bytes_ -= tile->block_bytes();
        tile->disk.new_here = false;
        if (error) {
            tile->lost = true;
            around_.report(Status::out_of_memory, "out of memory" + trouble_);
        } else {
            counts.read_bytes += tile->block_bytes();
        }
    }
    settle(tile);
    for (RunTask* task : tile->waiting) ready.push_back(task);
    tile->waiting.clear();
    around_.notify();
}

bool Stager::room(int64_t bytes) {
    while (!pool_.make_room(bytes)) {
        write_ahead(bytes);
        Resident* first = nullptr;
        residency_.each(now(), [&](Resident* r) {
            first = r;
            return full_ && !r->clean;  // what is on the disk already can still leave
        });
        if (!first || !first->clean) return false;
        Tile* tile = static_cast<Tile*>(first);
        ++counts.evictions;
        counts.dropped += !tile->disk.new_here;
        tell(*tile, "evict", trace_clock());
        leave(tile);
        for (const auto& [run, memory] : tile->uses) {  // it may come back early
            const Sequence& sequence = run->plan->sequence();
            if (const uint32_t past = run->past[memory]; past < sequence.first[memory + 1])
                run->fetched = std::min(run->fetched, sequence.uses[past].position);
        }
    }
    return true;
}

// Writes what will leave for so many bytes and soon after, so that nobody waits for it then.
void Stager::write_ahead(int64_t bytes) {
    const int64_t wanted = bytes + written_ahead(pool_.budget);
    int64_t ready = pool_.budget - pool_.bytes + writing_bytes_;
    if (!disk_ || full_) return;
    std::vector<Tile*> dirty;
    residency_.each(now(), [&](Resident* r) {
        if (ready >= wanted) return false;
        ready += r->bytes;
        if (!r->clean) dirty.push_back(static_cast<Tile*>(r));
        return true;
    });
    for (Tile* tile : dirty)
        if (!spill(tile)) return;
}

// ---- tasks

void Stager::add(Run* run) {
    const CompiledPlan& plan = *run->plan;
    const Sequence& sequence = run->plan->sequence();
    run->managed = true;
    run->staged = run->fetched = 0;
    run->unstaged = static_cast<uint32_t>(plan.task_count());
    run->past.assign(sequence.first.begin(), sequence.first.end() - 1);
    for (uint32_t m = 0; m < run->memory.size(); ++m) {
        Tile* tile = run->memory[m];
        ++tile->holds;
        tile->uses.emplace_back(run, m);
        if (tile->uses.size() == 1 && residency_.has(*tile)) settle(tile);  // used sooner now
    }
    ++managed_;
    if (run->unstaged == 0) return;
    waiting_bytes_ += plan.need_bytes;
    runs_.push_back(run);
    crowded = runs_.size() > 1 && waiting_bytes_ > pool_.budget / 2;
}

Stager::Staging Stager::stage(RunTask& task) {
    const Run& run = *task.run;
    const std::span<const Entry> entries = run.plan->entries_of(task.index);
    int64_t need = 0;
    for (const Entry& e : entries) {
        Tile* tile = run.memory[e.memory];
        take(tile);
        if (!tile->ram.block) need += tile->block_bytes();
    }
    bool got = need == 0 || room(need);
    SmallVector<Tile*, 16> fresh;
    for (const Entry& e : entries) {
        Tile* tile = run.memory[e.memory];
        if (!got || tile->ram.block) continue;
        got = pool_.attach(tile, !hopeless());
        if (got) fresh.push_back(tile);
    }
    if (!got) {
        for (Tile* tile : fresh) pool_.detach(tile);
        for (const Entry& e : entries) unpin(run.memory[e.memory], false);
        return hopeless() ? Staging::never : Staging::later;
    }
    for (const Entry& e : entries) {
        Tile* tile = run.memory[e.memory];
        const bool empty = std::find(fresh.begin(), fresh.end(), tile) != fresh.end();
        if (empty && !e.fresh && tile->disk.there()) load(tile);
        if (!tile->ram.loading && !(e.mode != STARPU_R && tile->ram.writing)) continue;
        task.pending.fetch_add(1, std::memory_order_relaxed);
        tile->waiting.push_back(&task);
    }
    return Staging::done;
}

bool Stager::hopeless() const {
    return staged_ == 0 && transfers_ == 0 && host_pins_ == 0 && !around_.others_run(managed_);
}

std::string Stager::why_full() const { return full_ ? trouble_ : ""; }

void Stager::fail_task(RunTask& task) {
    const Run& run = *task.run;
    int64_t bytes = 0;
    for (const Entry& e : run.plan->entries_of(task.index))
        bytes += run.memory[e.memory]->block_bytes();
    task.homeless = true;
    around_.report(Status::out_of_memory,
                   message_of(task, text_of("out of memory: ", bytes,
                                            " bytes of operands and results have no place beside "
                                            "what is in use; the budget is ",
                                            pool_.budget, " bytes", why_full(),
                                            "; the largest holders: ", pool_.holders())
                                        .c_str()));
}

void Stager::advance(Ready& ready) {
    bool room_is_short = false;
    while (!runs_.empty() && hosts_ == 0) {
        Run* run = runs_.front();
        RunTask& task = run->tasks[run->plan->order[run->staged]];
        if (task.early) {
            ++run->staged;
            continue;
        }
        if (staged_ >= workers_ && pinned_bytes_ > read_ahead(pool_.budget)) break;
        task.homeless = around_.abandoned();
        const Staging staging = task.homeless ? Staging::done : stage(task);
        room_is_short = staging == Staging::later;
        if (room_is_short) break;
        if (staging == Staging::never) fail_task(task);
        ++run->staged;
        early_in_turn_ = 0;
        is_staged(task, ready);
    }
    if (hosts_ > 0) return;
    stage_early(ready);
    write_ahead(0);
    if (!room_is_short) fetch();  // else it would take what the next task waits for
}

// What later tasks read comes into memory that is free, while the disk has little to read: so a
// backward pass, which frees more than it needs, brings an optimizer's state. Nothing leaves for
// it.
void Stager::fetch() {
    int left = looked_at;
    for (Run* run : runs_) {
        const auto count = static_cast<uint32_t>(run->plan->task_count());
        for (run->fetched = std::max(run->fetched, run->staged); run->fetched < count;
             ++run->fetched) {
            if (left-- == 0 || !fetch(run->tasks[run->plan->order[run->fetched]])) return;
        }
    }
}

// False: no more now.
bool Stager::fetch(const RunTask& task) {
    for (const Entry& e : task.run->plan->entries_of(task.index)) {
        Tile* tile = task.run->memory[e.memory];
        if (e.fresh || tile->ram.block || !tile->disk.there()) continue;
        const int64_t bytes = tile->block_bytes();
        if (loading_bytes_ > most_fetched || !pool_.make_room(bytes + pool_.budget / 8) ||
            !pool_.attach(tile))
            return false;
        load(tile);
    }
    return true;
}

void Stager::is_staged(RunTask& task, Ready& ready) {
    ++staged_;
    ready.push_back(&task);
    Run* run = task.run;
    if (--run->unstaged > 0) return;
    std::erase(runs_, run);
    waiting_bytes_ -= run->plan->need_bytes;
    const bool was = crowded;
    crowded = runs_.size() > 1 && waiting_bytes_ > pool_.budget / 2;
    if (was && !crowded) around_.notify();
}

// All that such a task waits for has ended, so it runs whatever becomes of those before it.
void Stager::stage_early(Ready& ready) {
    int left = looked_at;
    for (size_t r = 0; r < runs_.size();) {
        Run* run = runs_[r];
        const auto count = static_cast<uint32_t>(run->plan->task_count());
        for (uint32_t at = run->staged; at < count && run->unstaged > 0; ++at) {
            if (early_ >= workers_ || early_in_turn_ >= early_of_worker * workers_ || left-- == 0)
                return;
            RunTask& task = run->tasks[run->plan->order[at]];
            const bool waits = task.pending.load(std::memory_order_acquire) != 1;
            if (task.early || waits || !is_here(task) || stage(task) != Staging::done) continue;
            task.early = true;
            ++early_;
            ++early_in_turn_;
            is_staged(task, ready);
        }
        if (run->unstaged > 0) ++r;  // else the next one has its place
    }
}

bool Stager::is_here(const RunTask& task) const {
    const auto entries = task.run->plan->entries_of(task.index);
    return std::all_of(entries.begin(), entries.end(), [&](const Entry& e) {
        const Tile& tile = *task.run->memory[e.memory];
        return ready(tile, e.mode != STARPU_R) || (e.fresh && !tile.ram.block);
    });
}

void Stager::finished(RunTask& task, Ready& ready) {
    --staged_;
    early_ -= task.early;
    if (!task.homeless)
        for (const Entry& e : task.run->plan->entries_of(task.index))
            unpin(task.run->memory[e.memory], e.mode != STARPU_R);
    tell_hosts();
    advance(ready);
}

void Stager::ended(Run* run) {
    --managed_;
    for (uint32_t m = 0; m < run->memory.size(); ++m) {
        Tile* tile = run->memory[m];
        --tile->holds;
        std::erase(tile->uses, std::pair(run, m));
        settle(tile);
    }
    run->managed = false;
}

// ---- threads of the program

void Stager::want(Tile* tile, int more) {
    hosts_ += more;
    if (tile) tile->wanted += static_cast<uint32_t>(more);
}

bool Stager::pin(Tile* tile, bool to_write) {
    if (!tile->ram.block) {
        take(tile);
        const bool got = room(tile->block_bytes()) && pool_.attach(tile);
        if (got && tile->disk.there()) load(tile);
        unpin(tile, false);
    }
    if (!ready(*tile, to_write)) return false;
    take(tile);
    ++host_pins_;
    return true;
}

void Stager::unpin_host(Tile* tile, bool written) {
    --host_pins_;
    unpin(tile, written);
    tell_hosts();
}

void Stager::tell_hosts() {
    if (hosts_ > 0) around_.notify();
}

}  // namespace nntile::runtime
