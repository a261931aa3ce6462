// SPDX-License-Identifier: BSD-3-Clause
// A plan as the engine needs it: flat arrays, made once by plan.cc, read by every run.
#pragma once

#include <starpu.h>

#include <unordered_map>

#include "base/hash.hh"
#include "base/small_vector.hh"
#include "runtime/pool.hh"
#include "runtime/schedule.hh"

namespace nntile::runtime {

// A task's view of one memory; a memory appears once, whatever number of operands lies in it.
struct Entry {
    uint32_t memory = 0;
    uint8_t mode = STARPU_R;  // R, W or RW
    bool fresh = false;       // what was there before matters to nobody
    bool defined = false;     // the task reads what an earlier task, or an input, has put there
};
using Blocks = SmallVector<std::byte*, 16>;  // where a task's memories lie, by entry
struct OperandRef {
    static constexpr uint64_t absent = 0xffff;
    uint64_t entry : 16 = absent;  // into the task's entries
    uint64_t offset : 48 = 0;      // bytes
};

// What tasks with the same kernel, sizes and strides share: a step has few of them.
struct TaskKind {
    struct Operand {
        DType dtype = DType::none;
        bool number = false;  // the next of the task's scalars
        bool absent = false;
        Dims strides;
    };
    const kernels::KernelRow* kernel = nullptr;  // nullptr: a function of the host
    starpu_codelet* codelet = nullptr;
    std::shared_ptr<const kernels::Program> program;
    std::string op;                // for messages
    int64_t flops = 0, bytes = 0;  // for profilers; no flops are known of functions of the host
    Dims sizes, index_strides;
    std::vector<Operand> operands;
    std::vector<tile::ParamRef> params;  // a scalar: the next of the task's
    // Whether a device can run such tasks, once somebody has asked
    enum : int8_t { unasked, taken, not_taken };
    mutable int8_t on_device = unasked;
};

class TaskKinds {
public:
    // Equal tasks have the same one. `scalars` gets the scalars of this task.
    const TaskKind* of(const tile::Task& task, const std::string& op,
                       std::vector<uint32_t>& scalars);

private:
    std::unordered_map<Hash, std::unique_ptr<const TaskKind>> kinds_;
};

// The last task's successor in the array has only the ends of its lists.
struct PlanTask {
    const TaskKind* kind = nullptr;
    int64_t index_offset = 0;
    uint32_t first_entry = 0, first_operand = 0, first_scalar = 0, first_successor = 0;
    int32_t predecessors = 0;
    int32_t host_call = -1;
    // The first task with an effect, by number, that waits for this one; none: it is in no hurry
    uint32_t needed_by = tile::none;
    // The recorded node, an index into the places of the run, or of the plan
    uint32_t recorded = tile::none;
};

enum class MemoryKind : uint8_t { input, output, slot };
struct Memory {
    MemoryKind kind = MemoryKind::slot;
    uint32_t size_class = 0;
    uint32_t first_writer = tile::none, last_writer = tile::none;
    bool survives = false;      // what is there stays when a task that changes it fails
    int64_t bytes = INT64_MAX;  // that a task may write; of a slot, whatever it has
    // Into CompiledPlan::readers: before and after the writers
    uint32_t heads = 0, tails = 0, end = 0;
};

// Where the tiles of one stored value are: memory by tile index; none: the graph does not use the
// tile.
struct Binding {
    uint32_t value = 0;
    uint32_t first = 0, count = 0;  // into CompiledPlan::bound
};

class CompiledPlan;
// Which task of a plan uses a memory next. Made when the plan is first staged.
struct Sequence {
    struct Use {
        uint32_t position;
        bool fresh;  // what was there before does not matter any more
    };
    std::vector<Use> uses;           // by memory, then by position in the plan's order
    std::vector<uint32_t> first;     // by memory, into `uses`; one more than there are
    std::vector<uint32_t> position;  // by task
};
std::unique_ptr<const Sequence> make_sequence(const CompiledPlan& plan);

class CompiledPlan final : public Plan, public std::enable_shared_from_this<CompiledPlan> {
public:
    void launch(Launch launch) override;
    bool is_small() const override;
    bool run_small(const SmallLaunch& launch) override;
    bool can_run() const override;
    bool fits(int64_t budget) const { return largest_task_bytes <= budget + budget / 64; }
    size_t task_count() const override { return tasks.size() - 1; }
    size_t edge_count() const override { return successors.size(); }
    int64_t temporary_bytes() const override { return slot_bytes; }
    std::string text() const override;
    // of_run: the places that a run brings; empty: it brings none.
    Place place_of(const PlanTask& task, std::span<const Place> of_run) const;

