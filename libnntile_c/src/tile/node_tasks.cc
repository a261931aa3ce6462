// SPDX-License-Identifier: BSD-3-Clause
// Tasks of a node that has a relation: one for every tile of its iteration space. Whole labels are
// not cut; partial results are accumulated in a fixed number of lanes, joined by a fixed tree: the
// bits depend on nothing but the cuts.
#include <algorithm>

#include "base/error.hh"
#include "graph/program.hh"
#include "tile/cost.hh"
#include "tile/lowering.hh"
#include "tile/program.hh"
#include "tile/task_parts.hh"

namespace nntile::tile {
using graph::no_value;
using schema::LabelKind;

class NodeTasks {
public:
    NodeTasks(Lowering& all, uint32_t number, const graph::Node& node, const OperandTiles* place)
        : all_(all),
          graph_(all.graph_),
          node_(node),
          number_(number),
          place_(place),
          row_(*node_.row),
          epilogue_(graph::has_epilogue(node_)),
          info_(space_of(graph_, node_)) {
        const bool copies = is_plain_copy(graph_, node_);
        if (!is_host())
            kernel_ = kernels::find_kernel(copies              ? "copy"
                                           : row_.map_row >= 0 ? "map"
                                                               : row_.kernel);
        check(is_host() || kernel_, Status::internal, row_.name, ": no kernel '", row_.kernel, "'");
        cut_labels();
        n_in_ = node_.inputs.size();
        n_out_ = node_.outputs.size();
        own_in_ = epilogue_ ? graph::own_of(node_).inputs : n_in_;
        own_out_ = epilogue_ ? graph::own_of(node_).outputs : n_out_;
        cuts_.reserve(n_in_ + n_out_);
        for (size_t k = 0; k < n_in_ + n_out_; ++k) place_operand(k);
        if (is_host() || copies) return;
        program_ = row_.map_row >= 0 ? one_instruction(row_.map_row, node_.compute) : node_.program;
    }

    void run() {
        inputs_.resize(n_in_);
        for (size_t k = 0; k < n_in_; ++k) bind_input(k, false);
        for (size_t k = 0; k < n_out_; ++k) make_output(k);
        const int64_t parallel = count(LabelKind::parallel), reduced = count(LabelKind::reduce);
        for (int64_t p = 0; p < parallel; ++p) {
            Dims segments(iteration_.dims.size(), 0);
            at(LabelKind::parallel, p, segments);
            add_chain(segments, reduced, parallel);
        }
        for (size_t k = 0; k < n_out_; ++k)
            if (!outputs_[k].own && !is_unread(k))
                all_.spread(node_.outputs[k], outputs_[k].grid, outputs_[k].tiles, dtypes_[k],
                            number_);
    }

    // Whether the kernel can write its result at `place_`, whatever dims merge there. A sum of
    // parts may need more digits on the way than the result has.
    bool fits_place() {
        if (count(LabelKind::reduce) > 1 || row_.rule == schema::Rule::contract ||
            cuts_[n_in_] != all_.tiling_.values[node_.outputs[0]].cuts)  // the place's
            return false;
        inputs_.resize(n_in_);
        for (size_t k = 0; k < n_in_; ++k) bind_input(k, false);
        make_output(0);
        for (int64_t p = 0; p < count(LabelKind::parallel); ++p) {
            Dims segments(iteration_.dims.size(), 0);
            at(LabelKind::parallel, p, segments);
            const OperandTile out = tile_at(outputs_[0], n_in_, segments);
            Task task = make_task(segments, {true, false, true}, {&out, 1});
            if (!fit_kernel(task, row_, info_.relation, iteration_)) return false;
        }
        return true;
    }

private:
    using Cuts = std::vector<Cut>;
    using Place = SmallVector<int, 6>;

    // Of the partial results of one output tile: the first one; it adds to an earlier one; the
    // epilogue runs with it.
    struct Part {
        bool first, accumulate, ends;
    };

    bool is_host() const { return node_.host_call >= 0; }

