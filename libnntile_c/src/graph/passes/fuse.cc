// SPDX-License-Identifier: BSD-3-Clause
#include "graph/passes/fuse.hh"

#include <algorithm>

#include "base/settings.hh"

namespace nntile::graph {

namespace {

class Matcher {
public:
    Matcher(Graph& graph, const Fusion& fusion)
        : g_(graph), fusion_(fusion), readers_(graph), group_(graph.nodes.size(), no_value) {}

    void run() {
        for (uint32_t n = 0; n < g_.nodes.size(); ++n)
            if (fusion_.reads(g_, g_.nodes[n])) add(n);
        Rewriter rewriter(g_);
        bool any = false;
        for (const Group& group : groups_) {
            if (group.size() < 2) continue;
            fusion_.fuse(g_, readers_, group, rewriter);
            any = true;
        }
        if (any) rewriter.finish();
    }

private:
    void add(uint32_t n) {
        group_[n] = static_cast<uint32_t>(groups_.size());
        groups_.push_back({n});
        // One that may not join yet may once another has: they read the same data.
        for (bool joined = true; joined;) {
            joined = false;
            for (uint32_t maker : makers_of(groups_[group_[n]])) joined |= join(maker, n);
        }
    }

    // Of pairs the last made first: it waits least.
    std::vector<uint32_t> makers_of(const Group& group) const {
        std::vector<uint32_t> makers;
        for (uint32_t n : group)
            for (uint32_t v : g_.nodes[n].inputs) {
                if (v == no_value || g_.value(g_.base_of(v)).kind != ValueKind::result) continue;
                const uint32_t maker = g_.value(g_.base_of(v)).source;
                if (fusion_.makes(g_, g_.nodes[maker])) makers.push_back(maker);
            }
        if (fusion_.most == 2) std::sort(makers.begin(), makers.end(), std::greater<>());
        return makers;
    }

    bool join(uint32_t maker, uint32_t n) {
        const uint32_t other = group_[maker], own = group_[n];
        if (other == own) return false;
        const Group with = other == no_value ? Group{maker} : groups_[other];
        Group both;
        std::merge(with.begin(), with.end(), groups_[own].begin(), groups_[own].end(),
                   std::back_inserter(both));
        if (both.size() > fusion_.most || !fusion_.fits(g_, readers_, both) ||
            !readers_.may_wait(both, fusion_.spoilt))
            return false;
        for (uint32_t member : with) group_[member] = own;
        if (other != no_value) groups_[other].clear();
        groups_[own] = std::move(both);
        return true;
    }

    Graph& g_;
    const Fusion& fusion_;
    Readers readers_;
    std::vector<uint32_t> group_;  // by node; no_value: it is in none
    std::vector<Group> groups_;
};

}  // namespace

void remove_dead(Graph& graph);
extern const Fusion map_fusion, write_fusion, epilogue_fusion;

const std::vector<Pass>& passes() {
    static const std::vector<Pass> all = [] {
        std::vector<Pass> list{{"remove_dead", remove_dead}, {"own_outputs", own_outputs}};
        for (const Fusion& fusion : {map_fusion, write_fusion, epilogue_fusion})
            list.push_back({fusion.name, [fusion](Graph& graph) {
                                if (graph.nodes.size() > 1 &&
                                    (settings().fuse || !fusion.saves_time))
                                    Matcher(graph, fusion).run();
                            }});
        return list;
    }();
    return all;
}

}  // namespace nntile::graph
