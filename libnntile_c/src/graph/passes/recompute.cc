// SPDX-License-Identifier: BSD-3-Clause
// Rematerialisation. An activation that is read in the forward pass and again in the backward pass
// is in memory, or goes to the disk and comes back, in between. Where an element-wise program made
// it from values that are kept until then anyway (gelu(h) beside h, which its derivative needs), it
// is made again there. As the program is the same, so are the bits.
#include <algorithm>
#include <map>
#include <optional>

#include "graph/passes/passes.hh"
#include "graph/passes/readers.hh"
#include "graph/passes/rewrite.hh"
#include "graph/program.hh"

namespace nntile::graph {

namespace {

// What of a program makes one of its outputs.
Code part_of(const Code& all, uint8_t output) {
    const kernels::Program& whole = *all.program;
    std::vector<bool> needed(whole.n_registers, false);
    needed[output] = true;
    std::vector<const kernels::Instruction*> kept;
    for (auto code = whole.code.rbegin(); code != whole.code.rend(); ++code) {
        if (std::none_of(code->out.begin(), code->out.end(), [&](uint8_t r) { return needed[r]; }))
            continue;
        for (uint8_t r : code->in) needed[r] = true;
        for (uint8_t r : code->out) needed[r] = true;
        kept.push_back(&*code);
    }
    Code made;
    kernels::Program program;
    std::vector<uint8_t> number(whole.n_registers, 0);
    for (uint8_t r = 0; r < whole.n_registers; ++r) {
        if (!needed[r] || r == output) continue;
        if (r < whole.n_in) made.inputs.push_back(all.inputs[r]);
        number[r] = program.n_registers++;
    }
    program.n_in = static_cast<uint8_t>(made.inputs.size());
    program.n_out = 1;
    number[output] = program.n_registers++;  // outputs have the last registers
    for (auto old = kept.rbegin(); old != kept.rend(); ++old) {
        kernels::Instruction code = **old;
        for (uint8_t& r : code.in) r = number[r];
        for (uint8_t& r : code.out) r = number[r];
        const auto params = all.attrs.begin() + code.first_param;
        code.first_param = static_cast<uint16_t>(made.attrs.size());
        const auto count = static_cast<std::ptrdiff_t>(param_count(row_of(code)));
        made.attrs.insert(made.attrs.end(), params, params + count);
        program.code.push_back(std::move(code));
    }
    made.program = std::make_shared<const kernels::Program>(std::move(program));
    return made;
}

class Recompute {
public:
    Recompute(Graph& graph, int64_t memory)
        : g_(graph), readers_(graph), memory_(memory), end_(graph.values.size(), 0) {
        std::vector<int64_t> change(g_.nodes.size() + 2, 0);
        for (uint32_t v = 0; v < g_.values.size(); ++v) {
            const Value& value = g_.value(v);
            if (value.kind == ValueKind::scalar || value.kind == ValueKind::view) continue;
            end_[v] = end_of(v);
            const bool made = value.kind == ValueKind::result;
            change[made ? value.source : 0] += bytes_of(v);
            change[end_[v] + 1] -= bytes_of(v);
        }
        for (const Output& out : g_.outputs) {  // it lies where its input was
            if (out.input == no_value) continue;
            change[g_.value(g_.base_of(out.value)).source] -= bytes_of(g_.base_of(out.value));
            change[g_.nodes.size() + 1] += bytes_of(g_.base_of(out.value));
        }
        for (size_t n = 0; n <= g_.nodes.size(); ++n)
            live_.push_back(change[n] + (n ? live_.back() : 0));
    }

    std::vector<uint32_t> run() {
        if (*std::max_element(live_.begin(), live_.end()) <= memory_) return {};
        Rewriter rewriter(g_);
        const auto count = static_cast<uint32_t>(g_.nodes.size());
        bool any = false;
        for (uint32_t n = 0; n < count; ++n)
            for (size_t k = 0; k < g_.nodes[n].outputs.size(); ++k) any |= split(n, k, rewriter);
        return any ? rewriter.finish() : std::vector<uint32_t>();
    }

private:
    int64_t bytes_of(uint32_t v) const {
        return product(g_.value(v).sizes) * size_of(g_.value(v).dtype);
    }
    // The last node that needs it.
    uint32_t end_of(uint32_t v) const {
        const Value& value = g_.value(v);
        const bool stays = value.kind == ValueKind::input && !g_.inputs[value.source].overwritable;
        if (stays || readers_.is_output(v)) return static_cast<uint32_t>(g_.nodes.size());
        if (!readers_.of(v).empty()) return readers_.of(v).back();
        return value.kind == ValueKind::result ? value.source : 0;
    }