    // The result of a product that nothing but its epilogue reads.
    bool is_unread(size_t output) const {
        const uint32_t v = node_.outputs[output];
        return epilogue_ && output < own_out_ && !all_.is_output_[v] && all_.last_use_[v] == none;
    }

    uint32_t value_of(size_t operand) const {
        return operand < n_in_ ? node_.inputs[operand] : node_.outputs[operand - n_in_];
    }

    // The cut of each label is that of an output dim, else of an input dim; whole labels are not
    // cut.
    void cut_labels() {
        const auto& labels = info_.relation.labels;
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
            const auto& own = info_.labels_of(operand);
            for (size_t d = 0; d < own.size() && d < all_.tiling_.values[v].cuts.size(); ++d) {
                if (own[d] < 0 || known[own[d]]) continue;
                known[own[d]] = true;
                label_cuts_[own[d]] = all_.tiling_.values[v].cuts[d];
            }
        };
        for (size_t k = 0; k < node_.outputs.size(); ++k)
            look(node_.outputs[k], node_.inputs.size() + k);
        for (size_t k = 0; k < node_.inputs.size(); ++k) look(node_.inputs[k], k);
        if (kernel_ && kernel_->place > 0) {  // a task has neighbours along this label
            const size_t l = labels.size() - static_cast<size_t>(kernel_->place);
            if (label_cuts_[l].size() > 1) label_cuts_[l] = whole(labels[l].extent);
        }
        if (is_host() && graph_.hosts[node_.host_call].ranges)
            for (Cut& cut : label_cuts_) cut = in_ranges(std::move(cut));
        iteration_ = grid_of(extents, label_cuts_);
    }

    void place_operand(size_t k) {
        Cuts cuts;
        Place place;
        cuts.reserve(info_.labels_of(k).size());
        if (value_of(k) != no_value)
            for (int8_t label : info_.labels_of(k)) {
                const int64_t extent = graph_.value(value_of(k)).sizes[cuts.size()];
                cuts.push_back(label < 0 ? whole(extent) : label_cuts_[label]);
                if (label < 0) place.push_back(-1);
                for (size_t i = 0; label >= 0 && i < iteration_.dims.size(); ++i)
                    if (iteration_.dims[i].dim == static_cast<uint32_t>(label))
                        place.push_back(static_cast<int>(i));
            }
        cuts_.push_back(std::move(cuts));
        places_.push_back(std::move(place));
    }

    void bind_input(size_t k, bool dense) {
        const uint32_t v = node_.inputs[k];
        if (v == no_value || graph_.value(v).kind == graph::ValueKind::scalar) return;
        inputs_[k] = &all_.operand(v, cuts_[k], dense);
        // A kernel says whether it can do with the strides; a function of the host knows none.
        if (is_host() && !dense && !inputs_[k]->are_dense()) bind_input(k, true);
    }

    int64_t count(LabelKind kind) const {
        int64_t n = 1;
        for (const GridDim& d : iteration_.dims)
            if (info_.relation.labels[d.dim].kind == kind) n *= d.segments();
        return n;
    }
    void at(LabelKind kind, int64_t index, Dims& segments) const {
        for (size_t i = iteration_.dims.size(); i-- > 0;) {
            const GridDim& d = iteration_.dims[i];
            if (info_.relation.labels[d.dim].kind != kind) continue;
            segments[i] = index % d.segments();
            index /= d.segments();
        }
    }

