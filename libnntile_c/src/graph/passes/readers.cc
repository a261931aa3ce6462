// SPDX-License-Identifier: BSD-3-Clause
#include "graph/passes/readers.hh"

#include <algorithm>

namespace nntile::graph {

namespace {

constexpr uint32_t near = 16;  // nodes; inputs may be kept for so long whatever their size

bool contains(std::span<const uint32_t> nodes, uint32_t node) {
    return std::binary_search(nodes.begin(), nodes.end(), node);
}

}  // namespace

Readers::Readers(const Graph& graph)
    : g_(graph), readers_(graph.values.size()), is_output_(graph.values.size()) {
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
    return !is_output_[base] &&
           std::all_of(readers_[base].begin(), readers_[base].end(),
                       [&](uint32_t reader) { return contains(nodes, reader); });
}

uint32_t Readers::write_of(uint32_t v) const {
    if (g_.value(v).kind != ValueKind::result || is_output_[v] || readers_[v].size() != 1)
        return no_value;
    const Node& reader = g_.nodes[readers_[v][0]];
    if (reader.row->rule != schema::Rule::write || reader.program ||
        g_.base_of(reader.inputs[0]) == v)
        return no_value;
    const Layout layout = g_.layout_of(reader.inputs[1]);  // perhaps reshaped
    const bool all =
        is_dense(layout) && layout.numel() == product(g_.value(v).sizes) && layout.numel() > 0;
    return all ? readers_[v][0] : no_value;
}

bool Readers::dies_at(uint32_t v, uint32_t node) const {
    const Value& value = g_.value(v);
    const bool ours = value.kind == ValueKind::result ||
                      (value.kind == ValueKind::input && g_.inputs[value.source].overwritable);
    return ours && !is_output_[v] && readers_[v].back() == node;
}

bool Readers::spoils(uint32_t node, uint32_t base, Spoilt spoilt) const {
    const Node& n = g_.nodes[node];
    if (n.row->rule == schema::Rule::write && (spoilt == Spoilt::by_taking || n.inputs[0] == base))
        return true;
    return spoilt == Spoilt::by_taking && (n.program || n.row->rule == schema::Rule::map);
}

int64_t Readers::bytes_of(uint32_t v) const {
    return product(g_.value(v).sizes) * size_of(g_.value(v).dtype);
}

bool Readers::may_wait(std::span<const uint32_t> nodes, Spoilt spoilt) const {
    const uint32_t until = nodes.back();
    int64_t kept = 0;  // bytes that are there longer, less those that are made later
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
            if (between && spoils(last, base, spoilt)) return false;
            const bool ends = far && (last == n || between) && !is_output_[base];
            if (!ends || std::find(counted.begin(), counted.end(), base) != counted.end()) continue;
            counted.push_back(base);
            kept += bytes_of(base);
        }
    }
    return kept <= 0;
}

}  // namespace nntile::graph
