// SPDX-License-Identifier: BSD-3-Clause
// Tasks of a node that has a relation: one for every tile of its iteration space. Whole labels are
// not cut; partial results are accumulated in a fixed number of lanes, joined by a fixed tree: the
// bits depend on nothing but the cuts.
#include "tile/node_tasks.hh"

#include <algorithm>

#include "base/error.hh"
#include "graph/program.hh"
#include "tile/cost.hh"
#include "tile/program.hh"
#include "tile/task_parts.hh"

namespace nntile::tile {
using graph::no_value;
using schema::LabelKind;

NodeView::NodeView(const graph::Graph& of, const Tiling& tiling, uint32_t n,
                   const graph::Node& with)
    : graph(of),
      node(with),
      number(n),
      space(space_of(of, with)),
      parts(graph::parts_of(with)),
      epilogue(parts.after),
      n_in(with.inputs.size()),
      n_out(with.outputs.size()),
      own_in(parts.own.inputs.size()),
      own_out(parts.own.outputs.size()) {
    const schema::OpRow& row = *node.row;
    const bool copies = is_plain_copy(graph, node);
    if (!is_host())
        kernel = kernels::find_kernel(copies ? "copy" : row.map_row >= 0 ? "map" : row.kernel);
    check(is_host() || kernel, Status::internal, row.name, ": no kernel '", row.kernel, "'");
    cut_labels(tiling);
    cuts.reserve(n_in + n_out);
    for (size_t k = 0; k < n_in + n_out; ++k) place_operand(k);
    if (is_host() || copies) return;
    program = row.map_row >= 0 ? one_instruction(row.map_row, node.compute) : node.program;
}

// The cut of each label is that of an output dim, else of an input dim; whole labels are not cut.
void NodeView::cut_labels(const Tiling& tiling) {
    const auto& labels = space.relation.labels;
    Flags known(labels.size(), false);
    label_cuts_.resize(labels.size());
    Dims extents;
    for (size_t l = 0; l < labels.size(); ++l) {
        extents.push_back(labels[l].extent);
        known[l] = labels[l].kind == LabelKind::whole;
        label_cuts_[l] = whole(labels[l].extent);
    }
    auto look = [&](uint32_t v, size_t operand) {
        if (v == no_value) return;
        const auto& own = space.labels_of(operand);
        for (size_t d = 0; d < own.size() && d < tiling.values[v].cuts.size(); ++d) {
            if (own[d] < 0 || known[own[d]]) continue;
            known[own[d]] = true;
            label_cuts_[own[d]] = tiling.values[v].cuts[d];
        }
    };
    for (size_t k = 0; k < n_out; ++k) look(node.outputs[k], n_in + k);
    for (size_t k = 0; k < n_in; ++k) look(node.inputs[k], k);
    if (kernel && kernel->place > 0) {  // a task has neighbours along this label
        const size_t l = labels.size() - static_cast<size_t>(kernel->place);
        if (label_cuts_[l].size() > 1) label_cuts_[l] = whole(labels[l].extent);
    }
    if (is_host() && graph.hosts[node.host_call].ranges)
        for (Cut& cut : label_cuts_) cut = in_ranges(std::move(cut));
    iteration = grid_of(extents, label_cuts_);
}

void NodeView::place_operand(size_t k) {
    Cuts own;
    SmallVector<int, 6> place;
    own.reserve(space.labels_of(k).size());
    if (value_of(k) != no_value)
        for (int8_t label : space.labels_of(k)) {
            const int64_t extent = graph.value(value_of(k)).sizes[own.size()];
            own.push_back(label < 0 ? whole(extent) : label_cuts_[label]);
            if (label < 0) place.push_back(-1);
            for (size_t i = 0; label >= 0 && i < iteration.dims.size(); ++i)
                if (iteration.dims[i].dim == static_cast<uint32_t>(label))
                    place.push_back(static_cast<int>(i));
        }
    cuts.push_back(std::move(own));
    places.push_back(std::move(place));
}

int64_t NodeView::count(LabelKind kind) const {
    int64_t n = 1;
    for (const GridDim& d : iteration.dims)
        if (space.relation.labels[d.dim].kind == kind) n *= d.segments();
    return n;
}

void NodeView::at(LabelKind kind, int64_t index, Dims& segments) const {
    for (size_t i = iteration.dims.size(); i-- > 0;) {
        const GridDim& d = iteration.dims[i];
        if (space.relation.labels[d.dim].kind != kind) continue;
        segments[i] = index % d.segments();
        index /= d.segments();
    }
}

Dims NodeView::segments_of_chain(int64_t number) const {
    Dims segments(iteration.dims.size(), 0);
    at(LabelKind::parallel, number, segments);
    return segments;
}

const OperandTile& NodeView::tile_at(const OperandTiles& tiles, size_t k,
                                     const Dims& segments) const {
    int64_t index = 0;
    for (size_t r = 0; r < tiles.grid.dims.size(); ++r) {
        const int place = places[k][r];
        index = index * tiles.grid.dims[r].segments() + (place < 0 ? 0 : segments[place]);
    }
    return tiles.tiles[index];
}

int64_t NodeView::lanes() const {
    return lanes_of(count(LabelKind::parallel), count(LabelKind::reduce));
}

namespace {

class NodeTasks {
public:
    NodeTasks(const NodeView& view, const NodeTiles& blocks, std::span<const Tile> tiles)
        : view_(view), blocks_(blocks), tiles_(tiles), graph_(view.graph), node_(view.node) {}

