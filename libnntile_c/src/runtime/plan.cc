// SPDX-License-Identifier: BSD-3-Clause
// From a tile graph to a plan: memories, slots for temporaries, dependencies.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/engine.hh"
#include "runtime/environment.hh"

namespace nntile::runtime {

namespace {

using tile::Access;
using tile::none;
using tile::Operand;
using tile::TileGraph;
using tile::TileRole;

// Memory of each first tile of a chain: numbered in the order of the tiles.
struct Chains {
    std::vector<uint32_t> memory_of;  // by tile
    std::vector<bool> written;        // by memory: a task before has put something there
    std::vector<MemoryKind> kind;     // by memory
    std::vector<int64_t> bytes;

    explicit Chains(const TileGraph& graph) : memory_of(graph.memories()) {
        std::vector<uint32_t> number(graph.tiles.size(), none);
        for (uint32_t t = 0; t < graph.tiles.size(); ++t) {
            uint32_t& m = number[memory_of[t]];
            if (m == none) {
                m = static_cast<uint32_t>(kind.size());
                kind.push_back(MemoryKind::slot);
                bytes.push_back(0);
            }
            memory_of[t] = m;
            bytes[m] = std::max(bytes[m], graph.tiles[t].bytes);
            const TileRole role = graph.tiles[t].role;
            if (role == TileRole::input) kind[m] = MemoryKind::input;
            else if (role == TileRole::output && kind[m] == MemoryKind::slot)
                kind[m] = MemoryKind::output;
        }
        written.resize(kind.size(), false);
    }
};

// A guess; only the order of the simulated events depends on it.
double seconds_of(const tile::Task& task) { return 2e-6 + task.flops / 30e9 + task.bytes / 10e9; }

Workload workload_of(const TileGraph& graph, const Chains& chains) {
    Workload work;
    work.tasks = graph.tasks.size();
    work.edges = graph.edges();
    work.accesses.resize(chains.kind.size());
    work.touches.resize(work.tasks);
    for (size_t m = 0; m < chains.kind.size(); ++m) {
        work.temporary.push_back(chains.kind[m] == MemoryKind::slot);
        work.size_class.push_back(memory::class_of(chains.bytes[m]));
    }
    std::vector<uint32_t> seen(chains.kind.size(), none);
    std::vector<uint8_t> access(chains.kind.size(), 0);
    for (uint32_t t = 0; t < work.tasks; ++t) {
        work.seconds.push_back(seconds_of(graph.tasks[t]));
        for (const Operand& o : graph.tasks[t].operands) {
            if (o.tile == none) continue;
            const uint32_t m = chains.memory_of[o.tile];
            if (seen[m] != t) {
                seen[m] = t;
                access[m] = 0;
                work.touches[t].push_back(m);
            }
            access[m] |= static_cast<uint8_t>(o.access);
        }
        for (uint32_t m : work.touches[t]) {
            Accesses& a = work.accesses[m];
            ++a.count;
            if (access[m] & static_cast<uint8_t>(Access::write)) {
                if (a.first_writer == none) a.first_writer = t;
                a.last_writer = t;
                a.tails.clear();
            } else {
                (a.first_writer == none ? a.heads : a.tails).push_back(t);
            }
        }
    }
    return work;
}

struct Machine {
    int workers;
    int64_t budget;
};

Machine planned_for() {
    Engine& e = engine();
    {
        std::lock_guard lock(e.mutex);
        if (e.open) return {e.pool.workers, e.pool.budget};
    }
    return {std::max(1, cpu_workers()), memory_budget()};
}

// Slots for twice as many workers as there are, so that two row tiles that run at the same time do
// not wait for each other's temporaries; fewer if they would fill the memory.
Schedule schedule_within(const Workload& work) {
    const auto [workers, budget] = planned_for();
    Schedule schedule = make_schedule(work, 2 * workers);
    for (int w = workers; w >= 1 && schedule.bytes > budget / 2; w /= 2)
        schedule = make_schedule(work, w);
    return schedule;
}

// The handles of a task: a memory that several operands lie in appears once, with all their modes.
// Only the first write of a tile is W for StarPU: a later one may cover a part of it. A tile that takes the
// memory of another one begins with its bytes, so they count as defined.
std::vector<Entry> entries_of(const tile::Task& task, Chains& chains,
                              const std::vector<Memory>& memories,
                              const std::vector<uint32_t>& memory_of, std::vector<bool>& written,
                              std::vector<OperandRef>& operands) {
    std::vector<Entry> list;
    std::vector<uint32_t> tiles_written;
    for (const Operand& o : task.operands) {
        if (o.tile == none) {
            operands.push_back({});
            continue;
        }
        const uint32_t m = memory_of[o.tile];
        const bool reads = static_cast<uint8_t>(o.access) & static_cast<uint8_t>(Access::read);
        auto at =
            std::find_if(list.begin(), list.end(), [&](const Entry& e) { return e.memory == m; });
        starpu_data_access_mode mode = STARPU_R;
        if (o.access != Access::read) {
            mode = o.access == Access::write && !written[o.tile] ? STARPU_W : STARPU_RW;
            tiles_written.push_back(o.tile);
        }
        if (at == list.end()) at = list.insert(at, {m, mode});
        else if (at->mode != mode) at->mode = STARPU_RW;
        at->defined |= (reads || mode == STARPU_RW) &&
                       (chains.written[chains.memory_of[o.tile]] || memories[m].kind == MemoryKind::input);
        operands.push_back({static_cast<uint32_t>(at - list.begin()), o.offset * size_of(o.dtype)});
    }
    for (uint32_t t : tiles_written) written[t] = chains.written[chains.memory_of[t]] = true;
    return list;
}

}  // namespace

// A value may be an input and an output at once, or the same output twice.
void CompiledPlan::bind(const std::vector<uint32_t>& memory_of) {
    // A stored value that is cut anew has tiles of both roles; an input that is also an output has
    // one set.
    std::map<std::pair<uint32_t, TileRole>, std::vector<uint32_t>> stored;
    for (uint32_t t = 0; t < graph.tiles.size(); ++t) {
        const tile::Tile& tile = graph.tiles[t];
        if (tile.role == TileRole::temporary) continue;
        std::vector<uint32_t>& memory = stored[{tile.value, tile.role}];
        if (memory.size() <= tile.index) memory.resize(tile.index + 1, none);
        memory[tile.index] = memory_of[t];
    }
    std::vector<bool> bound(external, false);
    for (auto* bindings : {&inputs, &outputs})
        for (Binding& b : *bindings) {
            const TileRole role = bindings == &inputs ? TileRole::input : TileRole::output;
            const TileRole other = bindings == &inputs ? TileRole::output : TileRole::input;
            b.memory =
                stored.count({b.value, role}) ? stored[{b.value, role}] : stored[{b.value, other}];
            for (uint32_t m : b.memory) {
                if (m == none) continue;
                bound[m] =
                    bound[m] || bindings == &inputs || memories[m].kind == MemoryKind::output;
                updates_inputs |= bindings == &outputs && memories[m].kind == MemoryKind::input;
            }
            check(bindings == &inputs ||
                      std::find(b.memory.begin(), b.memory.end(), none) == b.memory.end(),
                  Status::internal, "plan: no tile for a part of output %", b.value);
        }
    for (size_t m = 0; m < external; ++m)
        check(bound[m], Status::internal, "plan: a stored value is no argument of the plan");
}

CompiledPlan::CompiledPlan(tile::TileGraph tiles, std::vector<uint32_t> input_values,
                           std::vector<uint32_t> output_values)
    : graph(std::move(tiles)) {
    Chains chains(graph);
    Workload work = workload_of(graph, chains);
    Schedule schedule = schedule_within(work);

    // External memories first, then the slots.
    std::vector<uint32_t> final_memory(chains.kind.size());
    for (size_t m = 0; m < chains.kind.size(); ++m) {
        if (chains.kind[m] == MemoryKind::slot) {
            ++temporaries;
            continue;
        }
        final_memory[m] = static_cast<uint32_t>(memories.size());
        memories.push_back({chains.kind[m], work.size_class[m], std::move(work.accesses[m])});
    }
    external = memories.size();
    slots = schedule.slot_class.size();
    for (size_t s = 0; s < slots; ++s)
        memories.push_back(
            {MemoryKind::slot, schedule.slot_class[s], std::move(schedule.slot_accesses[s])});
    for (size_t m = 0; m < chains.kind.size(); ++m)
        if (chains.kind[m] == MemoryKind::slot && schedule.slot[m] != none)
            final_memory[m] = static_cast<uint32_t>(external) + schedule.slot[m];
    slot_bytes = schedule.bytes;
    std::vector<uint32_t> memory_of(graph.tiles.size());
    for (size_t t = 0; t < memory_of.size(); ++t) memory_of[t] = final_memory[chains.memory_of[t]];

    for (uint32_t value : input_values) inputs.push_back({value, {}});
    for (uint32_t value : output_values) outputs.push_back({value, {}});
    bind(memory_of);
    std::vector<uint32_t> of_class(memory::class_count, 0);
    for (uint32_t m = 0; m < memories.size(); ++m) {
        if (memories[m].kind == MemoryKind::input) continue;
        needs.push_back({memories[m].size_class, ++of_class[memories[m].size_class]});
        needed_by.push_back(m);
        need_bytes += memory::class_bytes(memories[m].size_class);
    }
    for (Pool::Need& need : needs) need.same_class = of_class[need.size_class];

    // Flat arrays; the spans are set when they no longer grow.
    std::vector<std::pair<uint32_t, uint32_t>> edges = std::move(work.edges);
    edges.insert(edges.end(), schedule.edges.begin(), schedule.edges.end());
    std::sort(edges.begin(), edges.end());
    edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
    tasks.resize(graph.tasks.size());
    std::vector<size_t> first_entry{0}, first_operand{0}, first_successor(tasks.size() + 1, 0);
    std::vector<bool> written(graph.tiles.size(), false);
    for (size_t t = 0; t < tasks.size(); ++t) {
        const tile::Task& task = graph.tasks[t];
        for (const Entry& e : entries_of(task, chains, memories, memory_of, written, operand_refs))
            entries.push_back(e);
        first_entry.push_back(entries.size());
        first_operand.push_back(operand_refs.size());
        tasks[t].task = &task;
        const bool named = task.node < graph.op_names.size();
        tasks[t].codelet = codelet_of(task.kernel ? task.kernel->name
                                      : named     ? "host " + graph.op_names[task.node]
                                                  : std::string("host"));
        for (const tile::ParamRef& p : task.params)
            if (p.scalar) scalars = std::max<size_t>(scalars, p.slot + 1);
        host_calls = std::max(host_calls, static_cast<size_t>(task.host_call + 1));
    }
    for (auto [from, to] : edges) {
        successors.push_back(to);
        ++first_successor[from + 1];
        ++tasks[to].predecessors;
    }
    for (size_t t = 0; t < tasks.size(); ++t) {
        first_successor[t + 1] += first_successor[t];
        tasks[t].entries =
            std::span(entries).subspan(first_entry[t], first_entry[t + 1] - first_entry[t]);
        tasks[t].operands = std::span(operand_refs)
                                .subspan(first_operand[t], first_operand[t + 1] - first_operand[t]);
        tasks[t].successors =
            std::span(successors)
                .subspan(first_successor[t], first_successor[t + 1] - first_successor[t]);
    }
    for (uint32_t t : schedule.order)
        if (tasks[t].predecessors == 0) roots.push_back(t);
}

std::string CompiledPlan::text() const {
    std::string out = text_of("plan { ", task_count(), " tasks, ", edge_count(), " edges, ",
                              temporaries, " temporaries");
    if (slots > 0) out += text_of(" in ", slots, " slots of ", slot_bytes, " bytes");
    out += ", external:";
    std::set<uint32_t> values;
    for (const Binding& b : inputs) values.insert(b.value);
    for (const Binding& b : outputs) values.insert(b.value);
    for (uint32_t v : values) out += text_of(" %", v);
    return out + " }";
}

std::shared_ptr<Plan> make_plan(tile::TileGraph tiles, std::vector<uint32_t> inputs,
                                std::vector<uint32_t> outputs) {
    return std::make_shared<CompiledPlan>(std::move(tiles), std::move(inputs), std::move(outputs));
}

}  // namespace nntile::runtime
