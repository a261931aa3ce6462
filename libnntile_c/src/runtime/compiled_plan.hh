// SPDX-License-Identifier: BSD-3-Clause
// A plan as the engine needs it: flat arrays, made once by plan.cc, read by every run.
#pragma once

#include <starpu.h>

#include "runtime/pool.hh"
#include "runtime/schedule.hh"

namespace nntile::runtime {

// A task's view of one memory; a memory appears once, whatever number of operands lies in it.
struct Entry {
    uint32_t memory = 0;
    starpu_data_access_mode mode = STARPU_R;
    bool defined = false;  // the task reads what an earlier task, or an input, has put there
};
struct OperandRef {
    uint32_t entry = tile::none;  // into the task's entries; none: operand absent
    int64_t offset = 0;           // bytes
};
struct PlanTask {
    const tile::Task* task = nullptr;
    starpu_codelet* codelet = nullptr;
    std::span<const Entry> entries;
    std::span<const OperandRef> operands;
    std::span<const uint32_t> successors;
    int32_t predecessors = 0;
};

enum class MemoryKind : uint8_t { input, output, slot };
struct Memory {
    MemoryKind kind = MemoryKind::slot;
    uint32_t size_class = 0;
    Accesses accesses;
};

// Where the tiles of one stored value are: memory by tile index; none: the graph does not use the
// tile.
struct Binding {
    uint32_t value = 0;
    std::vector<uint32_t> memory;
};

class CompiledPlan final : public Plan, public std::enable_shared_from_this<CompiledPlan> {
public:
    CompiledPlan(tile::TileGraph graph, std::vector<uint32_t> inputs,
                 std::vector<uint32_t> outputs);

    void launch(Launch launch) override;
    size_t task_count() const override { return graph.tasks.size(); }
    size_t edge_count() const override { return successors.size(); }
    int64_t temporary_bytes() const override { return slot_bytes; }
    std::string text() const override;

    tile::TileGraph graph;
    std::vector<PlanTask> tasks;
    std::vector<Memory> memories;
    std::vector<uint32_t> roots;  // tasks without predecessors, in the order of the schedule
    std::vector<Binding> inputs, outputs;
    std::vector<Pool::Need> needs;    // tiles that each run takes: outputs, then slots
    std::vector<uint32_t> needed_by;  // their memories
    size_t temporaries = 0, slots = 0, scalars = 0, host_calls = 0;
    int64_t slot_bytes = 0, need_bytes = 0;
    size_t external = 0;          // memories [0, external) are inputs or outputs
    bool updates_inputs = false;  // some output lies in the memory of an input

    std::vector<std::unique_ptr<Run>> spare;  // ended runs, used again; engine's mutex

private:
    void bind(const std::vector<uint32_t>& memory_of);
    std::vector<uint32_t> successors;
    std::vector<Entry> entries;
    std::vector<OperandRef> operand_refs;
};

starpu_codelet* codelet_of(const std::string& name);  // lives for ever; traces show its name

}  // namespace nntile::runtime
