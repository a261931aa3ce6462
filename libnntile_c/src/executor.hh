// SPDX-License-Identifier: BSD-3-Clause
// Runs the recorder's graphs: finds or makes their plans and launches them.
#pragma once

#include <atomic>
#include <deque>
#include <list>
#include <optional>
#include <unordered_map>

#include "pipeline.hh"
#include "record/recorder.hh"

namespace nntile {

class PlanExecutor final : public record::Executor {
public:
    void start() override { runtime::ensure_started(); }
    // Else windows of an estimate would end by the time that recording takes.
    bool idle() override { return !imagines() && runtime::idle(); }
    bool imagines() override { return runtime::imagining(); }
    bool runs_here() override { return !imagines() && runtime::gpus() == 0; }
    int64_t most_waiting_bytes() override;
    void compile(const graph::Graph& graph, const graph::AxisCuts& cuts) override {
        find(graph, graph.hash(), cuts);
    }
    Result run(const graph::Graph& graph, const Hash& hash, std::vector<record::HostCall>& calls,
               const graph::AxisCuts& cuts, bool& lowered, bool awaited) override;
    std::shared_ptr<record::SmallPlan> small(const graph::Graph& graph,
                                             const graph::AxisCuts& cuts) override;
    graph::StoredRef write(DType dtype, std::span<const int64_t> sizes, const void* host) override;
    void read(const graph::Stored& stored, void* host) override;
    bool read_view(const graph::Stored& stored, DType dtype, const Layout& view,
                   void* host) override;
    std::string axes(const graph::Graph& graph, const graph::AxisCuts& cuts) override;
    std::string save_cuts(const graph::AxisCuts& cuts) override;
    graph::AxisCuts load_cuts(std::string_view text,
                              const std::map<std::string, std::set<int64_t>>& extents) override;
    std::string text(std::string_view stage) override;
    void reset() override;

    // Counters, since the recorder was made.
    std::atomic<int64_t> graphs{0}, lowerings{0}, plan_hits{0}, plans{0}, tasks{0}, copies{0},
        host_calls{0};

private:
    // What a launch needs of a Compiled; equal graphs share it.
    struct Entry {
        Hash key;
        std::shared_ptr<runtime::Plan> plan;
        std::vector<uint32_t> inputs;  // index into graph.inputs, by position in the plan
        std::vector<Compiled::Kept> outputs;
        // Of the inputs' dims, as this graph found them; empty: of none
        std::vector<std::vector<std::string>> names;
        size_t copies, host_calls;
        Hash hash;  // of the graph alone
        size_t nodes;
        std::vector<tile::SavedCut> automatic;
        uint64_t found = 0;  // when; greater is later
        bool again = false;
    };
    using Entries = std::list<Entry>;  // least recently used last
    struct Shelf {
        Entries entries;
        size_t tasks = 0;
    };
    class Small;
    void put_first(Shelf& to, Shelf& from, Entries::iterator entry);
    void drop_last(Shelf& shelf);
    void bound();
    Entry& find(const graph::Graph& graph, const Hash& hash, const graph::AxisCuts& cuts);
    void drop_plans();
    const tile::SavedGraph* saved_for(const Hash& hash) const;

    uint64_t budget_of_ = 0;  // generation of the context
    int64_t budget_ = 0;
    Shelf once_, again_;  // plans that ran once; and that came again
    std::unordered_map<Hash, Entries::iterator> by_key_;
    uint64_t finds_ = 0;
    std::unordered_map<Hash, tile::SavedGraph> saved_;  // that were loaded
    // What texts of the last lowering are made from: tiling and lowering are pure, so they can be
    // repeated.
    struct Last {
        graph::Graph graph;  // as recorded, without the data of its inputs
        graph::AxisCuts cuts;
        std::shared_ptr<runtime::Plan> plan;
        Hash hash;
    };
    std::optional<Last> last_;
    // The latest lowerings, with the reason of each.
    struct Lowering {
        graph::Graph graph;  // without data
        Hash hash;
        graph::AxisCuts cuts;
        uint64_t cost;       // version of the cost module
        int64_t task_bytes;  // most_task_bytes()
        std::string why;
    };
    std::string reason_for(const graph::Graph& graph, const Hash& hash,
                           const graph::AxisCuts& cuts) const;
    void log_lowering(const graph::Graph& graph, const Hash& hash, const graph::AxisCuts& cuts);
    std::deque<Lowering> lowerings_log_;
    size_t logged_nodes_ = 0;
};

}  // namespace nntile