    // The value's own tiles where the cuts agree; else temporaries that are spread over them
    // afterwards. Partial sums of short floats are kept in f32, but for a function of the host,
    // which knows just the value's own dtype.
    void make_output(size_t k) {
        const uint32_t v = node_.outputs[k];
        const Cuts& cuts = cuts_[n_in_ + k];
        const graph::Value& value = graph_.value(v);
        if (place_) {
            outputs_.push_back(*place_);
            dtypes_.push_back(value.dtype);
            return;
        }
        const bool widen = k < own_out_ && is_short_float(value.dtype) && !is_host() &&
                           count(LabelKind::reduce) > 1;
        const Grid grid = grid_of(value.sizes, cuts);
        const bool own = cuts == all_.tiling_.values[v].cuts && !widen;
        const DType dtype = widen ? DType::f32 : value.dtype;
        auto ids = all_.add_tiles(own ? v : none, grid, dtype,
                                  own ? all_.role_of(v) : TileRole::temporary);
        if (own) all_.tiles_[v] = ids;
        else if (!is_unread(k))
            all_.tiles_[v] = all_.add_tiles(v, all_.grids_[v], value.dtype, all_.role_of(v));
        if (own) reuse_input(k, ids);
        OperandTiles made{grid, {}, own};
        for (size_t i = 0; i < ids.size(); ++i)
            made.tiles.push_back(
                {ids[i], 0,
                 dense_strides(grid.sizes_of(grid.segments_of(static_cast<int64_t>(i))))});
        outputs_.push_back(std::move(made));
        dtypes_.push_back(dtype);
        if (!own) reuse_copy(k, ids);
    }

    // A result may take the memory of an operand that nobody reads later. One of an epilogue takes
    // that of the product, or of an operand of its program.
    void reuse_input(size_t k, std::span<const uint32_t> ids) {
        const uint32_t out = node_.outputs[k];
        const size_t first = epilogue_ ? own_in_ : 0;
        if (epilogue_ && k >= own_out_ && is_unread(0) &&
            size_of(dtypes_[0]) == size_of(graph_.value(out).dtype) &&
            taken_.insert({node_.outputs[0], k}).second) {
            for (size_t t = 0; t < ids.size(); ++t)
                all_.out_.tiles.tiles[ids[t]].reuses = outputs_[0].tiles[t].tile;
            return;
        }
        auto fits = [&](size_t i) {
            const uint32_t v = node_.inputs[i];
            if (v == no_value || !inputs_[i]) return false;
            const uint32_t base = graph_.base_of(v);
            const graph::Value &value = graph_.value(v), &result = graph_.value(out);
            if (taken_.count(base) || size_of(value.dtype) != size_of(result.dtype) ||
                value.sizes != result.sizes)
                return false;
            // written: still there
            if (all_.is_written(base, number_) || !all_.dies_at(base, number_)) return false;
            // Has it alone: should a task fail, the data is there
            const uint32_t heir = all_.successor_[base];
            if (heir != no_value && heir != out && all_.is_output_[out]) return false;
            // No other operand sees the same data in another way; and only maps and programs read
            // an element of all operands before they write it.
            const bool by_element = row_.rule == schema::Rule::map || epilogue_;
            for (size_t j = 0; j < n_in_; ++j)
                if (j != i && node_.inputs[j] != no_value &&
                    (node_.inputs[j] != v || j < first || !by_element) &&
                    graph_.base_of(node_.inputs[j]) == base)
                    return false;
            return is_all_of_base(i);
        };
        const bool any =
            row_.rule == schema::Rule::map ? n_out_ == 1 || node_.program : k >= own_out_;
        // Of rows that are neither maps nor programs only a namesake may be written
        const uint32_t namesake = namesake_of(graph_, node_, k);
        auto kin = [&](size_t i) {
            if (is_host()) return i == namesake ? 2 : -1;
            const bool free = any && i >= first && node_.inputs[i] != no_value;
            if (free && all_.successor_[graph_.base_of(node_.inputs[i])] == out) return 2;
            return i == namesake ? 1 : free ? 0 : -1;
        };
        std::optional<size_t> found;
        for (int nearest : {2, 1, 0})  // whose place it takes, its namesake (an optimizer's p), any
            for (size_t i = 0; i < n_in_ && !found; ++i)
                if (kin(i) == nearest && fits(i)) found = i;
        if (!found) return;
        taken_.insert({graph_.base_of(node_.inputs[*found]), k});
        for (size_t t = 0; t < ids.size(); ++t)
            all_.out_.tiles.tiles[ids[t]].reuses = inputs_[*found]->tiles[t].tile;
    }

