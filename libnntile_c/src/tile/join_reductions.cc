// SPDX-License-Identifier: BSD-3-Clause
// mul, then sum: the product is written to memory and read again, though nothing else wants it.
// Where the sum reads whole tiles of it, along dims that lie inside of those that it keeps, both
// are one task of the kernel map_reduce, with the same bits. It stands where the program stood, so
// the program's operands live no longer than before.
#include <algorithm>

#include "tile/lower.hh"
#include "tile/task_parts.hh"

namespace nntile::tile {
namespace {

// A dim of both tasks: of each, whose dim it is a part of, and how many of its steps one step is.
struct Shared {
    int64_t size;
    size_t dims[2];
    int64_t steps[2];
};
using SharedDims = SmallVector<Shared, 8>;

// The dims of a task in the order in which its operand lies, innermost first; false: it has gaps,
// or is not all of so many elements.
bool order_of(const Task& task, const Operand& o, int64_t elements, SmallVector<size_t, 8>& order) {
    if (o.offset != 0 || o.strides.size() != task.sizes.size()) return false;
    for (size_t d = 0; d < task.sizes.size(); ++d)
        if (task.sizes[d] != 1) order.push_back(d);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return o.strides[a] < o.strides[b]; });
    int64_t dense = 1;
    for (size_t d : order) {
        if (o.strides[d] != dense) return false;
        dense *= task.sizes[d];
    }
    return dense == elements;
}

// The dims into which both take the same elements apart, outermost first. False: there are none.
bool share(const Task& map, const Operand& made, const Task& reduce, const Operand& read,
           int64_t elements, SharedDims& shared) {
    SmallVector<size_t, 8> order[2];
    if (!order_of(map, made, elements, order[0]) || !order_of(reduce, read, elements, order[1]))
        return false;
    const Task* tasks[] = {&map, &reduce};
    size_t at[2] = {};
    int64_t left[2] = {}, steps[2] = {1, 1};
    for (int64_t done = 1; done < elements;) {
        for (int k : {0, 1})
            if (left[k] <= 1) {
                left[k] = tasks[k]->sizes[order[k][at[k]]];
                steps[k] = 1;
            }
        const int64_t size = std::min(left[0], left[1]);
        if (left[0] % size || left[1] % size) return false;
        shared.push_back({size, {order[0][at[0]], order[1][at[1]]}, {steps[0], steps[1]}});
        for (int k : {0, 1}) {
            left[k] /= size;
            steps[k] *= size;
            at[k] += left[k] == 1;
        }
        done *= size;
    }
    std::reverse(shared.begin(), shared.end());
    return true;
}

Operand seen_by(Operand o, const SharedDims& shared, int task) {
    if (o.strides.empty()) return o;
    Dims strides;
    for (const Shared& dim : shared) strides.push_back(o.strides[dim.dims[task]] * dim.steps[task]);
    o.strides = std::move(strides);
    return o;
}

// One that cannot fail, and does not know where in its op it is.
bool is_plain(const kernels::Program& program) {
    return !kernels::uses_index(program) &&
           std::none_of(program.code.begin(), program.code.end(), [](const auto& instruction) {
               return kernels::map_rows()[instruction.primitive].check != kernels::MapCheck::none;
           });
}

class Joiner {
public:
    explicit Joiner(TileGraph& graph)
        : tasks_(graph.tasks),
          tiles_(graph.tiles),
          names_(graph.op_names),
          named_(graph.op_names.size(), false),
          uses_(graph.tiles.size()),
          touched_(graph.tiles.size(), none),
          map_(kernels::find_kernel("map")),
          reduce_(kernels::find_kernel("reduce")),
          joined_(kernels::find_kernel("map_reduce")) {
        for (uint32_t t = 0; t < tasks_.size(); ++t)
            for (const Operand& o : tasks_[t].operands) {
                if (o.tile == none) continue;
                Uses& own = uses_[o.tile];
                ++own.count;
                if (o.access == Access::write) own.maker = t;
            }
        for (const Tile& tile : tiles_)
            if (tile.reuses != none) ++uses_[tile.reuses].count;
    }

