// SPDX-License-Identifier: BSD-3-Clause
// From a tile graph to a plan: memories, slots for temporaries, dependencies. The tile graph is not
// kept: a plan is held as long as the program may come back to it, and the tile graph has ten times
// its bytes.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.hh"
#include "runtime/compiled_plan.hh"
#include "runtime/engine.hh"
#include "runtime/environment.hh"
#include "runtime/replicas.hh"
#include "runtime/sentinels.hh"
#include "tile/cost.hh"

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
    std::vector<bool> survives;       // by memory: an input's data, whatever fails
    std::vector<int64_t> bytes;

    explicit Chains(const TileGraph& graph) : memory_of(graph.memories()) {
        std::vector<uint32_t> number(graph.tiles.size(), none);
        for (uint32_t t = 0; t < graph.tiles.size(); ++t) {
            uint32_t& m = number[memory_of[t]];
            if (m == none) {
                m = static_cast<uint32_t>(kind.size());
                kind.push_back(MemoryKind::slot);
                survives.push_back(true);
                bytes.push_back(0);
            }
            memory_of[t] = m;
            bytes[m] = std::max(bytes[m], graph.tiles[t].bytes);
            const TileRole role = graph.tiles[t].role;
            if (role == TileRole::output && !graph.tiles[t].updates) survives[m] = false;
            if (role == TileRole::input) kind[m] = MemoryKind::input;
            else if (role == TileRole::output && kind[m] == MemoryKind::slot)
                kind[m] = MemoryKind::output;
        }
        written.resize(kind.size(), false);
    }
};

Workload workload_of(const TileGraph& graph, const Chains& chains) {
    const tile::CostRef cost = tile::cost();
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
        work.seconds.push_back(static_cast<float>(cost->task(graph.tasks[t])));
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
    int cores;
    int64_t budget;
};

Machine planned_for() {
    Engine& e = engine();
    {
        std::lock_guard lock(e.mutex);
        if (const int64_t budget = imagined_budget(); e.open && budget > 0)
            return {e.pool.workers, budget};
        if (e.open) return {e.pool.workers, e.pool.budget};
    }
    return {std::max(1, cpu_workers()), memory_budget()};
}

// Slots for twice as many workers as there are, so that two row tiles that run at the same time do
// not wait for each other's temporaries; fewer if they would fill the memory. A GPU counts for
// several: a task begins there as soon as it can, beside others. When it is full, it follows the
// order of the schedule, and one for few workers would put off a layer's update until its
// parameters have left.
Schedule schedule_within(const Workload& work) {
    constexpr int of_a_gpu = 4;
    const auto [cores, budget] = planned_for();
    const int workers = cores + of_a_gpu * replicas::devices();
    Schedule schedule = make_schedule(work, 2 * workers);
    for (int w = workers; w >= 1 && schedule.bytes > budget / 2; w /= 2)
        schedule = make_schedule(work, w);
    return schedule;
}

constexpr size_t most_here = 64;  // tasks that a launching thread may run by itself

class PlanBuilder {
public:
    PlanBuilder(const TileGraph& graph, CompiledPlan& plan)
        : graph_(graph), plan_(plan), chains_(graph), written_(graph.tiles.size()) {}