    // The value's own tiles, or those of data that it is a reshaped view of, each whole.
    bool is_all_of_base(size_t i) const {
        if (inputs_[i]->own) return true;
        const auto& own = all_.tiles_[graph_.base_of(node_.inputs[i])];
        const OperandTiles& seen = *inputs_[i];
        if (seen.tiles.size() != own.size() || !seen.are_dense()) return false;
        for (size_t t = 0; t < own.size(); ++t) {
            const Dims sizes = seen.grid.sizes_of(seen.grid.segments_of(static_cast<int64_t>(t)));
            if (seen.tiles[t].tile != own[t] || seen.tiles[t].offset != 0 ||
                product(sizes) * size_of(graph_.value(node_.inputs[i]).dtype) !=
                    all_.out_.tiles.tiles[own[t]].bytes)
                return false;
        }
        return true;
    }

    // A result that is spread over its tiles afterwards may take the place of its namesake, where
    // that was put together for this node.
    void reuse_copy(size_t k, std::span<const uint32_t> ids) {
        const uint32_t i = namesake_of(graph_, node_, k);
        if (i >= inputs_.size() || !inputs_[i] || !inputs_[i]->copied) return;
        const OperandTiles& from = *inputs_[i];
        const uint32_t v = node_.inputs[i], base = graph_.base_of(v);
        if (cuts_[i] != cuts_[n_in_ + k] || places_[i] != places_[n_in_ + k] ||
            size_of(graph_.value(v).dtype) != size_of(dtypes_[k]))
            return;
        for (uint32_t j = 0; j < n_in_; ++j)  // which may see the same copy
            if (j != i && node_.inputs[j] != no_value && graph_.base_of(node_.inputs[j]) == base)
                return;
        for (size_t t = 0; t < ids.size(); ++t)
            all_.out_.tiles.tiles[ids[t]].reuses = from.tiles[t].tile;
        all_.give_away(v, from);
    }

    OperandTile tile_at(const OperandTiles& tiles, size_t k, const Dims& segments) const {
        int64_t index = 0;
        for (size_t r = 0; r < tiles.grid.dims.size(); ++r) {
            const int place = places_[k][r];
            index = index * tiles.grid.dims[r].segments() + (place < 0 ? 0 : segments[place]);
        }
        return tiles.tiles[index];
    }

    Operand operand_of(size_t k, const OperandTile& tile, DType dtype, Access access) const {
        Operand o;
        o.tile = tile.tile;
        o.access = access;
        o.dtype = dtype;
        o.offset = tile.offset;
        o.strides.assign(iteration_.dims.size(), 0);
        for (size_t r = 0; r < tile.strides.size(); ++r)
            if (places_[k][r] >= 0) o.strides[places_[k][r]] += tile.strides[r];
        return o;
    }

    Operand input_at(size_t k, const Dims& segments, bool first) const {
        const uint32_t v = node_.inputs[k];
        if (v == no_value) return {};
        // A gemm adds its c once, with the first of all partial products, not of each lane.
        if (!first && row_.rule == schema::Rule::contract && k == 2) return {};
        const graph::Value& value = graph_.value(v);
        if (value.kind == graph::ValueKind::scalar) {
            Operand o;
            o.dtype = is_floating(value.dtype) ? DType::f64 : DType::i64;
            o.scalar = value.source;
            o.strides.assign(iteration_.dims.size(), 0);
            return o;
        }
        return operand_of(k, tile_at(*inputs_[k], k, segments), value.dtype, Access::read);
    }

