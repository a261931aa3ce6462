// SPDX-License-Identifier: BSD-3-Clause
// A map joins the maps whose results it reads, if they have its iteration space and nothing has to
// wait for it. A group stands where its last node stood: nobody outside may read its results
// earlier, and what it reads must not be overwritten, or kept for long, in between.
#include <algorithm>
#include <map>

#include "base/settings.hh"
#include "graph/passes/passes.hh"
#include "graph/passes/readers.hh"
#include "graph/passes/rewrite.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

constexpr size_t most_instructions = 16;
// Of the map engine, 4 KiB each: an input may need one, a result one for each compute type.
constexpr size_t most_buffers = 30;

class MapFusion {
public:
    explicit MapFusion(Graph& graph)
        : g_(graph), readers_(graph), group_(graph.nodes.size(), none) {}

    void run() {
        for (uint32_t n = 0; n < g_.nodes.size(); ++n)
            if (may_be_instruction(g_, g_.nodes[n])) add(n);
        Rewriter rewriter(g_);
        bool any = false;
        for (const Group& group : groups_) {
            if (group.size() < 2) continue;
            fuse(group, rewriter);
            any = true;
        }
        if (any) rewriter.finish();
    }

private:
    using Group = std::vector<uint32_t>;  // nodes, in order
    static constexpr uint32_t none = no_value;

    const Dims& sizes_of(uint32_t node) const { return g_.value(g_.nodes[node].outputs[0]).sizes; }

    void add(uint32_t n) {
        group_[n] = static_cast<uint32_t>(groups_.size());
        groups_.push_back({n});
        // One that may not join yet may once another has: they read the same data.
        for (bool joined = true; joined;) {
            joined = false;
            for (uint32_t member : Group(groups_[group_[n]]))  // a copy: it grows
                for (uint32_t v : g_.nodes[member].inputs)
                    if (g_.value(v).kind == ValueKind::result)
                        joined |= join(g_.value(v).source, n);
        }
    }

    bool join(uint32_t maker, uint32_t n) {
        const uint32_t other = group_[maker], own = group_[n];
        if (other == none || other == own || sizes_of(maker) != sizes_of(n)) return false;
        Group both;
        std::merge(groups_[other].begin(), groups_[other].end(), groups_[own].begin(),
                   groups_[own].end(), std::back_inserter(both));
        if (!may_be_one(both)) return false;
        for (uint32_t member : groups_[other]) group_[member] = own;
        groups_[other].clear();
        groups_[own] = std::move(both);
        return true;
    }

    bool contains(const Group& group, uint32_t node) const {
        return std::binary_search(group.begin(), group.end(), node);
    }
    bool is_inner(const Group& group, uint32_t v) const {
        return g_.value(v).kind == ValueKind::result && contains(group, g_.value(v).source);
    }
    bool is_stored(const Group& group, uint32_t v) const {
        return !readers_.is_only_read_by(v, group);
    }

    std::vector<uint32_t> inputs_of(const Group& group) const {
        std::vector<uint32_t> inputs;
        for (uint32_t n : group)
            for (uint32_t v : g_.nodes[n].inputs)
                if (!is_inner(group, v) &&
                    std::find(inputs.begin(), inputs.end(), v) == inputs.end())
                    inputs.push_back(v);
        return inputs;
    }

    bool may_be_one(const Group& group) const {
        if (group.size() > most_instructions) return false;
        const std::vector<uint32_t> inputs = inputs_of(group);
        size_t results = 0, stored = 0;
        bool one_type = true, moved = false;
        for (uint32_t n : group) {
            results += g_.nodes[n].outputs.size();
            one_type &= compute_class(g_, g_.nodes[n]) == compute_class(g_, g_.nodes[group[0]]);
            for (uint32_t v : g_.nodes[n].outputs) {
                if (!is_stored(group, v)) continue;
                ++stored;
                moved |= readers_.write_of(v) != none;
            }
        }
        if (moved && stored > 1) return false;
        if (inputs.size() + stored > kernels::max_map_blocks || stored == 0) return false;
        if (inputs.size() + results * (one_type ? 1 : 2) > most_buffers) return false;
        if (inputs.size() + results > kernels::max_map_registers) return false;
        const auto views_inside = [&](uint32_t v) {  // of what is not stored yet
            return g_.value(v).kind == ValueKind::view && is_inner(group, g_.base_of(v));
        };
        if (std::any_of(inputs.begin(), inputs.end(), views_inside)) return false;
        return readers_.may_wait(group);
    }

    void fuse(const Group& group, Rewriter& rewriter) {
        Node fused{&program_row(), DType::none, -1, g_.nodes[group.back()].where, {}, {}, {}};
        auto program = std::make_shared<kernels::Program>();
        std::map<uint32_t, uint8_t> registers;
        uint8_t used = 0;
        for (uint32_t v : inputs_of(group)) {
            registers[v] = used++;
            fused.inputs.push_back(v);
        }
        for (const bool stored : {false, true})  // outputs have the last registers
            for (uint32_t n : group)
                for (uint32_t v : g_.nodes[n].outputs) {
                    if (is_stored(group, v) != stored) continue;
                    registers[v] = used++;
                    if (stored) fused.outputs.push_back(v);
                }
        for (uint32_t n : group)
            program->code.push_back(instruction_of(g_, g_.nodes[n], registers, fused.attrs));
        program->n_in = static_cast<uint8_t>(fused.inputs.size());
        program->n_out = static_cast<uint8_t>(fused.outputs.size());
        program->n_registers = used;
        fused.compute = g_.value(fused.outputs[0]).dtype;
        fused.program = std::move(program);
        for (uint32_t n : group) {
            for (uint32_t v : g_.nodes[n].outputs)
                if (!is_stored(group, v)) rewriter.move_marks(v, fused.outputs[0]);
            if (n != group.back()) rewriter.erase(n);
        }
        rewriter.replace(group.back(), std::move(fused));
    }

    Graph& g_;
    const Readers readers_;
    std::vector<uint32_t> group_;  // by node; none: no map
    std::vector<Group> groups_;
};

}  // namespace

void fuse_maps(Graph& graph) {
    if (settings().fuse && graph.nodes.size() > 1) MapFusion(graph).run();
}

}  // namespace nntile::graph
