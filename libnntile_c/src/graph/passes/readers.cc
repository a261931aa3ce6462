// SPDX-License-Identifier: BSD-3-Clause
#include "graph/passes/readers.hh"

#include <algorithm>

namespace nntile::graph {

namespace {

constexpr uint32_t near = 16;           // nodes; inputs may be kept for so long whatever their size

bool contains(std::span<const uint32_t> nodes, uint32_t node) {
    return std::binary_search(nodes.begin(), nodes.end(), node);
}

// A result may lie in the memory of an operand.
bool may_take(const Node& node) {
    return node.program || node.row->rule == schema::Rule::map || node.row->rule == schema::Rule::write;
}

}  // namespace

Readers::Readers(const Graph& graph) : g_(graph), readers_(graph.values.size()), is_output_(graph.values.size()) {
    for (uint32_t n = 0; n < g_.nodes.size(); ++n)
        for (uint32_t v : g_.nodes[n].inputs)
            if (v != no_value) {
                auto& own = readers_[g_.base_of(v)];
                if (own.empty() || own.back() != n) own.push_back(n);
            }
    for (const Output& o : g_.outputs) is_output_[g_.base_of(o.value)] = true;
}

void Readers::rename(uint32_t from, uint32_t to) {
    readers_.resize(std::max<size_t>(readers_.size(), to + 1));
    is_output_.resize(readers_.size());
    readers_[to] = std::move(readers_[from]);
    is_output_[to] = is_output_[from];
}

bool Readers::is_only_read_by(uint32_t base, std::span<const uint32_t> nodes) const {
    return !is_output_[base] && std::all_of(readers_[base].begin(), readers_[base].end(),
                                            [&](uint32_t reader) { return contains(nodes, reader); });
}

bool Readers::is_only_moved(uint32_t v) const {
    if (is_output_[v] || readers_[v].size() != 1) return false;
    const Node& reader = g_.nodes[readers_[v][0]];
    return reader.row->rule == schema::Rule::write && g_.base_of(reader.inputs[0]) != v;
}

int64_t Readers::bytes_of(uint32_t v) const { return product(g_.value(v).sizes) * size_of(g_.value(v).dtype); }

bool Readers::may_wait(std::span<const uint32_t> nodes) const {
    const uint32_t until = nodes.back();
    int64_t kept = 0;                       // bytes that are there longer, less those that are made later
    std::vector<uint32_t> counted;
    for (uint32_t n : nodes) {
        const bool far = until - n > near;
        for (uint32_t v : g_.nodes[n].outputs) {
            for (uint32_t reader : readers_[v])
                if (reader < until && !contains(nodes, reader)) return false;
            if (far) kept -= bytes_of(v);
        }
        for (uint32_t v : g_.nodes[n].inputs) {
            if (v == no_value) continue;
            const uint32_t base = g_.base_of(v);
            const Value& value = g_.value(base);
            const bool inner = value.kind == ValueKind::result && contains(nodes, value.source);
            if (value.kind == ValueKind::scalar || inner) continue;
            const uint32_t last = readers_[base].back();
            const bool between = last > n && last < until && !contains(nodes, last);
            if (between && may_take(g_.nodes[last])) return false;
            const bool ends = far && (last == n || between) && !is_output_[base];
            if (!ends || std::find(counted.begin(), counted.end(), base) != counted.end()) continue;
            counted.push_back(base);
            kept += bytes_of(base);
        }
    }
    return kept <= 0;
}

}  // namespace nntile::graph
