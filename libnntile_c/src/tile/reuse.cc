// SPDX-License-Identifier: BSD-3-Clause
// Which tiles lie in the memory of others. Lowering itself decides that only for writes, whose
// result keeps what they do not write (decision 0063).
#include <algorithm>

#include "graph/program.hh"
#include "tile/lower.hh"
#include "tile/relation.hh"

namespace nntile::tile {

using graph::no_value;

namespace {

class Reuse {
public:
    Reuse(const graph::Graph& graph, TileGraph& tiles)
        : graph_(graph),
          tiles_(tiles.tiles),
          last_use_(tiles_.size(), none),
          heir_(graph.values.size(), no_value) {
        for (uint32_t t = 0; t < tiles.tasks.size(); ++t)
            for (const Operand& o : tiles.tasks[t].operands)
                if (o.tile != none) last_use_[o.tile] = t;
        for (const Tile& tile : tiles_)
            if (tile.reuses != none) last_use_[tile.reuses] = none;
        for (const graph::Output& o : graph.outputs)
            if (o.input != no_value) heir_[graph.inputs[o.input].value] = o.value;
    }

    void run(const std::vector<Task>& tasks) {
        std::vector<bool> begun(tiles_.size());  // an earlier task has it
        for (now_ = 0; now_ < tasks.size(); ++now_) {
            const std::vector<Operand>& operands = tasks[now_].operands;
            for (size_t k = 0; k < operands.size() && tasks[now_].node != none; ++k)
                if (operands[k].access == Access::write && !begun[operands[k].tile] &&
                    tiles_[operands[k].tile].reuses == none)
                    take(tasks[now_], k);
            for (const Operand& o : operands)
                if (o.tile != none) begun[o.tile] = true;
        }
    }

private:
    // For the tile that operand k of the task writes, and no task before it.
    void take(const Task& task, size_t k) {
        const Operand& y = task.operands[k];
        const graph::Node& node = graph_.nodes[task.node];
        if (tiles_[y.tile].value == none) return take_copy(task, k);
        const graph::Value& value = graph_.value(tiles_[y.tile].value);
        if (value.source != task.node || value.kind != graph::ValueKind::result) return;
        const graph::Parts parts = graph::parts_of(node);
        const size_t own = parts.own.outputs.size();
        if (!parts.before) take_operand(task, y, node, value.output);
        else if (value.output >= own)
            take_operand(task, y, graph::prologue_of(node), value.output - own);
    }

    // It is spread over the result's tiles afterwards, and may take the place of an operand that
    // was put together: of its namesake, or of any.
    void take_copy(const Task& task, size_t k) {
        const graph::Node& node = graph_.nodes[task.node];
        const size_t n_in = node.inputs.size();
        if (k < n_in || task.operands.size() != n_in + node.outputs.size()) return;
        const uint32_t namesake = namesake_of(graph_, node, k - n_in);
        for (size_t i = 0; i < n_in; ++i)
            if ((i == namesake || node.row->overwrites) &&
                take_joined(task, node, i, task.operands[k]))
                return;
    }

    // The memory of input i where that was put together from tiles, for this task alone.
    bool take_joined(const Task& task, const graph::Node& node, size_t i, const Operand& y) {
        if (&node != &graph_.nodes[task.node] ||  // inputs of a program are operands elsewhere
            task.operands.size() != node.inputs.size() + node.outputs.size())
            return false;
        const Operand& x = task.operands[i];
        const auto sees = [&](const Operand& o) { return o.tile == x.tile; };
        return x.tile != none && tiles_[x.tile].value == none &&
               std::count_if(task.operands.begin(), task.operands.end(), sees) == 1 &&
               take_tile(task, x, y);
    }

