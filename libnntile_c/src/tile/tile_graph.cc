// SPDX-License-Identifier: BSD-3-Clause
#include "tile/tile_graph.hh"

#include <algorithm>

namespace nntile::tile {

namespace {

struct Memory {
    uint32_t writer = none;
    std::vector<uint32_t> readers;  // since that write
};

// Collects the predecessors of one task, without repetition.
class Predecessors {
public:
    explicit Predecessors(size_t tasks) : seen_(tasks, none), covered_(tasks, none) {}

    void begin(uint32_t task) {
        task_ = task;
        list_.clear();
    }
    void add(uint32_t earlier) {
        if (earlier == none || earlier == task_ || seen_[earlier] == task_) return;
        seen_[earlier] = task_;
        list_.push_back(earlier);
    }
    // Drops those that are predecessors of another predecessor. Looks at the latest ones first, and
    // only at so many that a graph with very many edges stays linear.
    const std::vector<uint32_t>& reduced(const std::vector<std::vector<uint32_t>>& before) {
        std::sort(list_.begin(), list_.end(), std::greater<>());
        size_t budget = 4096;
        for (uint32_t p : list_) {
            if (before[p].size() > budget) break;
            budget -= before[p].size();
            for (uint32_t far : before[p]) covered_[far] = task_;
        }
        std::erase_if(list_, [&](uint32_t p) { return covered_[p] == task_; });
        return list_;
    }

private:
    uint32_t task_ = none;
    std::vector<uint32_t> seen_, covered_, list_;
};

}  // namespace

std::vector<uint32_t> TileGraph::memories() const {
    std::vector<uint32_t> root(tiles.size(), none);
    for (uint32_t t = 0; t < tiles.size(); ++t) {
        uint32_t r = t;
        while (root[r] == none && tiles[r].reuses != none) r = tiles[r].reuses;
        const uint32_t found = root[r] == none ? r : root[r];
        // A chain may be as long as the program: it is followed once.
        for (uint32_t next = t; root[next] == none; next = tiles[next].reuses) {
            root[next] = found;
            if (next == found) break;
        }
    }
    return root;
}

std::vector<std::pair<uint32_t, uint32_t>> TileGraph::edges() const {
    const std::vector<uint32_t> root = memories();
    std::vector<Memory> memory(tiles.size());
    std::vector<std::vector<uint32_t>> before(tasks.size());
    Predecessors predecessors(tasks.size());
    std::vector<std::pair<uint32_t, uint32_t>> edges;
    for (uint32_t t = 0; t < tasks.size(); ++t) {
        predecessors.begin(t);
        for (const Operand& o : tasks[t].operands) {
            if (o.tile == none) continue;
            const Memory& m = memory[root[o.tile]];
            if (o.access == Access::read || m.readers.empty()) predecessors.add(m.writer);
            if (o.access != Access::read)
                for (uint32_t r : m.readers) predecessors.add(r);
        }
        for (const Operand& o : tasks[t].operands) {
            if (o.tile == none || o.access == Access::read) continue;
            memory[root[o.tile]].writer = t;
            memory[root[o.tile]].readers.clear();
        }
        for (const Operand& o : tasks[t].operands) {
            if (o.tile == none || o.access != Access::read) continue;
            Memory& m = memory[root[o.tile]];
            if (m.writer != t && (m.readers.empty() || m.readers.back() != t))
                m.readers.push_back(t);
        }
        before[t] = predecessors.reduced(before);
        for (uint32_t p : before[t]) edges.emplace_back(p, t);
    }
    return edges;
}

}  // namespace nntile::tile
