// SPDX-License-Identifier: BSD-3-Clause
// Runs that main memory cannot take as a whole, task by task.
//
// Each plan has a sequence: an order of its tasks that its edges allow. Tasks are staged in this
// order, one run after the other: what a task needs gets memory and is read from the disk, and
// stays there (is pinned) until the task has ended. A staged task runs when those before it in the
// graph have ended, in whatever order the policy likes. All tasks that the first one of those that
// are staged waits for have ended, so something can always run. While the next one waits for the
// disk, some that wait for nothing and whose data is there are staged before their turn, so that
// workers have work: as the first layers of a step while an optimizer's states are read. What
// nobody has staged may leave, and leaves in the order that residency.hh gives.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hh"
#include "runtime/pool.hh"

namespace nntile::runtime {

class Stager {
public:
    // What it needs of the engine, which owns it.
    class Around {
    public:
        virtual void report(Status status, std::string text) = 0;
        virtual void moved(Tile* tile, int error) = 0;  // on a thread of the disk
        virtual bool others_run(int64_t managed) const = 0;
        virtual bool abandoned() const = 0;
        virtual void notify() = 0;  // threads of the program that wait

    protected:
        ~Around() = default;
    };
    Stager(Pool& pool, Around& around) : pool_(pool), around_(around) {}

    // Tasks that wait for one thing less: to be told so without the engine's mutex.
    using Ready = std::vector<RunTask*>;  // see carry_on()

    // All members need the engine's mutex.
    void open(std::unique_ptr<Backing> disk, int workers);
    void close();  // no run is in flight
    bool has_disk() const { return disk_ != nullptr; }
    const Backing* disk() const { return disk_.get(); }
    // What tensors may hold beyond main memory. A part of the disk stays free, of what a task or a
    // thread may want in memory at once: else nothing could leave for it.
    int64_t disk_room() const { return disk_ ? disk_->most_bytes() - spare_ : 0; }
    void want_at_once(int64_t bytes) { spare_ = std::max(spare_, bytes); }

    // A run that is bound as a whole may begin at once: nobody is staged before it, and its tiles
    // are in main memory.
    bool idle() const { return runs_.empty(); }
    static bool ready(const Tile& tile, bool to_write) {
        return tile.ram.current() && !(to_write && tile.ram.writing);
    }
    // By a run that is bound as a whole, until its end; only where there is a disk.
    void hold(Tile* tile);
    void let_go(Tile* tile, bool written);
    // Follows what is used and dropped when, so that it is expected in later steps; where something
    // has to leave a memory.
    void note(Run& run);  // that is launched
    void disown(Tile* tile);

    void add(Run* run);
    void advance(Ready& ready);
    void finished(RunTask& task, Ready& ready);
    void ended(Run* run);                             // all tasks of it
    void moved(Tile* tile, int error, Ready& ready);  // to or from the disk

    // Threads of the program, between want() and the end of it. True: the tile is in main memory,
    // and stays until unpin_host(). False: wait for a change and ask again, unless it is
    // hopeless().
    void want(Tile* tile, int more);
    bool pin(Tile* tile, bool to_write);
    void unpin_host(Tile* tile, bool written);
    // Nothing is on its way that could make room.
    bool hopeless() const;
    bool moving() const { return transfers_ > 0; }
    void settle(Tile* tile);       // if nobody uses it now, it may leave, or has an end
    std::string why_full() const;  // "; the disk ...": what stands in the way, for a message

    struct Counts {
        int64_t evictions = 0, dropped = 0, read_bytes = 0, written_bytes = 0, used_peak = 0;
    } counts;
    std::atomic<bool> crowded{false};  // more waits than should

private:
    bool follows() const;
    enum class Staging { done, later, never };
    Staging stage(RunTask& task);
    void stage_early(Ready& ready);
    void fetch();
    bool fetch(const RunTask& task);
    void is_staged(RunTask& task, Ready& ready);
    bool is_here(const RunTask& task) const;
    bool is_past(const Run& run, uint32_t position) const;
    void take(Tile* tile);
    void unpin(Tile* tile, bool written);
    // Whether there are so many bytes now. If not, what should leave first does, or begins to.
    bool room(int64_t bytes);
    void write_ahead(int64_t bytes);
    static void tell(const Tile& tile, const char* what, int64_t begin);
    bool spill(Tile* tile);  // false: the disk is full
    void load(Tile* tile);
    void forget_disk(Tile* tile);
    static void start_write(void* tile);  // its data is in main memory
    static void on_done(Transfer& transfer, int error);
    bool dead(const Tile& tile, Next& next) const;
    When now() const;  // where staging is
    static bool in_use_unpinned(const Tile& tile);
    void leave(Tile* tile);  // its memory is free
    void recycle(Tile* tile);
    void tell_hosts();
    void fail_task(RunTask& task);

    Pool& pool_;
    Around& around_;
    std::unique_ptr<Backing> disk_;
    Residency residency_;
    Habit habit_;
    std::deque<Run*> runs_;  // not all of their tasks are staged
    int workers_ = 1;
    int64_t spare_ = 0;
    int64_t early_ = 0, early_in_turn_ = 0;  // now, and since a task was staged in its turn
    int64_t managed_ = 0, staged_ = 0, pinned_bytes_ = 0, waiting_bytes_ = 0;
    int64_t transfers_ = 0, writing_bytes_ = 0, loading_bytes_ = 0, hosts_ = 0, host_pins_ = 0;
    uint64_t identities_ = 0;
    When launched_ = 0;  // tasks
    bool full_ = false;  // the disk took no more: until something is freed
    std::string trouble_;
};

}  // namespace nntile::runtime