    void build(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) {
        Workload work = workload_of(graph_, chains_);
        const Schedule schedule = schedule_within(work);
        add_memories(work, schedule);
        bind(inputs, outputs);
        add_needs();
        for (const tile::Task& task : graph_.tasks) add_task(task);
        std::vector<Edge> edges;
        edges.reserve(work.edges.size() + schedule.edges.size());
        for (auto [from, to] : work.edges) edges.push_back({from, to, false});
        for (auto [from, to] : schedule.edges) edges.push_back({from, to, true});
        add_edges(edges);
        find_effects();
        for (uint32_t t : schedule.order)
            if (plan_.tasks[t].predecessors == 0) plan_.roots.push_back(t);
        add_order(schedule.order, work.seconds);
        plan_.seconds = std::move(work.seconds);
        find_largest();
        shrink();
    }

private:
    // External memories first, then the slots.
    void add_memories(const Workload& work, const Schedule& schedule) {
        std::vector<uint32_t> final_memory(chains_.kind.size());
        for (size_t m = 0; m < chains_.kind.size(); ++m) {
            if (chains_.kind[m] == MemoryKind::slot) {
                ++plan_.temporaries;
                continue;
            }
            final_memory[m] = static_cast<uint32_t>(plan_.memories.size());
            add_memory(chains_.kind[m], work.size_class[m], work.accesses[m]);
            plan_.memories.back().bytes = chains_.bytes[m];
        }
        plan_.external = plan_.memories.size();
        plan_.slots = schedule.slot_class.size();
        for (size_t s = 0; s < plan_.slots; ++s)
            add_memory(MemoryKind::slot, schedule.slot_class[s], schedule.slot_accesses[s]);
        for (size_t m = 0; m < chains_.kind.size(); ++m)
            if (chains_.kind[m] == MemoryKind::slot && schedule.slot[m] != none)
                final_memory[m] = static_cast<uint32_t>(plan_.external) + schedule.slot[m];
        plan_.slot_bytes = schedule.bytes;
        for (uint32_t m : chains_.memory_of) memory_of_.push_back(final_memory[m]);
        for (size_t m = 0; m < chains_.kind.size(); ++m)
            plan_.memories[final_memory[m]].survives =
                chains_.kind[m] == MemoryKind::input && chains_.survives[m];
    }

    void add_memory(MemoryKind kind, uint32_t size_class, const Accesses& a) {
        std::vector<uint32_t>& readers = plan_.readers;
        Memory m{kind, size_class, a.first_writer, a.last_writer};
        m.heads = static_cast<uint32_t>(readers.size());
        readers.insert(readers.end(), a.heads.begin(), a.heads.end());
        m.tails = static_cast<uint32_t>(readers.size());
        readers.insert(readers.end(), a.tails.begin(), a.tails.end());
        m.end = static_cast<uint32_t>(readers.size());
        plan_.memories.push_back(m);
    }

    // A value may be an input and an output at once, or the same output twice.
    void bind(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) {
        // A stored value that is cut anew has tiles of both roles; an input that is also an output
        // has one set.
        std::map<std::pair<uint32_t, TileRole>, std::vector<uint32_t>> stored;
        for (uint32_t t = 0; t < graph_.tiles.size(); ++t) {
            const tile::Tile& tile = graph_.tiles[t];
            if (tile.role == TileRole::temporary) continue;
            std::vector<uint32_t>& memory = stored[{tile.value, tile.role}];
            if (memory.size() <= tile.index) memory.resize(tile.index + 1, none);
            memory[tile.index] = memory_of_[t];
        }
        std::vector<bool> bound(plan_.external, false);
        for (uint32_t value : inputs) {
            const auto& own = stored[{value, TileRole::input}];
            plan_.inputs.push_back(
                add_binding(value, own.empty() ? stored[{value, TileRole::output}] : own));
            for (uint32_t m : plan_.memory_of(plan_.inputs.back()))
                if (m != none) bound[m] = true;
        }
        for (uint32_t value : outputs) {
            const auto& own = stored[{value, TileRole::output}];
            plan_.outputs.push_back(
                add_binding(value, own.empty() ? stored[{value, TileRole::input}] : own));
            for (uint32_t m : plan_.memory_of(plan_.outputs.back())) {
                check(m != none, Status::internal, "plan: no tile for a part of output %", value);
                bound[m] = bound[m] || plan_.memories[m].kind == MemoryKind::output;
                plan_.updates_inputs |= plan_.memories[m].kind == MemoryKind::input;
            }
        }
        check(std::find(bound.begin(), bound.end(), false) == bound.end(), Status::internal,
              "plan: a stored value is no argument of the plan");
    }

    Binding add_binding(uint32_t value, const std::vector<uint32_t>& memory) {
        const auto first = static_cast<uint32_t>(plan_.bound.size());
        plan_.bound.insert(plan_.bound.end(), memory.begin(), memory.end());
        return {value, first, static_cast<uint32_t>(memory.size())};
    }

    void add_needs() {
        std::vector<uint32_t> of_class(memory::class_count, 0);
        for (uint32_t m = 0; m < plan_.memories.size(); ++m) {
            const Memory& memory = plan_.memories[m];
            if (memory.kind == MemoryKind::input) continue;
            plan_.needs.push_back({memory.size_class, ++of_class[memory.size_class]});
            plan_.needed_by.push_back(m);
            plan_.need_bytes += memory::class_bytes(memory.size_class);
        }
        for (Pool::Need& need : plan_.needs) need.same_class = of_class[need.size_class];
    }

