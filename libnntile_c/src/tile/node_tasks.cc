// SPDX-License-Identifier: BSD-3-Clause
// Tasks of a node that has a relation: one for every tile of its iteration space. Labels of kind whole are not
// cut; partial results over cut reduce labels are accumulated in a fixed number of lanes, joined by a fixed tree, so
// that the bits depend on nothing but the cuts.
#include <algorithm>

#include "base/error.hh"
#include "graph/program.hh"
#include "tile/cost.hh"
#include "tile/lowering.hh"
#include "tile/program.hh"

namespace nntile::tile {

using graph::no_value;
using schema::LabelKind;

class NodeTasks {
public:
    NodeTasks(Lowering& all, uint32_t number)
        : all_(all), graph_(all.graph_), node_(graph_.nodes[number]), number_(number),
          row_(*node_.row), info_(space_of(graph_, node_)) {
        cut_labels();
        n_in_ = node_.inputs.size();
        n_out_ = node_.outputs.size();
        cuts_.reserve(n_in_ + n_out_);
        for (size_t k = 0; k < n_in_ + n_out_; ++k) place_operand(k);
        if (is_host()) return;
        program_ = row_.map_row >= 0 ? one_instruction(row_.map_row, node_.compute) : node_.program;
        kernel_ = kernels::find_kernel(program_ ? "map" : row_.kernel);
        check(kernel_, Status::internal, row_.name, ": no kernel '", row_.kernel, "'");
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
            if (!outputs_[k].own)
                all_.spread(node_.outputs[k], outputs_[k].grid, outputs_[k].tiles, dtypes_[k], number_);
    }

private:
    using Cuts = std::vector<Cut>;
    using Place = SmallVector<int, 6>;

    bool is_host() const { return node_.host_call >= 0; }

    uint32_t value_of(size_t operand) const {
        return operand < n_in_ ? node_.inputs[operand] : node_.outputs[operand - n_in_];
    }

    // The cut of each label is that of an output dim, else of an input dim; whole labels are not cut.
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
        for (size_t k = 0; k < node_.outputs.size(); ++k) look(node_.outputs[k], node_.inputs.size() + k);
        for (size_t k = 0; k < node_.inputs.size(); ++k) look(node_.inputs[k], k);
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
                    if (iteration_.dims[i].dim == static_cast<uint32_t>(label)) place.push_back(static_cast<int>(i));
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

    // The value's own tiles where the cuts agree; else temporaries that are spread over them afterwards. Partial sums
    // of short floats are kept in f32, but for a function of the host, which knows just the value's own dtype.
    void make_output(size_t k) {
        const uint32_t v = node_.outputs[k];
        const Cuts& cuts = cuts_[n_in_ + k];
        const graph::Value& value = graph_.value(v);
        if (auto blocks = all_.write_through(number_, cuts)) {
            outputs_.push_back(std::move(*blocks));
            dtypes_.push_back(value.dtype);
            return;
        }
        const bool widen = is_short_float(value.dtype) && !is_host() && count(LabelKind::reduce) > 1;
        const Grid grid = grid_of(value.sizes, cuts);
        const bool own = cuts == all_.tiling_.values[v].cuts && !widen;
        const DType dtype = widen ? DType::f32 : value.dtype;
        auto ids = all_.add_tiles(own ? v : none, grid, dtype, own ? all_.role_of(v) : TileRole::temporary);
        all_.tiles_[v] = own ? ids : all_.add_tiles(v, all_.grids_[v], value.dtype, all_.role_of(v));
        if (own && row_.rule == schema::Rule::map) reuse_input(k, ids);
        OperandTiles made{grid, {}, own};
        for (size_t i = 0; i < ids.size(); ++i)
            made.tiles.push_back({ids[i], 0, dense_strides(grid.sizes_of(grid.segments_of(static_cast<int64_t>(i))))});
        outputs_.push_back(std::move(made));
        dtypes_.push_back(dtype);
    }