    bool run() {
        for (int64_t p = 0; p < view_.count(LabelKind::parallel); ++p)
            if (!add_chain(p)) return false;
        return true;
    }

    std::vector<Task> tasks;
    uint32_t misfit = none;  // the operand because of which there are none, if that is known

private:
    // Of the partial results of one output tile: the first one; it adds to an earlier one; the
    // epilogue runs with it.
    struct Part {
        bool first, accumulate, ends;
    };

    Operand operand_of(size_t k, const OperandTile& tile, DType dtype, Access access) const {
        Operand o;
        o.tile = tile.tile;
        o.access = access;
        o.dtype = dtype;
        o.offset = tile.offset;
        o.strides.assign(view_.iteration.dims.size(), 0);
        for (size_t r = 0; r < tile.strides.size(); ++r)
            if (view_.places[k][r] >= 0) o.strides[view_.places[k][r]] += tile.strides[r];
        return o;
    }

    Operand input_at(size_t k, const Dims& segments, bool first) const {
        const uint32_t v = node_.inputs[k];
        if (v == no_value) return {};
        // A gemm adds its c once, with the first of all partial products, not of each lane.
        if (!first && node_.row->rule == schema::Rule::contract && k == 2) return {};
        const graph::Value& value = graph_.value(v);
        if (value.kind == graph::ValueKind::scalar) {
            Operand o;
            o.dtype = is_floating(value.dtype) ? DType::f64 : DType::i64;
            o.scalar = value.source;
            o.strides.assign(view_.iteration.dims.size(), 0);
            return o;
        }
        return operand_of(k, view_.tile_at(*blocks_.inputs[k], k, segments), value.dtype,
                          Access::read);
    }

    Task make_task(const Dims& segments, const Part& part_of, std::span<const OperandTile> outs) {
        const auto [first, accumulate, ends] = part_of;
        const bool epilogue = view_.epilogue && ends;
        Task task;
        task.kernel = view_.kernel;
        if (!view_.epilogue || ends) task.program = view_.program;
        task.node = view_.number;
        task.sizes = view_.iteration.sizes_of(segments);
        task.flops = flops_of(node_, view_.space);
        for (int64_t n : task.sizes) task.flops *= static_cast<double>(n);
        if (epilogue) task.flops += epilogue_flops(task.sizes);
        task.operands.reserve(view_.n_in + view_.n_out);
        const size_t n_in = ends ? view_.n_in : view_.own_in,
                     n_out = ends ? view_.n_out : view_.own_out;
        for (size_t k = 0; k < n_in; ++k) task.operands.push_back(input_at(k, segments, first));
        for (size_t k = 0; k < n_out; ++k) {
            const DType dtype = blocks_.dtypes[k];
            // Of a part, the others stay. A result that nobody reads has no tile.
            const bool part = blocks_.placed && outs[k].tile != none &&
                              product(task.sizes) * size_of(dtype) < tiles_[outs[k].tile].bytes;
            task.operands.push_back(operand_of(
                view_.n_in + k, outs[k], dtype,
                (accumulate && k < view_.own_out) || part ? Access::read_write : Access::write));
        }
        for (const Operand& o : task.operands) task.bytes += bytes_of(task, o);
        add_params(task, node_, view_.space, accumulate);
        if (epilogue) {
            add_program_params(task, node_);
            read_rounded(task);
        }
        set_index(task, view_.space, view_.iteration, segments);
        return task;
    }

