// SPDX-License-Identifier: BSD-3-Clause
// What the floors above see of the runtime; no StarPU type appears here.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hh"
#include "base/host_function.hh"
#include "graph/stored.hh"
#include "tile/tile_graph.hh"

namespace nntile::runtime {

// ---- context (context.cc): at most one per process, any number of times
struct Config {
    int ncpu = -1;                         // -1: STARPU_NCPU, else the process's cores
    int ncuda = -1;                        // -1: STARPU_NCUDA, else 0
    int64_t memory_bytes = 0;              // 0: NNTILE_MEMORY, else 90 % of physical memory
    std::optional<std::string> swap = {};  // a folder, "": no disk; none: NNTILE_SWAP
    int64_t swap_bytes = 0;                // 0: NNTILE_SWAP_SIZE, else what is free there
    double spin_seconds = -1;              // < 0: 100e-6
    bool verbose = false;
};
struct Stats {
    int64_t tasks = 0, launches = 0, in_flight = 0, tiles = 0, tile_bytes = 0, pool_bytes = 0,
            peak_bytes = 0;
    int ncpu = 0, ncuda = 0;
    int64_t device_tasks = 0;  // of the tasks, those that ran on GPUs
    int64_t reserved_peak_bytes = 0;
    int64_t budget_bytes = 0;  // without a context: what start({}) would take now
    int64_t swap_bytes = 0;    // limit on the disk; 0: there is no disk
    int64_t swap_used_bytes = 0, swap_used_peak_bytes = 0;
    int64_t read_bytes = 0, written_bytes = 0;  // from and to the disk
    int64_t evictions = 0, dropped = 0;         // tiles that left memory; of these, without a write
    int64_t tensor_bytes = 0;                   // held by tensors, in memory or on the disk
    int64_t run_bytes = 0;                      // held by runs in flight
    int64_t idle_bytes = 0;                     // kept for reuse
    int64_t machine_bytes = 0;                  // memory_of_machine(); without a context too
};
void start(const Config& config);  // invalid_state if running or forked
void ensure_started();             // start({}) if there is no context; invalid_state after a fork
void shutdown();  // waits, stops; stored tiles become unusable; no-op if not running
bool active();
bool idle();  // a context, and no task in flight
int gpus();
bool forked();
void check_not_forked();  // throws invalid_state in a forked child
void pace();              // waits while the program is far ahead of its work
void wait();              // all submitted tasks; throws and forgets the first task error
void abandon();      // until the next start, tasks that have not begun are skipped, their data lost
void reset_peaks();  // to what is in use now
void trim();         // gives free tiles of the pool back to the system
void restrict_to(std::string_view where);
void set_gpu_math(uint32_t math);  // kernels::GpuMath of what is launched from now on
Stats stats();
std::string describe();  // "key: value" lines
// Tensors without data (imagine.cc): what is recorded from now on runs nowhere. memory_bytes: plans
// are made for such a budget; 0: for that of the context.
void imagine(bool on, int64_t memory_bytes);
bool imagining();
int64_t imagined_budget();  // 0: none is given, or tensors have data
uint64_t generation();      // counts starts: a Storage of an older one is dead

// ---- stored values (storage.cc)
class Tile;  // one StarPU handle of some bytes; reference counted; pooled when dropped
using TileRef = std::shared_ptr<Tile>;

class Storage final : public graph::Stored {
public:
    // Row-major over the grid of the refined shape (all factors of all cuts)
    std::vector<TileRef> tiles;
    uint64_t generation = 0;
    int64_t bytes() const override;
    std::shared_ptr<graph::Stored> as(DType dtype, std::span<const int64_t> sizes) const override;
};

// Fresh tiles for `like` (its dtype, sizes, cuts, names). out_of_memory if they do not fit the
// budget.
void allocate(Storage& storage);
// Dense row-major host bytes of storage.sizes -> tiles. Tiles must be fresh. Returns when the bytes
// are taken.
void write(Storage& storage, const void* host);
// Waits for the tasks that write these tiles, copies to dense row-major host bytes; throws the
// first task error.
void read(const Storage& storage, void* host);
// A view of the dense value, in its order, straight from the tiles: no task, no memory. False, and
// nothing is done, where tasks would be faster or the tiles hold another dtype.
bool read_view(const Storage& storage, DType dtype, const Layout& view, void* host);

// ---- plans (plan.cc)
// Ends the task of a HostFunction::start. Status::ok: its results are there.
void end_task(void* task, Status status, const char* text);
struct Launch {
    std::span<const std::shared_ptr<Storage>> inputs;  // by position in Plan's list of inputs
    // Shape, cuts and names are set; launch() fills in the tiles
    std::span<const std::shared_ptr<Storage>> outputs;
    std::span<const kernels::Param> scalars;   // copied
    std::vector<HostFunction> host_functions;  // moved from; kept until the run has ended
    std::span<const Place> places = {};        // of the nodes as they were recorded; copied
    std::span<const Mark> marks = {};          // likewise; 0 of those that it lacks
    bool awaited = false;                      // the caller waits for the results next
};

// Of a small plan: nothing outlives it but what it gives.
struct SmallLaunch {
    std::span<Storage* const> inputs, outputs;
    std::span<const kernels::Param> scalars;
    Place place = 0;    // of all
    size_t places = 0;  // nodes, as they were recorded
};

class Plan {
public:
    virtual ~Plan() = default;
    // Submits all tasks and waits for nothing: what has no room in memory is staged task by task.
    // Throws out_of_memory (nothing submitted) if this plan can never fit.
    virtual void launch(Launch launch) = 0;
    // To hand its tasks to workers would take as long as to run them.
    virtual bool is_small() const = 0;
    // Runs a small one in the calling thread, and returns when it has ended. False, and nothing has
    // happened: tasks in flight use its tiles, they are not in main memory, or an estimate takes
    // notes.
    virtual bool run_small(const SmallLaunch& launch) = 0;
    virtual bool can_run() const = 0;  // the budget has room for each task by itself
    virtual size_t task_count() const = 0;
    virtual size_t edge_count() const = 0;
    virtual int64_t temporary_bytes() const = 0;  // after sharing by liveness
    virtual std::string text() const = 0;         // "plan { 2 tasks, 0 edges, ... }"
};

// inputs, outputs: graph value ids whose tiles have role input / output in `tiles`; launch() binds
// them by position.
std::shared_ptr<Plan> make_plan(const tile::TileGraph& tiles, const std::vector<uint32_t>& inputs,
                                const std::vector<uint32_t>& outputs);

}  // namespace nntile::runtime