    // Result k of an epilogue takes the memory of the product, or of an operand of its program.
    void take_operand(const Task& task, const Operand& y, const graph::Node& node, size_t k) {
        if (only_moves(node.row->rule)) return;
        const graph::Parts parts = graph::parts_of(node);
        const bool map = node.row->rule == schema::Rule::map, epilogue{parts.after};
        const size_t first = epilogue ? parts.own.inputs.size() : 0;
        const bool behind = k >= parts.own.outputs.size();
        if (behind && take_value(task, node.outputs[0], y)) return;
        const bool any = map        ? node.outputs.size() == 1 || node.program
                         : epilogue ? behind
                                    : node.row->overwrites;
        // Of other rows only a namesake may be written
        const uint32_t namesake = namesake_of(graph_, node, k);
        const auto kin = [&](size_t i) {
            const bool free = any && i >= first;
            if (free && heir_[graph_.base_of(node.inputs[i])] == node.outputs[k]) return 2;
            return i == namesake ? 1 : free ? 0 : -1;
        };
        // No other operand sees the same data in another way; and only maps and programs read an
        // element of all operands before they write it.
        const auto alone = [&](size_t i) {
            for (size_t j = 0; j < node.inputs.size(); ++j)
                if (j != i && node.inputs[j] != no_value &&
                    (node.inputs[j] != node.inputs[i] || j < first || !(map || epilogue)) &&
                    graph_.base_of(node.inputs[j]) == graph_.base_of(node.inputs[i]))
                    return false;
            return true;
        };
        for (int nearest : {2, 1, 0})  // whose place it takes, its namesake (an optimizer's p), any
            for (size_t i = 0; i < node.inputs.size(); ++i)
                if (node.inputs[i] != no_value && kin(i) == nearest && alone(i) &&
                    (take_value(task, graph_.base_of(node.inputs[i]), y) ||
                     take_joined(task, node, i, y)))
                    return;
    }

    bool take_value(const Task& task, uint32_t v, const Operand& y) {
        return std::any_of(task.operands.begin(), task.operands.end(), [&](const Operand& x) {
            return x.tile != none && tiles_[x.tile].value == v &&
                   tiles_[x.tile].index == tiles_[y.tile].index && take_tile(task, x, y);
        });
    }

    bool take_tile(const Task& task, const Operand& x, const Operand& y) {
        const Tile& from = tiles_[x.tile];
        Tile& to = tiles_[y.tile];
        if (last_use_[x.tile] != now_ || from.role == TileRole::output || from.bytes != to.bytes ||
            x.offset != y.offset || size_of(x.dtype) != size_of(y.dtype))
            return false;
        for (size_t d = 0; d < y.strides.size(); ++d)
            if (task.sizes[d] > 1 && x.strides[d] != y.strides[d]) return false;
        if (from.role == TileRole::input &&
            !graph_.inputs[graph_.value(from.value).source].overwritable)
            return false;
        // Has it alone: should a task fail, the data is there
        const uint32_t heir = from.value == none ? no_value : heir_[from.value];
        if (heir != no_value && heir != to.value && to.role == TileRole::output) return false;
        to.reuses = x.tile;
        last_use_[x.tile] = none;
        return true;
    }

    const graph::Graph& graph_;
    std::vector<Tile>& tiles_;
    std::vector<uint32_t> last_use_;  // by tile: its last task; none where another takes its place
    std::vector<uint32_t> heir_;      // by value: the output that takes the place of this input
    uint32_t now_ = 0;                // task
};

}  // namespace

void reuse_memory(const graph::Graph& graph, TileGraph& tiles) {
    Reuse(graph, tiles).run(tiles.tasks);
    const std::vector<uint32_t> memory = tiles.memories();
    std::vector<uint32_t> replaced(graph.values.size(), no_value);  // by output
    for (const graph::Output& o : graph.outputs)
        if (o.input != no_value) replaced[o.value] = graph.inputs[o.input].value;
    for (uint32_t t = 0; t < tiles.tiles.size(); ++t) {
        Tile& tile = tiles.tiles[t];
        if (tile.role == TileRole::output && replaced[tile.value] != no_value)
            tile.updates = tiles.tiles[memory[t]].value == replaced[tile.value];
    }
}

}  // namespace nntile::tile