    double epilogue_flops(const Dims& sizes) const {
        double flops = graph::flops_of(*view_.program);
        for (size_t i = 0; i < sizes.size(); ++i)
            if (kind_of(i) == LabelKind::parallel) flops *= static_cast<double>(sizes[i]);
        return flops;
    }

    LabelKind kind_of(size_t dim) const {
        return view_.space.relation.labels[view_.iteration.dims[dim].dim].kind;
    }

    // The task's program reads the product as it is after `map_row`, rounded to its own dtype.
    void read_joined(Task& task, std::string_view map_row) const {
        const int row = kernels::find_map(map_row);
        task.program =
            behind_join(*view_.program, row, blocks_.dtypes[0],
                        graph_.value(node_.outputs[0]).dtype, view_.parts.after.attrs.size());
        add_default_params(row, task.params);
    }
    void read_rounded(Task& task) const {
        if (blocks_.dtypes[0] != graph_.value(node_.outputs[0]).dtype) read_joined(task, "cast");
    }

    // The epilogue as a task of its own, where several partial results have to be joined first. The
    // last join is a part of it, unless somebody else reads the product.
    void add_epilogue(const Dims& segments, std::span<const OperandTile> outs,
                      const OperandTile* part) {
        const size_t n_in = view_.n_in;
        const DType dtype = blocks_.dtypes[0];
        Task task;
        task.kernel = kernels::find_kernel("map");
        task.program = view_.program;
        task.node = view_.number;
        task.sizes = view_.iteration.sizes_of(segments);
        task.flops = epilogue_flops(task.sizes);
        for (size_t i = 0; i < task.sizes.size(); ++i)
            if (kind_of(i) == LabelKind::reduce) task.sizes[i] = 1;
        for (size_t k = view_.own_in; k < n_in; ++k)
            task.operands.push_back(input_at(k, segments, true));
        task.operands.push_back(operand_of(n_in, outs[0], dtype, Access::read));
        if (part) task.operands.push_back(operand_of(n_in, *part, dtype, Access::read));
        for (size_t k = view_.own_out; k < view_.n_out; ++k)
            task.operands.push_back(
                operand_of(n_in + k, outs[k], blocks_.dtypes[k], Access::write));
        for (const Operand& o : task.operands) task.bytes += bytes_of(task, o);
        add_program_params(task, node_);
        if (part) read_joined(task, node_.row->combine);
        else read_rounded(task);
        set_index(task, view_.space, view_.iteration, segments);
        coalesce_task(task, Flags(task.sizes.size(), true), Flags(task.sizes.size(), false));
        tasks.push_back(std::move(task));
    }

    // Of the block that a task sees, which may be a part of its tile.
    double bytes_of(const Task& task, const Operand& o) const {
        if (o.tile == none) return 0;
        double points = 1;
        for (size_t i = 0; i < task.sizes.size(); ++i)
            if (o.strides[i] != 0) points *= static_cast<double>(task.sizes[i]);
        const auto tile = static_cast<double>(tiles_[o.tile].bytes);
        return view_.is_host() ? tile
                               : std::min(tile, points * static_cast<double>(size_of(o.dtype)));
    }

