// SPDX-License-Identifier: BSD-3-Clause
// A map joins the maps whose results it reads, if they have its iteration space and nothing has to
// wait for it. A group stands where its last node stood: nobody outside may read its results
// earlier, and what it reads must not be overwritten, or kept for long, in between.
#include <algorithm>
#include <map>

#include "graph/passes/fuse.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

// Of the map engine, 4 KiB each: an input may need one, a result one for each compute type.
constexpr size_t most_buffers = 30;

class MapFusion {
public:
    MapFusion(const Graph& graph, const Readers& readers, const Group& group)
        : g_(graph), readers_(readers), group_(group) {}

    bool is_inner(uint32_t v) const {
        return g_.value(v).kind == ValueKind::result &&
               std::binary_search(group_.begin(), group_.end(), g_.value(v).source);
    }
    bool is_stored(uint32_t v) const { return !readers_.is_only_read_by(v, group_); }

    std::vector<uint32_t> inputs() const {
        std::vector<uint32_t> inputs;
        for (uint32_t n : group_)
            for (uint32_t v : g_.nodes[n].inputs)
                if (!is_inner(v) && std::find(inputs.begin(), inputs.end(), v) == inputs.end())
                    inputs.push_back(v);
        return inputs;
    }

    bool fits() const {
        for (uint32_t n : group_)
            if (sizes_of(n) != sizes_of(group_.back())) return false;
        const std::vector<uint32_t> inputs = this->inputs();
        size_t results = 0, stored = 0;
        bool one_type = true, moved = false;
        for (uint32_t n : group_) {
            results += g_.nodes[n].outputs.size();
            one_type &= compute_class(g_, g_.nodes[n]) == compute_class(g_, g_.nodes[group_[0]]);
            for (uint32_t v : g_.nodes[n].outputs) {
                if (!is_stored(v)) continue;
                ++stored;
                moved |= readers_.write_of(v) != no_value;
            }
        }
        if (moved && stored > 1) return false;
        if (inputs.size() + stored > kernels::max_map_blocks || stored == 0) return false;
        if (inputs.size() + results * (one_type ? 1 : 2) > most_buffers) return false;
        if (inputs.size() + results > kernels::max_map_registers) return false;
        const auto views_inside = [&](uint32_t v) {  // of what is not stored yet
            return g_.value(v).kind == ValueKind::view && is_inner(g_.base_of(v));
        };
        return std::none_of(inputs.begin(), inputs.end(), views_inside);
    }

    void fuse(Rewriter& rewriter) const {
        Node fused{&program_row(), DType::none, -1, recorded(), {}, {}, {}};
        auto program = std::make_shared<kernels::Program>();
        std::map<uint32_t, uint8_t> registers;
        uint8_t used = 0;
        for (uint32_t v : inputs()) {
            registers[v] = used++;
            fused.inputs.push_back(v);
        }
        for (const bool stored : {false, true})  // outputs have the last registers
            for (uint32_t n : group_)
                for (uint32_t v : g_.nodes[n].outputs) {
                    if (is_stored(v) != stored) continue;
                    registers[v] = used++;
                    if (stored) fused.outputs.push_back(v);
                }
        for (uint32_t n : group_)
            program->code.push_back(instruction_of(g_, g_.nodes[n], registers, fused.attrs));
        program->n_in = static_cast<uint8_t>(fused.inputs.size());
        program->n_out = static_cast<uint8_t>(fused.outputs.size());
        program->n_registers = used;
        fused.compute = g_.value(fused.outputs[0]).dtype;
        fused.program = std::move(program);
        for (uint32_t n : group_) {
            for (uint32_t v : g_.nodes[n].outputs)
                if (!is_stored(v)) rewriter.move_marks(v, fused.outputs[0]);
            if (n != group_.back()) rewriter.erase(n);
        }
        rewriter.replace(group_.back(), std::move(fused));
    }

private:
    // Of the call with the most work, of equal ones the first: a profile counts the time there.
    uint32_t recorded() const {
        const auto work = [this](uint32_t n) { return flops_of(g_.nodes[n]); };
        return g_.nodes[*std::ranges::max_element(group_, {}, work)].recorded;
    }
    const Dims& sizes_of(uint32_t node) const { return g_.value(g_.nodes[node].outputs[0]).sizes; }

    const Graph& g_;
    const Readers& readers_;
    const Group& group_;
};

}  // namespace

extern const Fusion map_fusion{
    "fuse_maps",
    16,
    Spoilt::by_taking,
    true,
    may_be_instruction,
    may_be_instruction,
    [](Graph& g, Readers& readers, const Group& group) {
        return MapFusion(g, readers, group).fits();
    },
    [](Graph& g, Readers& readers, const Group& group, Rewriter& rewriter) {
        MapFusion(g, readers, group).fuse(rewriter);
    },
};

}  // namespace nntile::graph
