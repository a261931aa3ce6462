// SPDX-License-Identifier: BSD-3-Clause
#include "tile/task_bytes.hh"

#include <algorithm>
#include <cmath>

#include "graph/program.hh"
#include "tile/upload.hh"

namespace nntile::tile {

using graph::no_value;
using graph::ValueKind;
using schema::LabelKind;

namespace {

constexpr double of_a_float = 4;  // partial sums of short floats are wider

double bytes_of(const graph::Value& value) {
    return static_cast<double>(product(value.sizes)) * static_cast<double>(size_of(value.dtype));
}

}  // namespace

double TaskBytes::most_of(const Related& related) {
    double bytes = 0;
    for (uint32_t v = 0; v < related.graph.values.size(); ++v) {
        const graph::Value& value = related.graph.value(v);
        if (related.live.values[v] && value.kind != ValueKind::scalar) bytes += bytes_of(value);
    }
    return 2 * bytes;  // as a copy has both sides
}

TaskBytes::TaskBytes(const Related& related, const Axes& axes)
    : related_(related),
      axes_(axes),
      stored_(related.graph.values.size(), 0),
      kept_(related.graph.values.size(), false) {
    const graph::Graph& g = related.graph;
    for (const graph::Output& out : g.outputs) kept_[g.base_of(out.value)] = true;
    for (const graph::Input& in : g.inputs) {
        if (!in.stored || !related.live.values[in.value]) continue;
        double& bytes = stored_[in.value];
        bytes = static_cast<double>(size_of(g.value(in.value).dtype));
        const Dims& sizes = g.value(in.value).sizes;
        for (size_t d = 0; d < sizes.size(); ++d)
            bytes *= static_cast<double>(d < in.stored->cuts.size() ? longest(in.stored->cuts[d])
                                                                    : sizes[d]);
    }
    for (uint32_t n = 0; n < g.nodes.size(); ++n) {
        if (!related.live.nodes[n]) continue;
        const graph::Node& node = g.nodes[n];
        if (graph::parts_of(node).before) add(graph::prologue_of(node), related.spaces[n]);
        if (node.row->rule == schema::Rule::write) {
            Job job;
            job.writes = true;
            for (int dim : related.dims[node.outputs[0]])  // those of the data follow
                if (axes.extent(dim) > 1)
                    job.labels.push_back({axes.find(dim), axes.extent(dim), LabelKind::parallel});
            job.operands = {operand_of(node.inputs[0], false),
                            operand_of(graph::data_of(node), false),
                            operand_of(node.outputs[0], true)};
            jobs_.push_back(std::move(job));
        } else if (node.row->rule == schema::Rule::bits) {
            Job job;
            job.bits = true;
            const int dim = related.dims[node.outputs[0]][0];
            if (axes.extent(dim) > 1)
                job.labels.push_back({axes.find(dim), axes.extent(dim), LabelKind::parallel});
            job.operands = {operand_of(node.inputs[0], false), operand_of(node.outputs[0], true)};
            jobs_.push_back(std::move(job));
        } else if (!schema::only_moves(node.row->rule)) {
            add(node, related.spaces[n]);
        }
    }
}

TaskBytes::Operand TaskBytes::operand_of(uint32_t v, bool output) const {
    const graph::Graph& g = related_.graph;
    Operand o{v, g.base_of(v), static_cast<double>(size_of(g.value(v).dtype))};
    o.output = output;
    o.own = true;
    return o;
}

// As Reuse::take_copy()
int TaskBytes::taken_by(const graph::Node& node, size_t output, const Job& job) const {
    const uint32_t i = namesake_of(related_.graph, node, output);
    if (i >= node.inputs.size() || node.inputs[i] == no_value) return -1;
    const uint32_t base = related_.graph.base_of(node.inputs[i]);
    int found = -1;
    for (size_t k = 0; k < job.operands.size(); ++k) {
        if (job.operands[k].output || job.operands[k].base != base) continue;
        if (found >= 0) return -1;
        found = static_cast<int>(k);
    }
    return found;
}

void TaskBytes::add(const graph::Node& node, const NodeSpace& space) {
    Job job;
    for (const schema::Label& l : space.relation.labels)
        job.labels.push_back({-1, l.extent, l.kind});
    const graph::Part own = graph::parts_of(node).own;
    const size_t n_in = node.inputs.size();
    for (size_t k = 0; k < n_in + node.outputs.size(); ++k) {
        const uint32_t v = k < n_in ? node.inputs[k] : node.outputs[k - n_in];
        if (v == no_value || related_.graph.value(v).kind == ValueKind::scalar) continue;
        Operand o = operand_of(v, k >= n_in);
        o.own = k < n_in ? k < own.inputs.size() : k - n_in < own.outputs.size();
        o.labels = space.labels_of(k);
        const AxisDims& dims = related_.dims[v];
        for (size_t d = 0; d < o.labels.size() && d < dims.size(); ++d)
            if (o.labels[d] >= 0 && axes_.extent(dims[d]) > 1)
                job.labels[o.labels[d]].dim = axes_.find(dims[d]);
        if (o.output && o.own) o.takes = taken_by(node, k - n_in, job);
        for (size_t d = 0; o.takes >= 0 && d < o.labels.size(); ++d)
            if (o.labels[d] >= 0) job.labels[o.labels[d]].in_place = true;
        job.operands.push_back(std::move(o));
    }
    jobs_.push_back(std::move(job));
}

bool TaskBytes::is_cut_by_tasks(int axis) const {
    return std::any_of(jobs_.begin(), jobs_.end(), [&](const Job& job) {
        return std::any_of(job.labels.begin(), job.labels.end(),
                           [&](const Label& l) { return l.helps() && l.dim == axis; });
    });
}

bool TaskBytes::are_alike(size_t a, size_t b) const {
    const Job &x = jobs_[a], &y = jobs_[b];
    return x.operands.size() == y.operands.size() &&
           std::equal(x.labels.begin(), x.labels.end(), y.labels.begin(), y.labels.end(),
                      [](const Label& l, const Label& m) {
                          return l.extent == m.extent && l.kind == m.kind;
                      });
}

const graph::Stored* TaskBytes::stored_of(uint32_t base) const {
    return stored_[base] > 0 ? related_.graph.inputs[related_.graph.value(base).source].stored.get()
                             : nullptr;
}

// Its tiles are those that are stored. As Tiler::keep_stored(): cuts of the user change them.
bool TaskBytes::keeps(uint32_t base, const std::vector<bool>& taken_over) const {
    const graph::Stored* stored = stored_of(base);
    if (!stored || taken_over[base]) return false;
    const AxisDims& dims = related_.dims[base];
    for (size_t d = 0; d < dims.size(); ++d) {
        const bool same = d < stored->cuts.size()
                              ? normal(stored->cuts[d]) == axes_.factors(dims[d])
                              : is_whole(axes_.factors(dims[d]));
        if (!same && axes_.level(dims[d]) != automatic_cut) return false;
    }
    return true;
}

bool TaskBytes::is_cut(uint32_t v) const {
    const AxisDims& dims = related_.dims[v];
    return std::any_of(dims.begin(), dims.end(), [&](int d) { return axes_.segments(d) > 1; });
}

bool TaskBytes::is_one_tile(uint32_t base, const std::vector<bool>& taken_over) const {
    if (!keeps(base, taken_over)) return !is_cut(base);
    const auto& cuts = stored_of(base)->cuts;
    return std::all_of(cuts.begin(), cuts.end(), [](const Cut& cut) { return is_whole(cut); });
}

double TaskBytes::tile_of(uint32_t base, const std::vector<bool>& taken_over) const {
    if (keeps(base, taken_over)) return stored_[base];
    auto bytes = static_cast<double>(size_of(related_.graph.value(base).dtype));
    for (int dim : related_.dims[base])
        bytes *= static_cast<double>(axes_.extent(dim) == 0 ? 0 : longest(axes_.factors(dim)));
    return bytes;
}

// As Estimator::fits()
bool TaskBytes::fits(uint32_t base) const {
    const graph::Stored& stored = *stored_of(base);
    const AxisDims& dims = related_.dims[base];
    for (size_t d = 0; d < dims.size() && d < stored.cuts.size(); ++d)
        if (!refines(axes_.factors(dims[d]), normal(stored.cuts[d]))) return false;
    return true;
}

TaskBytes::Seen TaskBytes::seen(const Job& job, const Operand& o,
                                const std::vector<bool>& taken_over) const {
    const AxisDims& dims = related_.dims[o.value];
    double block = o.element;
    bool gathered = false, summed = false;
    for (const Label& l : job.labels)
        summed |= l.kind == LabelKind::reduce && l.dim >= 0 && axes_.segments(l.dim) > 1;
    for (size_t d = 0; d < dims.size(); ++d) {
        const int label = d < o.labels.size() ? o.labels[d] : -1;
        const bool cut = job.writes || (label >= 0 && job.labels[label].kind != LabelKind::whole);
        block *= static_cast<double>(
            cut ? axes_.extent(dims[d]) == 0 ? 0 : longest(axes_.factors(dims[d]))
                : axes_.extent(dims[d]));
        gathered |= !cut && axes_.segments(dims[d]) > 1;
    }
    if (o.output) {
        const double tile = tile_of(o.base, taken_over);
        if (o.own && summed && o.element < of_a_float) {
            gathered = true;
            block *= of_a_float / o.element;
        }
        return gathered ? Seen{block, block + tile, o.value} : Seen{tile, 0, o.value};
    }
    const double tile = tile_of(o.base, taken_over);
    const bool one = is_one_tile(o.base, taken_over);
    if (one) return {tile, 0, o.base};  // every block is one of it
    const int link = related_.links[o.value];
    gathered |= link >= 0 && !axes_.lines_up(static_cast<size_t>(link));
    if (keeps(o.base, taken_over) && !fits(o.base))
        return {block, block + read_from(o.base), o.value};
    return gathered ? Seen{block, block + tile, o.value} : Seen{tile, 0, o.value};
}

// Of stored data that takes other tiles: what a copy reads. Where old and new tiles meet in too
// many pieces, all of it is put together first, as tile_pieces() has it.
double TaskBytes::read_from(uint32_t base) const {
    constexpr int64_t few = 4096, for_a_tile = 64;
    const auto& cuts = stored_of(base)->cuts;
    const AxisDims& dims = related_.dims[base];
    int64_t pieces = 1, tiles = 1;
    for (size_t d = 0; d < dims.size() && d < cuts.size(); ++d) {
        const Cut now = axes_.factors(dims[d]), old = normal(cuts[d]);
        const int64_t segments = axes_.segments(dims[d]);
        int64_t met = segments;
        if (old.size() == 1) {
            Positions all = old[0].positions;
            if (now.size() == 1) all.append(now[0].positions.begin(), now[0].positions.end());
            std::sort(all.begin(), all.end());
            met = std::unique(all.begin(), all.end()) - all.begin() + 1;
        }
        pieces *= std::max(met, segments);
        tiles *= segments;
    }
    return pieces > std::max(few, for_a_tile * tiles) ? bytes_of(related_.graph.value(base))
                                                      : stored_[base];
}

// What a copy needs that brings stored data into other tiles. Of stored tiles that leave little
// room none is asked for: a tile that large has to be read once.
double TaskBytes::retile(uint32_t base, const std::vector<bool>& taken_over, double most) const {
    if (stored_[base] == 0 || stored_[base] > most / 2 || keeps(base, taken_over)) return 0;
    const auto& cuts = stored_of(base)->cuts;
    const AxisDims& dims = related_.dims[base];
    bool same = true;
    for (size_t d = 0; d < dims.size() && d < cuts.size(); ++d)
        same = same && normal(cuts[d]) == axes_.factors(dims[d]);
    return same ? 0 : read_from(base) + tile_of(base, taken_over);
}

// Large data that is kept is cut as an upload is: tasks of later graphs need several tiles of it.
double TaskBytes::for_later(const Job& job, const std::vector<bool>& taken_over,
                            double most) const {
    double bytes = 0;
    for (const Operand& o : job.operands)
        if (o.output && kept_[o.base] && bytes_of(related_.graph.value(o.base)) > most / 2)
            bytes = std::max(bytes, tiles_in_a_task * tile_of(o.base, taken_over));
    return bytes;
}

// Two partial results that are joined.
double TaskBytes::joins(const Job& job, double result) const {
    int64_t parallel = 1, parts = 1;
    for (const Label& l : job.labels)
        if (l.can_be_cut())
            (l.kind == LabelKind::parallel ? parallel : parts) *= axes_.segments(l.dim);
    return parts > 1 && lanes_of(parallel, parts) > 1 ? 2 * result : 0;
}

double TaskBytes::need(const Job& job, const std::vector<bool>& taken_over, double most) const {
    if (job.writes) {  // the old data is copied, then something is written over the copy
        const Seen old = seen(job, job.operands[0], taken_over),
                   data = seen(job, job.operands[1], taken_over);
        const double made = seen(job, job.operands[2], taken_over).bytes;
        return std::max({old.bytes + made, data.bytes + made, old.copy, data.copy});
    }
    if (job.bits) {  // a range is copied, where it is in one tile or after it was put together
        const Operand &x = job.operands[0], &y = job.operands[1];
        const double made = tile_of(y.base, taken_over), data = tile_of(x.base, taken_over);
        return is_one_tile(x.base, taken_over) ? data + made : made + std::max(made, data);
    }
    double all = 0, largest = 0, result = 0;
    for (const Operand& o : job.operands)
        largest = std::max(largest, retile(o.base, taken_over, most));
    struct Base {
        uint32_t base;
        double bytes;
    };
    SmallVector<uint32_t, 8> tiles;
    SmallVector<Base, 8> bases;  // tiles of a value are no more than all of it
    for (const Operand& o : job.operands) {
        const Seen own = seen(job, o, taken_over);
        largest = std::max(largest, own.copy);
        if (o.takes >= 0 && own.copy > 0) {
            const Operand& from = job.operands[o.takes];
            const Seen in = seen(job, from, taken_over);
            if (in.copy > 0 && in.bytes == own.bytes && from.labels == o.labels) continue;
        }
        if (o.output && o.own) result = std::max(result, own.bytes);
        if (std::find(tiles.begin(), tiles.end(), own.tile) != tiles.end()) continue;
        tiles.push_back(own.tile);
        double bytes = own.bytes;
        if (own.copy == 0) {
            auto* known = std::find_if(bases.begin(), bases.end(),
                                       [&](const Base& b) { return b.base == o.base; });
            if (known == bases.end()) {
                bases.push_back({o.base, 0});
                known = bases.end() - 1;
            }
            bytes = std::min(bytes, bytes_of(related_.graph.value(o.base)) - known->bytes);
            known->bytes += bytes;
        }
        all += bytes;
    }
    return std::max({all, largest, joins(job, result)});
}

TaskBytes::Needs TaskBytes::needs(double most, std::vector<bool> taken_over) const {
    Needs found{{}, 0, std::move(taken_over)};
    found.jobs.reserve(jobs_.size());
    for (const Job& job : jobs_) {
        const double bytes = need(job, found.taken_over, most);
        found.largest = std::max(found.largest, bytes);
        found.jobs.push_back(std::max(bytes, for_later(job, found.taken_over, most)));
        found.excess += std::log2(std::max(found.jobs.back() / most, 1.0));
    }
    return found;
}

// All of it is copied for this graph, for its tiles are none that a task could read.
bool TaskBytes::is_copied(const Job& job, const Operand& o) const {
    const graph::Graph& g = related_.graph;
    const std::vector<bool> none(stored_.size(), false);
    return keeps(o.base, none) && !is_one_tile(o.base, none) && seen(job, o, none).copy > 0 &&
           product(g.value(o.value).sizes) >= product(g.value(o.base).sizes);
}

TaskBytes::Needs TaskBytes::operator()(double most) const {
    Needs kept = needs(most, std::vector<bool>(stored_.size(), false));
    std::vector<bool> copied(stored_.size(), false), large(stored_.size(), false);
    for (size_t j = 0; j < jobs_.size(); ++j) {
        for (const Operand& o : jobs_[j].operands) {
            if (o.output || stored_[o.base] == 0) continue;
            const double bytes = bytes_of(related_.graph.value(o.base));
            if (bytes < most / 16) continue;
            // What is smaller is no upload that the limit has cut: see upload_cuts().
            if (bytes > most / 2 && is_copied(jobs_[j], o)) copied[o.base] = true;
            if (kept.jobs[j] > most || copied[o.base]) large[o.base] = true;
        }
    }
    // Data that is copied anyway is better kept as the copy is: the next graph reads it likewise.
    const auto any = [](const std::vector<bool>& of) {
        return std::find(of.begin(), of.end(), true) != of.end();
    };
    if (any(large)) {
        Needs taken = needs(most, std::move(large));
        if (taken.excess < kept.excess) return taken;
    }
    if (any(copied)) {
        Needs taken = needs(most, std::move(copied));
        if (taken.excess <= kept.excess) return taken;
    }
    return kept;
}

}  // namespace nntile::tile