    bool add(const Dims& segments, const Part& part, std::span<const OperandTile> outs) {
        Task task = make_task(segments, part, outs);
        if (view_.is_host())
            make_host_call(task, graph_, node_, view_.space, view_.iteration, segments,
                           part.accumulate);
        else if (!fit_kernel(task, *node_.row, view_.space.relation, view_.iteration, misfit)) {
            // Perhaps it is the program's operands, or its index, that are no matrices.
            if (!view_.epilogue || !part.ends ||
                !add(segments, {part.first, part.accumulate, false}, outs))
                return false;
            add_epilogue(segments, outs, nullptr);
            return true;
        }
        tasks.push_back(std::move(task));
        return true;
    }

    // All partial results of one output tile.
    bool add_chain(int64_t number) {
        const int64_t partials = view_.count(LabelKind::reduce), lanes = view_.lanes();
        const auto own_out = static_cast<int64_t>(view_.own_out);
        Dims segments = view_.segments_of_chain(number);
        std::vector<SmallVector<OperandTile, 2>> outs(lanes);
        auto next = blocks_.lanes.begin() + number * (lanes - 1) * own_out;
        for (int64_t k = 0; k < std::ssize(node_.outputs); ++k) {
            const OperandTile own = view_.tile_at(blocks_.outputs[k], view_.n_in + k, segments);
            outs[0].push_back(own);
            for (int64_t lane = 1; lane < lanes && k < own_out; ++lane)
                outs[lane].push_back({*next++, own.offset, own.strides});
        }
        for (int64_t r = 0; r < partials; ++r) {
            view_.at(LabelKind::reduce, r, segments);
            if (!add(segments, {r == 0, r >= lanes, lanes == 1 && r + 1 == partials},
                     outs[r % lanes]))
                return false;
        }
        for (int64_t step = 1; step < lanes; step *= 2)
            for (int64_t lane = 0; lane + step < lanes; lane += 2 * step) {
                if (2 * step >= lanes && view_.epilogue && blocks_.unread) {
                    add_epilogue(segments, outs[0], &outs[step][0]);
                    return true;
                }
                for (int64_t k = 0; k < own_out; ++k)
                    add_join(outs[lane][k], outs[lane + step][k], blocks_.dtypes[k]);
            }
        if (view_.epilogue && lanes > 1) add_epilogue(segments, outs[0], nullptr);
        return true;
    }

    // into = into joined with from, two partial results.
    void add_join(const OperandTile& into, const OperandTile& from, DType dtype) {
        const schema::OpRow& op = *node_.row;
        const int row = kernels::find_map(op.combine);
        check(row >= 0, Status::internal, op.name, ": no map row '", op.combine,
              "' joins partial results");
        const int64_t bytes = tiles_[into.tile].bytes;
        Task task;
        task.kernel = kernels::find_kernel("map");
        task.program = one_instruction(row, dtype);
        task.node = view_.number;
        task.sizes = {bytes / size_of(dtype)};
        task.flops = static_cast<double>(task.sizes[0]);
        task.bytes = 3.0 * static_cast<double>(bytes);
        for (auto [id, access] : {std::pair{into.tile, Access::read},
                                  {from.tile, Access::read},
                                  {into.tile, Access::write}}) {
            Operand o;
            o.tile = id;
            o.access = access;
            o.dtype = dtype;
            o.strides = {1};
            task.operands.push_back(std::move(o));
        }
        add_default_params(row, task.params);  // a + 1 * b
        tasks.push_back(std::move(task));
    }

    const NodeView& view_;
    const NodeTiles& blocks_;
    const std::span<const Tile> tiles_;
    const graph::Graph& graph_;
    const graph::Node& node_;
};

}  // namespace

std::optional<std::vector<Task>> lower_node(const NodeView& view, const NodeTiles& blocks,
                                            std::span<const Tile> tiles, uint32_t& misfit) {
    NodeTasks made(view, blocks, tiles);
    const bool fits = made.run();
    misfit = made.misfit;
    if (!fits) return std::nullopt;
    return std::move(made.tasks);
}

}  // namespace nntile::tile