    void add_task(const tile::Task& task) {
        begin_task();
        PlanTask& p = plan_.tasks.back();
        const bool known = task.node < graph_.op_names.size();
        p.kind = plan_.kinds.of(task, known ? graph_.op_names[task.node] : "", plan_.scalars_read);
        p.index_offset = task.index_offset;
        p.host_call = task.host_call;
        p.recorded = known ? recorded(task.node) : none;
        add_entries(task);
        for (size_t s = p.first_scalar; s < plan_.scalars_read.size(); ++s)
            plan_.scalars = std::max<size_t>(plan_.scalars, plan_.scalars_read[s] + 1);
        plan_.host_calls = std::max(plan_.host_calls, static_cast<size_t>(task.host_call + 1));
    }

    void begin_task() {
        PlanTask p;
        p.first_entry = static_cast<uint32_t>(plan_.entries.size());
        p.first_operand = static_cast<uint32_t>(plan_.operands.size());
        p.first_scalar = static_cast<uint32_t>(plan_.scalars_read.size());
        plan_.tasks.push_back(p);
    }

    uint32_t recorded(uint32_t node) {
        const uint32_t index = graph_.recorded.empty() ? node : graph_.recorded[node];
        if (index == none || node >= graph_.places.size()) return none;
        if (index >= plan_.places.size()) plan_.places.resize(index + 1);
        plan_.places[index] = graph_.places[node];
        return index;
    }

    // The handles of a task: a memory that several operands lie in appears once, with all their
    // modes. Only the first write of a tile is W for StarPU: a later one may cover a part of it. So
    // may the first, but before it there is nothing that a worker would need. A tile that takes the
    // memory of another one begins with its bytes, so they count as defined.
    void add_entries(const tile::Task& task) {
        const size_t first = plan_.entries.size();
        for (const Operand& o : task.operands) {
            if (o.tile == none) {
                plan_.operands.push_back({});
                continue;
            }
            const uint32_t m = memory_of_[o.tile];
            const bool reads = static_cast<uint8_t>(o.access) & static_cast<uint8_t>(Access::read);
            const bool defined = chains_.written[chains_.memory_of[o.tile]] ||
                                 plan_.memories[m].kind == MemoryKind::input;
            const bool whole = o.access == Access::write && !written_[o.tile];
            uint8_t mode = STARPU_R;
            if (o.access != Access::read) mode = whole || !defined ? STARPU_W : STARPU_RW;
            const bool fresh = whole && !defined;
            size_t e = first;
            while (e < plan_.entries.size() && plan_.entries[e].memory != m) ++e;
            if (e == plan_.entries.size()) plan_.entries.push_back({m, mode, fresh});
            Entry& entry = plan_.entries[e];
            entry.fresh = entry.fresh && fresh;
            if (entry.mode != mode) entry.mode = STARPU_RW;
            entry.defined |= (reads || mode == STARPU_RW) && defined;
            OperandRef ref;
            ref.entry = e - first;
            ref.offset = static_cast<uint64_t>(o.offset * size_of(o.dtype));
            plan_.operands.push_back(ref);
        }
        check(plan_.entries.size() - first < OperandRef::absent, Status::internal,
              "plan: a task with ", plan_.entries.size() - first, " tiles");
        if (Sentinels::wanted()) plan_.written_bytes.resize(plan_.entries.size(), 0);
        for (size_t k = 0; k < task.operands.size(); ++k) {
            const Operand& o = task.operands[k];
            if (o.tile == none || o.access == Access::read) continue;
            written_[o.tile] = chains_.written[chains_.memory_of[o.tile]] = true;
            if (!Sentinels::wanted()) continue;
            const OperandRef& ref =
                plan_.operands[plan_.operands.size() - task.operands.size() + k];
            int64_t& bytes = plan_.written_bytes[first + ref.entry];
            bytes = std::max(bytes, graph_.tiles[o.tile].bytes);
        }
    }

    struct Edge {
        uint32_t from, to;
        bool by_memory;
        auto operator<=>(const Edge&) const = default;
    };