    std::span<const Entry> entries_of(uint32_t task) const {
        return list(entries, tasks[task].first_entry, tasks[task + 1].first_entry);
    }
    std::span<const OperandRef> operands_of(uint32_t task) const {
        return list(operands, tasks[task].first_operand, tasks[task + 1].first_operand);
    }
    std::span<const uint32_t> scalars_of(uint32_t task) const {
        return list(scalars_read, tasks[task].first_scalar, tasks[task + 1].first_scalar);
    }
    std::span<const uint32_t> successors_of(uint32_t task) const {
        return list(successors, tasks[task].first_successor, tasks[task + 1].first_successor);
    }
    // Of these, without those that follow only from temporaries sharing memory.
    std::vector<uint32_t> needed_successors_of(uint32_t task) const;
    std::span<const uint32_t> heads_of(const Memory& m) const {
        return list(readers, m.heads, m.tails);
    }
    std::span<const uint32_t> tails_of(const Memory& m) const {
        return list(readers, m.tails, m.end);
    }
    std::span<const uint32_t> memory_of(const Binding& b) const {
        return list(bound, b.first, b.first + b.count);
    }

    std::vector<PlanTask> tasks;
    std::vector<Memory> memories;
    std::vector<float> seconds;  // by task, by the cost module of when the plan was made
    std::vector<Place> places;   // by recorded node; only for runs that do not bring their own
    std::vector<int64_t> written_bytes;  // by entry, from the memory's start; only for sentinels
    std::vector<uint32_t> roots;         // tasks without predecessors, in the order of the schedule
    std::vector<Binding> inputs, outputs;
    std::vector<Pool::Need> needs;    // tiles that each run takes: outputs, then slots
    std::vector<uint32_t> needed_by;  // their memories
    size_t temporaries = 0, slots = 0, scalars = 0, host_calls = 0;
    int64_t slot_bytes = 0, need_bytes = 0;
    size_t external = 0;          // memories [0, external) are inputs or outputs
    std::vector<uint32_t> order;  // all tasks, as one thread may run them
    bool for_workers = true;      // and nobody else
    // Engine's mutex
    const Sequence& sequence() {
        if (!sequence_) sequence_ = make_sequence(*this);
        return *sequence_;
    }
    int64_t largest_task_bytes = 0;  // tiles that one task needs at once
    uint32_t largest_task = 0;
    double work_seconds = 0;      // of the kernels alone
    bool updates_inputs = false;  // some output lies in the memory of an input

    // Ended runs, used again; engine's mutex
    std::vector<std::unique_ptr<Run>> spare;
    void keep_spare(std::unique_ptr<Run> run) {
        constexpr size_t most = 4;
        if (spare.size() < most) spare.push_back(std::move(run));
    }

    TaskKinds kinds;
    std::vector<Entry> entries;
    std::vector<OperandRef> operands;
    // By entry of `successors`: the edge follows only from temporaries sharing memory
    std::vector<bool> by_memory;
    // Lists of tasks, memories, bindings
    std::vector<uint32_t> scalars_read, successors, readers, bound;

private:
    std::unique_ptr<const Sequence> sequence_;
    template <class T>
    static std::span<const T> list(const std::vector<T>& all, size_t begin, size_t end) {
        return {all.data() + begin, end - begin};
    }
};

void execute_here(const RunTask& task);  // by the calling thread, in main memory
void finish_on_device(RunTask& task);    // what its kernel has found, now that it has ended
// What it writes is lost; if it has begun, that is also what it changes.
void fail_on_device(const RunTask& task, Status status, const char* text, bool begun);
void skip_task(const RunTask& task);  // what it should have written is lost
std::string message_of(const RunTask& task, const char* text);
// Of a function of the host that goes on after it has returned: end_task() ends it.
bool ends_later(const RunTask& task);
bool start_task(RunTask& task);  // false: it has ended already
void finish_task(RunTask& task, Status status, const char* text);
starpu_codelet* codelet_of(const std::string& name);  // lives for ever; traces show its name

}  // namespace nntile::runtime
