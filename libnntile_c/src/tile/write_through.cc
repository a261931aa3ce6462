// SPDX-License-Identifier: BSD-3-Clause
// Writes without a copy: an element-wise op whose result only goes into a part of other data computes it there.
// y[:, 1:3].mul_(2) changes y in place, the gradients of a split are made where they are put together.
#include "tile/layouts.hh"
#include "tile/lowering.hh"

namespace nntile::tile {

using graph::no_value;

std::vector<uint32_t> Lowering::order() const {
    std::vector<uint32_t> order, readers(graph_.values.size(), 0), last_use(graph_.values.size(), none);
    for (const graph::Output& o : graph_.outputs) ++readers[graph_.base_of(o.value)];
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n)
        for (uint32_t v : graph_.nodes[n].inputs)
            if (live_.nodes[n] && v != no_value) {
                ++readers[graph_.base_of(v)];
                last_use[graph_.base_of(v)] = n;
            }
    std::vector<bool> waits(graph_.nodes.size());                   // by node: it comes with its write
    std::vector<uint32_t> first(graph_.nodes.size(), none);         // by write: the node before it
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
        const graph::Node& node = graph_.nodes[n];
        if (!live_.nodes[n] || !is_element_wise(node)) continue;
        const uint32_t data = node.outputs[0], write = last_use[data];
        if (write == none || readers[data] != 1 || !writes_part(write, data) || !may_wait(n, write, last_use)) continue;
        waits[n] = true;
        first[write] = n;
    }
    for (uint32_t n = 0; n < graph_.nodes.size(); ++n) {
        if (!live_.nodes[n] || waits[n]) continue;
        if (first[n] != none) order.push_back(first[n]);
        order.push_back(n);
    }
    return order;
}

bool Lowering::writes_part(uint32_t write, uint32_t data) const {
    const graph::Node& node = graph_.nodes[write];
    if (node.row->rule != schema::Rule::write || node.inputs[0] == data) return false;
    if (graph_.base_of(node.inputs[1]) != data) return false;
    const Layout layout = graph_.layout_of(node.inputs[1]);     // all of it, perhaps reshaped
    return is_dense(layout) && layout.numel() == product(graph_.value(data).sizes);
}

bool Lowering::may_wait(uint32_t number, uint32_t write, std::span<const uint32_t> last_use) const {
    constexpr uint32_t near = 16;       // nodes
    const graph::Node& node = graph_.nodes[number];
    for (uint32_t v : node.inputs) {    // whoever writes into what it reads would have to copy that first
        if (v == no_value) continue;
        const uint32_t last = last_use[graph_.base_of(v)];
        const graph::Node& user = graph_.nodes[last];
        const bool writes = user.row->rule == schema::Rule::write && user.inputs[0] == graph_.base_of(v);
        if (last > number && last < write && writes) return false;
    }
    if (write - number <= near) return true;
    auto bytes = [&](uint32_t v) { return product(graph_.value(v).sizes) * size_of(graph_.value(v).dtype); };
    int64_t kept = 0;
    for (uint32_t v : node.inputs)
        if (v != no_value && last_use[graph_.base_of(v)] == number) kept += bytes(graph_.base_of(v));
    return kept <= bytes(node.outputs[0]);
}

std::optional<OperandTiles> Lowering::write_through(uint32_t number, const Cuts& cuts) {
    const graph::Node& node = graph_.nodes[number];
    if (at_ + 1 == order_.size() || !is_element_wise(node)) return std::nullopt;
    const uint32_t next = order_[at_ + 1], data = node.outputs[0];
    if (!writes_part(next, data) || is_output_[data] || last_use_[data] != next) return std::nullopt;
    const graph::Node& write = graph_.nodes[next];
    const uint32_t base = write.inputs[0], v = write.outputs[0];
    if (!dies_at(base, next)) return std::nullopt;
    if (graph_.value(data).dtype != graph_.value(v).dtype) return std::nullopt;
    if (product(graph_.value(data).sizes) == 0) return std::nullopt;
    const auto part = viewed(graph::target_of(graph_, write), graph_.value(data).sizes);
    if (!part || !is_injective(*part)) return std::nullopt;
    const Layout& layout = *part;
    for (uint32_t in : node.inputs) {   // it may read what it writes, element by element, or other elements
        if (in == no_value || graph_.base_of(in) != base) continue;
        const Layout read = normal_layout(graph_.layout_of(in));
        if (read != normal_layout(layout) && !never_meet(read, layout)) return std::nullopt;
    }
    const OperandTiles& old = operand(base, tiling_.values[v].cuts);
    if (!old.own) return std::nullopt;
    const Grid grid = grid_of(layout.sizes, cuts);
    const auto blocks = aligned_blocks(grids_[v], layout, grid);
    if (!blocks) return std::nullopt;
    tiles_[v] = add_tiles(v, grids_[v], graph_.value(v).dtype, role_of(v));
    for (size_t i = 0; i < tiles_[v].size(); ++i) out_.tiles.tiles[tiles_[v][i]].reuses = tiles_[base][i];
    OperandTiles made{grid, {}, true};
    for (const AlignedBlock& b : *blocks) made.tiles.push_back({tiles_[v][b.base_tile], b.offset, b.strides});
    return made;
}

}  // namespace nntile::tile