    // An element-wise result may take the memory of an operand that nobody reads later; first the one with its name
    // (an optimizer's p, m, v).
    void reuse_input(size_t k, std::span<const uint32_t> ids) {
        const uint32_t out = node_.outputs[k];
        auto fits = [&](size_t i) {
            const uint32_t v = node_.inputs[i];
            if (v == no_value || !inputs_[i] || !inputs_[i]->own || taken_.count(v)) return false;
            const graph::Value& value = graph_.value(v);
            if (size_of(value.dtype) != size_of(graph_.value(out).dtype) || value.sizes != graph_.value(out).sizes)
                return false;
            if (!all_.dies_at(v, number_)) return false;
            for (size_t j = 0; j < n_in_; ++j)  // no other operand sees the same data in another way
                if (j != i && node_.inputs[j] != no_value && node_.inputs[j] != v &&
                    graph_.base_of(node_.inputs[j]) == v)
                    return false;
            return true;
        };
        std::optional<size_t> found;
        for (size_t i = 0; i < n_in_ && !found && !node_.program; ++i)
            if (row_.inputs[i].name == row_.outputs[k].name && fits(i)) found = i;
        for (size_t i = 0; i < n_in_ && !found && (n_out_ == 1 || node_.program); ++i)
            if (fits(i)) found = i;
        if (!found) return;
        const uint32_t v = node_.inputs[*found];
        taken_.insert({v, k});
        for (size_t t = 0; t < ids.size(); ++t) all_.out_.tiles.tiles[ids[t]].reuses = all_.tiles_[v][t];
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

    Task make_task(const Dims& segments, bool first, bool accumulate, std::span<const OperandTile> outs) {
        Task task;
        task.kernel = kernel_;
        task.program = program_;
        task.node = number_;
        task.sizes = iteration_.sizes_of(segments);
        task.flops = graph::flops_of(node_);
        for (int64_t n : task.sizes) task.flops *= static_cast<double>(n);
        task.operands.reserve(n_in_ + n_out_);
        for (size_t k = 0; k < n_in_; ++k) task.operands.push_back(input_at(k, segments, first));
        for (size_t k = 0; k < n_out_; ++k) {
            const int64_t bytes = product(task.sizes) * size_of(dtypes_[k]);     // of a part, the others stay
            const bool part = is_element_wise(node_) && bytes < all_.out_.tiles.tiles[outs[k].tile].bytes;
            task.operands.push_back(operand_of(n_in_ + k, outs[k], dtypes_[k],
                                               accumulate || part ? Access::read_write : Access::write));
        }
        for (const Operand& o : task.operands) task.bytes += bytes_of(task, o);
        set_params(task, accumulate);
        if (program_ && kernels::uses_index(*program_)) set_index(task, segments);
        return task;
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

    void set_params(Task& task, bool accumulate) const {
        std::vector<schema::ParamSpec> specs;
        if (row_.params) row_.params({row_, info_.inputs, node_.attrs, node_.compute}, accumulate, specs);
        else
            for (size_t a = 0; a < row_.attrs.size(); ++a)
                if (row_.attrs[a].kind == schema::AttrKind::real || row_.attrs[a].kind == schema::AttrKind::seed)
                    specs.push_back({static_cast<int>(a), {}});
        for (const schema::ParamSpec& s : specs) {
            ParamRef p;
            p.fixed = s.fixed;
            if (s.attr >= 0) {
                const schema::Attr& a = node_.attrs[s.attr];
                p.scalar = a.slot != no_value;
                p.slot = a.slot;
                p.fixed.i = a.i;
            }
            task.params.push_back(p);
        }
    }

    // Linear index over the unrefined output, so that random numbers do not depend on cuts.
    void set_index(Task& task, const Dims& segments) const {
        const Dims own = dense_strides(info_.outputs[0].sizes);
        task.index_strides.assign(iteration_.dims.size(), 0);
        for (size_t i = 0; i < iteration_.dims.size(); ++i) {
            const GridDim& d = iteration_.dims[i];
            int64_t stride = own[d.dim];
            for (size_t j = i + 1; j < iteration_.dims.size() && iteration_.dims[j].dim == d.dim; ++j)
                stride *= iteration_.dims[j].extent;
            task.index_strides[i] = stride;
            task.index_offset += d.starts[segments[i]] * stride;
        }
    }

    // The kernel wants exactly one dim for each of the last kernel_dims labels and for whole labels; the others may
    // be merged with each other. False: some operand has to be made dense first.
    bool finish(Task& task) const {
        const size_t rank = iteration_.dims.size();
        const auto& labels = info_.relation.labels;
        auto label = [&](size_t i) { return iteration_.dims[i].dim; };
        auto own = [&](size_t l) {
            return l + row_.kernel_dims >= labels.size() || labels[l].kind == LabelKind::whole;
        };
        Flags merge(rank, false), keep(rank, false);
        for (size_t i = 0; i < rank; ++i) {
            merge[i] = i + 1 < rank && (label(i) == label(i + 1) || (!own(label(i)) && !own(label(i + 1))));
            bool ones = true;                   // the last one of a label's size-1 dims stays
            for (size_t j = 0; j < rank; ++j) ones = ones && (label(j) != label(i) || task.sizes[j] == 1);
            keep[i] = own(label(i)) && ones && (i + 1 == rank || label(i + 1) != label(i));
        }
        const auto left = coalesce_task(task, merge, keep);
        SmallVector<int, 8> dims(labels.size(), 0);
        for (size_t i : left) ++dims[label(i)];
        for (size_t l = 0; l < labels.size(); ++l)
            if (own(l) && dims[l] != 1) return false;
        if (row_.rule != schema::Rule::contract) return true;
        const size_t n = left.size();
        const int64_t M = task.sizes[n - 3], N = task.sizes[n - 2], K = task.sizes[n - 1];
        const Dims &a = task.operands[0].strides, &b = task.operands[1].strides;
        return kernels::gemm_layout_ok(M, K, a[n - 3], a[n - 1]) && kernels::gemm_layout_ok(K, N, b[n - 1], b[n - 2]);
    }

    // All that a function of the host is told: its rows of the batch, and whether it adds to its outputs.
    void make_host_call(Task& task, bool accumulate) {
        task.host_call = node_.host_call;
        task.sizes = {product(task.sizes)};
        task.flops = task.bytes * host_weight(graph_.hosts[node_.host_call].name);
        for (Operand& o : task.operands) o.strides.clear();
        task.params.emplace_back().fixed.i = accumulate;
        ++all_.out_.host_calls;
    }

    void add(const Dims& segments, bool first, bool accumulate, std::span<const OperandTile> outs) {
        Task task = make_task(segments, first, accumulate, outs);
        if (is_host()) {
            make_host_call(task, accumulate);
        } else if (!finish(task)) {
            for (size_t k = 0; k < n_in_; ++k) bind_input(k, true);
            task = make_task(segments, first, accumulate, outs);
            check(finish(task), Status::internal, row_.name, ": dense operands do not fit the kernel");
        }
        all_.push(std::move(task));
    }

    // All partial results of one output tile.
    void add_chain(Dims segments, int64_t partials, int64_t chains) {
        const int64_t lanes = lanes_of(chains, partials);
        std::vector<SmallVector<OperandTile, 2>> outs(lanes);
        for (size_t k = 0; k < n_out_; ++k) {
            const OperandTile own = tile_at(outputs_[k], n_in_ + k, segments);
            outs[0].push_back(own);
            for (int64_t lane = 1; lane < lanes; ++lane) {
                Tile tile = all_.out_.tiles.tiles[own.tile];
                tile.value = none;
                tile.role = TileRole::temporary;
                all_.out_.tiles.tiles.push_back(tile);
                OperandTile partial = own;
                partial.tile = static_cast<uint32_t>(all_.out_.tiles.tiles.size() - 1);
                outs[lane].push_back(std::move(partial));
            }
        }
        for (int64_t r = 0; r < partials; ++r) {
            at(LabelKind::reduce, r, segments);
            add(segments, r == 0, r >= lanes, outs[r % lanes]);
        }
        for (int64_t step = 1; step < lanes; step *= 2)
            for (int64_t lane = 0; lane + step < lanes; lane += 2 * step)
                for (size_t k = 0; k < n_out_; ++k)
                    all_.add_join(row_, outs[lane][k], outs[lane + step][k], dtypes_[k], number_);
    }

    Lowering& all_;
    const graph::Graph& graph_;
    const graph::Node& node_;
    const uint32_t number_;
    const schema::OpRow& row_;
    const NodeSpace info_;
    size_t n_in_ = 0, n_out_ = 0;
    Cuts label_cuts_;
    Grid iteration_;                            // refined dims; GridDim::dim is the label
    std::vector<Cuts> cuts_;                    // by operand: how the node wants it cut
    SmallVector<Place, 4> places_;              // by operand and its refined dim: iteration dim, or -1
    std::vector<const OperandTiles*> inputs_;   // nullptr: absent or a number
    std::vector<OperandTiles> outputs_;
    std::vector<DType> dtypes_;                 // of the output tiles as the tasks write them
    std::map<uint32_t, size_t> taken_;          // values whose memory an output has taken
    std::shared_ptr<const kernels::Program> program_;
    const kernels::KernelRow* kernel_ = nullptr;
};

void Lowering::lower_node(uint32_t number) { NodeTasks(*this, number).run(); }

}  // namespace nntile::tile