    Task make_task(const Dims& segments, const Part& part_of, std::span<const OperandTile> outs) {
        const auto [first, accumulate, ends] = part_of;
        Task task;
        task.kernel = kernel_;
        if (!epilogue_ || ends) task.program = program_;
        task.node = number_;
        task.sizes = iteration_.sizes_of(segments);
        task.flops = flops_of(node_, info_);
        for (int64_t n : task.sizes) task.flops *= static_cast<double>(n);
        if (epilogue_ && ends) task.flops += epilogue_flops(task.sizes);
        task.operands.reserve(n_in_ + n_out_);
        const size_t n_in = ends ? n_in_ : own_in_, n_out = ends ? n_out_ : own_out_;
        for (size_t k = 0; k < n_in; ++k) task.operands.push_back(input_at(k, segments, first));
        for (size_t k = 0; k < n_out; ++k) {
            // Of a part, the others stay
            const int64_t bytes = product(task.sizes) * size_of(dtypes_[k]);
            const bool part = place_ && bytes < all_.out_.tiles.tiles[outs[k].tile].bytes;
            task.operands.push_back(operand_of(
                n_in_ + k, outs[k], dtypes_[k],
                (accumulate && k < own_out_) || part ? Access::read_write : Access::write));
        }
        for (const Operand& o : task.operands) task.bytes += bytes_of(task, o);
        add_params(task, node_, info_, accumulate);
        if (epilogue_ && ends) {
            add_program_params(task, node_);
            if (dtypes_[0] != graph_.value(node_.outputs[0]).dtype)
                read_joined(task, "cast", dtypes_[0]);
        }
        set_index(task, info_, iteration_, segments);
        return task;
    }

    double epilogue_flops(const Dims& sizes) const {
        double flops = graph::flops_of(*program_);
        for (size_t i = 0; i < sizes.size(); ++i)
            if (info_.relation.labels[iteration_.dims[i].dim].kind == LabelKind::parallel)
                flops *= static_cast<double>(sizes[i]);
        return flops;
    }

    // The task's program reads the product as it is after `map_row`, rounded to its own dtype.
    void read_joined(Task& task, std::string_view map_row, DType compute) const {
        const int row = kernels::find_map(map_row);
        task.program = behind_join(*program_, row, compute, graph_.value(node_.outputs[0]).dtype,
                                   node_.attrs.size() - graph::own_of(node_).attrs);
        add_default_params(row, task.params);
    }

    // The epilogue as a task of its own, where several partial results have to be joined first. The
    // last join is a part of it, unless somebody else reads the product.
    void add_epilogue(const Dims& segments, std::span<const OperandTile> outs,
                      const OperandTile* part) {
        Task task;
        task.kernel = kernels::find_kernel("map");
        task.program = program_;
        task.node = number_;
        task.sizes = iteration_.sizes_of(segments);
        task.flops = epilogue_flops(task.sizes);
        for (size_t i = 0; i < task.sizes.size(); ++i)
            if (info_.relation.labels[iteration_.dims[i].dim].kind == LabelKind::reduce)
                task.sizes[i] = 1;
        for (size_t k = own_in_; k < n_in_; ++k)
            task.operands.push_back(input_at(k, segments, true));
        task.operands.push_back(operand_of(n_in_, outs[0], dtypes_[0], Access::read));
        if (part) task.operands.push_back(operand_of(n_in_, *part, dtypes_[0], Access::read));
        for (size_t k = own_out_; k < n_out_; ++k)
            task.operands.push_back(operand_of(n_in_ + k, outs[k], dtypes_[k], Access::write));
        for (const Operand& o : task.operands) task.bytes += bytes_of(task, o);
        add_program_params(task, node_);
        if (part) read_joined(task, row_.combine, dtypes_[0]);
        else if (dtypes_[0] != graph_.value(node_.outputs[0]).dtype)
            read_joined(task, "cast", dtypes_[0]);
        set_index(task, info_, iteration_, segments);
        coalesce_task(task, Flags(task.sizes.size(), true), Flags(task.sizes.size(), false));
        all_.push(std::move(task));
    }

    // Of the block that a task sees, which may be a part of its tile.
    double bytes_of(const Task& task, const Operand& o) const {
        if (o.tile == none) return 0;
        double points = 1;
        for (size_t i = 0; i < task.sizes.size(); ++i)
            if (o.strides[i] != 0) points *= static_cast<double>(task.sizes[i]);
        const auto tile = static_cast<double>(all_.out_.tiles.tiles[o.tile].bytes);
        return is_host() ? tile : std::min(tile, points * static_cast<double>(size_of(o.dtype)));
    }