    // How an output of a node is made from its operands, and from what is stored beside it.
    std::optional<Code> code_for(const Node& node, size_t output) const {
        const Parts parts = parts_of(node);
        Code all;
        size_t first = 0;
        if (parts.after) {
            first = parts.own.outputs.size();
            if (output < first) return {};
            all = {node.program,
                   {parts.after.inputs.begin(), parts.after.inputs.end()},
                   {parts.after.attrs.begin(), parts.after.attrs.end()}};
            all.inputs.push_back(node.outputs[0]);
        } else if (node.row == &program_row() || may_be_instruction(g_, node)) {
            all = code_of(g_, node);
        } else {
            return {};
        }
        const kernels::Program& program = *all.program;
        return part_of(all,
                       static_cast<uint8_t>(program.n_registers - program.n_out + output - first));
    }

    // Where it is read after a pause in which memory is short; no_value: nowhere.
    uint32_t pause_of(uint32_t v) const {
        const std::vector<uint32_t>& nodes = readers_.of(v);
        uint32_t longest = 0, place = no_value;
        for (size_t k = 1; k < nodes.size(); ++k) {
            const uint32_t from = nodes[k - 1] + 1, until = nodes[k];
            if (until - from <= longest) continue;
            if (*std::max_element(live_.begin() + from, live_.begin() + until) <= memory_) continue;
            longest = until - from;
            place = until;
        }
        return place;
    }

    uint32_t like(uint32_t v, uint32_t base) {
        return g_.value(v).kind == ValueKind::view ? g_.add_view(base, g_.layout_of(v)) : base;
    }

    // What the value `v` is at a node, if it is kept until then; no_value: it is not.
    uint32_t kept_until(uint32_t v, uint32_t node) {
        if (g_.value(v).kind == ValueKind::scalar) return v;
        const uint32_t base = g_.base_of(v);
        const auto again = again_.find(base);
        if (again != again_.end() && again->second.place <= node)
            return like(v, again->second.value);
        return end_[base] >= node ? v : no_value;
    }

    bool split(uint32_t n, size_t k, Rewriter& rewriter) {
        const uint32_t v = g_.nodes[n].outputs[k];
        const uint32_t place = readers_.is_output(v) ? no_value : pause_of(v);
        if (place == no_value) return false;
        std::optional<Code> code = code_for(g_.nodes[n], k);
        if (!code) return false;
        for (uint32_t& in : code->inputs)
            if ((in = kept_until(in, place)) == no_value) return false;
        const auto made = static_cast<uint32_t>(g_.values.size());
        g_.values.push_back({g_.value(v).dtype, ValueKind::result, 0, n, g_.value(v).sizes});
        Node node{&program_row(), g_.value(v).dtype, -1, g_.nodes[n].recorded, {}, {}, {}};
        node.outputs.push_back(made);
        append_program(node, std::move(*code));
        rewriter.insert(place, std::move(node));
        uint32_t last = n;
        for (uint32_t reader : readers_.of(v)) {
            if (reader < place) last = reader;
            for (uint32_t& in : g_.nodes[reader].inputs)
                if (reader >= place && in != no_value && g_.base_of(in) == v) in = like(in, made);
        }
        for (uint32_t at = last + 1; at < place; ++at) live_[at] -= bytes_of(v);
        end_[v] = last;
        again_[v] = {place, made};
        return true;
    }

    struct Again {
        uint32_t place, value;
    };
    Graph& g_;
    const Readers readers_;
    const int64_t memory_;
    std::vector<uint32_t> end_;        // by base value: the last node that needs it
    std::vector<int64_t> live_;        // bytes, by node
    std::map<uint32_t, Again> again_;  // by base value
};

}  // namespace

std::vector<uint32_t> recompute(Graph& graph, int64_t memory) {
    return graph.nodes.size() > 2 ? Recompute(graph, memory).run() : std::vector<uint32_t>();
}

}  // namespace nntile::graph