    void run() {
        std::vector<bool> gone(tasks_.size(), false);
        std::vector<uint32_t> numbers(tiles_.size(), 0);  // of tiles that stay
        for (uint32_t t = 0; t < tasks_.size(); ++t) {
            const uint32_t at = tasks_[t].kernel == reduce_ ? join(t) : none;
            gone[t] = at != none;
            for (const Operand& o : tasks_[t].operands)
                if (o.tile != none) touched_[o.tile] = at == none ? t : at;
            if (at != none) numbers[tasks_[t].operands[0].tile] = none;
        }
        if (std::none_of(gone.begin(), gone.end(), [](bool is) { return is; })) return;
        uint32_t left = 0;
        for (uint32_t t = 0; t < tasks_.size(); ++t)
            if (!gone[t]) {
                if (left != t) tasks_[left] = std::move(tasks_[t]);
                ++left;
            }
        tasks_.resize(left);
        left = 0;
        for (uint32_t k = 0; k < tiles_.size(); ++k) {
            if (numbers[k] == none) continue;
            numbers[k] = left;
            tiles_[left++] = tiles_[k];
        }
        tiles_.resize(left);
        for (Tile& tile : tiles_)
            if (tile.reuses != none) tile.reuses = numbers[tile.reuses];
        for (Task& task : tasks_)
            for (Operand& o : task.operands)
                if (o.tile != none) o.tile = numbers[o.tile];
    }

private:
    struct Uses {
        uint32_t count = 0, maker = none;
    };

    // The task whose place both take as one; none: they do not.
    uint32_t join(uint32_t t) {
        const Task& reduce = tasks_[t];
        const Operand &x = reduce.operands[0], &y = reduce.operands[1];
        const Uses& uses = uses_[x.tile];
        if (uses.count != 2 || uses.maker == none || tiles_[x.tile].role != TileRole::temporary ||
            tiles_[y.tile].reuses != none)
            return none;
        const uint32_t at = uses.maker;
        const Task& map = tasks_[at];
        if (map.kernel != map_ || !map.program || !is_plain(*map.program)) return none;
        // Nothing that comes later made what the total is added to.
        if (touched_[y.tile] != none && touched_[y.tile] >= at) return none;
        const size_t n_in = map.program->n_in;
        size_t made = n_in;
        while (map.operands[made].tile != x.tile) ++made;
        const int64_t elements = tiles_[x.tile].bytes / size_of(x.dtype);
        SharedDims shared;
        if (map.operands[made].dtype != x.dtype ||
            !share(map, map.operands[made], reduce, x, elements, shared))
            return none;
        Task both;
        both.kernel = joined_;
        both.program = map.program;
        both.node = reduce.node;
        for (const Shared& dim : shared) both.sizes.push_back(dim.size);
        for (size_t k = 0; k < map.operands.size(); ++k)
            if (k != made) both.operands.push_back(seen_by(map.operands[k], shared, 0));
        both.operands.push_back(seen_by(y, shared, 1));
        const Dims& kept = both.operands.back().strides;
        const auto first_reduced =
            static_cast<size_t>(std::find(kept.begin(), kept.end(), 0) - kept.begin());
        if (first_reduced == kept.size() || !std::all_of(kept.begin() + first_reduced, kept.end(),
                                                         [](int64_t s) { return s == 0; }))
            return none;
        Flags merge(both.sizes.size(), true);
        if (first_reduced > 0) merge[first_reduced - 1] = false;
        const auto left = coalesce_task(both, merge, Flags(both.sizes.size(), false));
        const auto reduced =
            std::count_if(left.begin(), left.end(), [&](size_t d) { return d >= first_reduced; });
        both.params = map.params;
        both.params.insert(both.params.end(), reduce.params.begin(), reduce.params.end());
        for (int64_t number : {static_cast<int64_t>(made - n_in), static_cast<int64_t>(x.dtype),
                               static_cast<int64_t>(reduced)})
            both.params.push_back({.fixed = {.i = number}});
        both.flops = map.flops + reduce.flops;
        both.bytes = map.bytes + reduce.bytes - 2.0 * static_cast<double>(tiles_[x.tile].bytes);
        if (!named_[reduce.node]) names_[reduce.node].insert(0, names_[map.node] + "+");
        named_[reduce.node] = true;
        tasks_[at] = std::move(both);
        return at;
    }

    std::vector<Task>& tasks_;
    std::vector<Tile>& tiles_;
    std::vector<std::string>& names_;  // by node: "pow+sum"
    std::vector<bool> named_;
    std::vector<Uses> uses_;         // by tile
    std::vector<uint32_t> touched_;  // by tile: the last task before this one
    const kernels::KernelRow *map_, *reduce_, *joined_;
};

}  // namespace

void join_reductions(TileGraph& tiles) { Joiner(tiles).run(); }

}  // namespace nntile::tile