    void add(const Dims& segments, const Part& part, std::span<const OperandTile> outs) {
        if (is_host()) {
            Task task = make_task(segments, part, outs);
            make_host_call(task, graph_, node_, info_, iteration_, segments, part.accumulate);
            // Else it is a kernel
            if (!graph_.hosts[node_.host_call].ranges) ++all_.out_.host_calls;
            return all_.push(std::move(task));
        }
        const auto push = [&](bool ends) {
            Task task = make_task(segments, {part.first, part.accumulate, ends}, outs);
            if (!fit_kernel(task, row_, info_.relation, iteration_)) return false;
            all_.push(std::move(task));
            return true;
        };
        for (bool dense : {false, true}) {
            for (size_t k = 0; dense && k < own_in_; ++k) bind_input(k, true);
            if (push(part.ends)) return;
            // Perhaps it is the program's operands, or its index, that are no matrices.
            if (epilogue_ && part.ends && push(false)) return add_epilogue(segments, outs, nullptr);
        }
        fail(Status::internal, row_.name, ": dense operands do not fit the kernel");
    }

    // All partial results of one output tile.
    void add_chain(Dims segments, int64_t partials, int64_t chains) {
        const int64_t lanes = lanes_of(chains, partials);
        std::vector<SmallVector<OperandTile, 2>> outs(lanes);
        for (size_t k = 0; k < n_out_; ++k) {
            const OperandTile own = tile_at(outputs_[k], n_in_ + k, segments);
            outs[0].push_back(own);
            for (int64_t lane = 1; lane < lanes && k < own_out_; ++lane)
                outs[lane].push_back({all_.add_temporary_like(own.tile), own.offset, own.strides});
        }
        for (int64_t r = 0; r < partials; ++r) {
            at(LabelKind::reduce, r, segments);
            add(segments, {r == 0, r >= lanes, lanes == 1 && r + 1 == partials}, outs[r % lanes]);
        }
        for (int64_t step = 1; step < lanes; step *= 2)
            for (int64_t lane = 0; lane + step < lanes; lane += 2 * step) {
                const bool last = 2 * step >= lanes;
                if (last && epilogue_ && is_unread(0))
                    return add_epilogue(segments, outs[0], &outs[step][0]);
                for (size_t k = 0; k < own_out_; ++k)
                    all_.add_join(row_, outs[lane][k], outs[lane + step][k], dtypes_[k], number_);
            }
        if (epilogue_ && lanes > 1) add_epilogue(segments, outs[0], nullptr);
    }

    Lowering& all_;
    const graph::Graph& graph_;
    const graph::Node& node_;
    const uint32_t number_;
    const OperandTiles* const place_;
    const schema::OpRow& row_;
    const bool epilogue_;
    const NodeSpace info_;
    size_t n_in_ = 0, n_out_ = 0;
    size_t own_in_ = 0, own_out_ = 0;  // without those of an epilogue
    Cuts label_cuts_;
    Grid iteration_;                // refined dims; GridDim::dim is the label
    std::vector<Cuts> cuts_;        // by operand: how the node wants it cut
    SmallVector<Place, 4> places_;  // by operand and its refined dim: iteration dim, or -1
    std::vector<const OperandTiles*> inputs_;  // nullptr: absent or a number
    std::vector<OperandTiles> outputs_;
    std::vector<DType> dtypes_;         // of the output tiles as the tasks write them
    std::map<uint32_t, size_t> taken_;  // base values whose memory an output has taken
    std::shared_ptr<const kernels::Program> program_;
    const kernels::KernelRow* kernel_ = nullptr;
};

bool Lowering::fits_place(uint32_t number, const graph::Node& node, const OperandTiles& place) {
    return NodeTasks(*this, number, node, &place).fits_place();
}

void Lowering::lower_node(uint32_t number, const graph::Node& node, const OperandTiles* place) {
    NodeTasks(*this, number, node, place).run();
}

}  // namespace nntile::tile