    void add_edges(std::vector<Edge>& edges) {
        begin_task();  // the end of the last task's lists
        std::sort(edges.begin(), edges.end());
        const auto same = [](const Edge& a, const Edge& b) {
            return a.from == b.from && a.to == b.to;
        };
        edges.erase(std::unique(edges.begin(), edges.end(), same), edges.end());
        size_t next = 0;
        for (uint32_t t = 0; t < plan_.tasks.size(); ++t) {
            plan_.tasks[t].first_successor = static_cast<uint32_t>(next);
            for (; next < edges.size() && edges[next].from == t; ++next) {
                plan_.successors.push_back(edges[next].to);
                plan_.by_memory.push_back(edges[next].by_memory);
                ++plan_.tasks[edges[next].to].predecessors;
            }
        }
    }

    // Edges that do not follow from memory go from lower numbers to higher ones.
    void find_effects() {
        for (size_t t = plan_.task_count(); t-- > 0;) {
            PlanTask& p = plan_.tasks[t];
            if (graph_.tasks[t].effect) p.needed_by = static_cast<uint32_t>(t);
            for (uint32_t e = p.first_successor; e < plan_.tasks[t + 1].first_successor; ++e)
                if (!plan_.by_memory[e])
                    p.needed_by = std::min(p.needed_by, plan_.tasks[plan_.successors[e]].needed_by);
        }
    }

    // Functions of the host may wait for locks that a launching thread holds: those are for
    // workers.
    void add_order(const std::vector<uint32_t>& order, const std::vector<float>& seconds) {
        plan_.order = order;
        plan_.for_workers = plan_.host_calls > 0 || plan_.task_count() > most_here;
        if (plan_.for_workers) return;
        for (float s : seconds) plan_.work_seconds += s;
        plan_.work_seconds -=
            tile::cost()->machine.task_seconds * static_cast<double>(plan_.task_count());
    }

    void find_largest() {
        for (uint32_t t = 0; t < plan_.task_count(); ++t) {
            int64_t bytes = 0;
            for (const Entry& e : plan_.entries_of(t))
                bytes += memory::class_bytes(plan_.memories[e.memory].size_class);
            if (bytes <= plan_.largest_task_bytes) continue;
            plan_.largest_task_bytes = bytes;
            plan_.largest_task = t;
        }
    }

    void shrink() {
        plan_.tasks.shrink_to_fit();
        plan_.entries.shrink_to_fit();
        plan_.operands.shrink_to_fit();
        plan_.scalars_read.shrink_to_fit();
        plan_.successors.shrink_to_fit();
        plan_.by_memory.shrink_to_fit();
        plan_.readers.shrink_to_fit();
        plan_.memories.shrink_to_fit();
    }

    const TileGraph& graph_;
    CompiledPlan& plan_;
    Chains chains_;
    std::vector<bool> written_;        // by tile
    std::vector<uint32_t> memory_of_;  // by tile
};

}  // namespace

bool CompiledPlan::can_run() const { return fits(planned_for().budget); }

std::vector<uint32_t> CompiledPlan::needed_successors_of(uint32_t task) const {
    std::vector<uint32_t> needed;
    for (uint32_t e = tasks[task].first_successor; e < tasks[task + 1].first_successor; ++e)
        if (!by_memory[e]) needed.push_back(successors[e]);
    return needed;
}

std::unique_ptr<const Sequence> make_sequence(const CompiledPlan& plan) {
    auto sequence = std::make_unique<Sequence>();
    std::vector<uint32_t>& first = sequence->first;
    first.assign(plan.memories.size() + 1, 0);
    for (const Entry& e : plan.entries) ++first[e.memory + 1];
    for (size_t m = 0; m < plan.memories.size(); ++m) first[m + 1] += first[m];
    std::vector<uint32_t> next(first.begin(), first.end() - 1);
    sequence->uses.resize(plan.entries.size());
    sequence->position.resize(plan.order.size());
    for (uint32_t position = 0; position < plan.order.size(); ++position) {
        sequence->position[plan.order[position]] = position;
        for (const Entry& e : plan.entries_of(plan.order[position]))
            sequence->uses[next[e.memory]++] = {position, e.fresh};
    }
    return sequence;
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

std::shared_ptr<Plan> make_plan(const tile::TileGraph& tiles, const std::vector<uint32_t>& inputs,
                                const std::vector<uint32_t>& outputs) {
    auto plan = std::make_shared<CompiledPlan>();
    PlanBuilder(tiles, *plan).build(inputs, outputs);
    return plan;
}

}  // namespace nntile::runtime
