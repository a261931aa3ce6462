// SPDX-License-Identifier: BSD-3-Clause
#include "tile/estimate.hh"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "graph/program.hh"

namespace nntile::tile {

using graph::no_value;
using schema::LabelKind;

namespace {

// Bytes that could be read in the time of a miss that no prefetch sees coming: 150 ns, measured
// with rows of 896 bytes.
constexpr double bytes_of_miss = 1024;
constexpr double bytes_of_line = 64;

}  // namespace

Estimator::Estimator(const Related& related, const Axes& axes, const Cost& cost)
    : related_(related), all_(axes), cost_(cost), axis_of_dim_(axes.dim_count(), -1) {
    const graph::Graph& g = related.graph;
    std::vector<size_t> made(g.values.size(), 0);  // level from which a value can be read
    for (uint32_t n = 0; n < g.nodes.size(); ++n) {
        if (!related.live.nodes[n]) continue;
        const graph::Node& node = g.nodes[n];
        const auto level_of = [&](const graph::Node& reads) {
            size_t level = 0;
            for (uint32_t v : reads.inputs)
                if (v != no_value) level = std::max(level, made[g.base_of(v)]);
            return level;
        };
        size_t level = level_of(node);
        if (graph::parts_of(node)
                .before) {  // a job of its own: it is, where the tiles do not line up
            const graph::Node first = graph::prologue_of(node);
            const size_t earlier = level_of(first);
            add(n, first, earlier);
            level = std::max(level, earlier + 1);
        }
        add(n, node, level);
        for (uint32_t v : node.outputs) made[v] = level + 1;
        levels_ = std::max(levels_, level + 1);
    }
    while (sizes_ < Estimate{}.seconds.size() && (2 << (sizes_ - 1)) <= cost.machine.workers)
        ++sizes_;
    const std::vector<AxisState> uncut = whole_axes();
    for (Job& job : jobs_) {
        job.seconds = task_seconds(job, uncut) + epilogue_seconds(job, uncut);
        whole_ += job.seconds;
    }
}

std::vector<Estimator::AxisState> Estimator::whole_axes() const {
    std::vector<AxisState> axes;
    for (int dim : axes_) axes.push_back({1, static_cast<double>(all_.extent(dim))});
    return axes;
}

int Estimator::axis_of(int dim) {
    const int root = all_.find(dim);
    int& axis = axis_of_dim_[static_cast<size_t>(root)];
    if (axis < 0) {
        axis = static_cast<int>(axes_.size());
        axes_.push_back(root);
    }
    return axis;
}

Estimator::Operand Estimator::operand_of(uint32_t v, bool output) {
    const graph::Graph& g = related_.graph;
    Operand o;
    o.output = output;
    if (v == no_value || g.value(v).kind == graph::ValueKind::scalar) return o;
    const graph::Value& value = g.value(v);
    o.element = static_cast<double>(size_of(value.dtype));
    o.bytes = o.element * static_cast<double>(product(value.sizes));
    for (int dim : related_.dims[v]) o.axes.push_back(all_.extent(dim) > 1 ? axis_of(dim) : -1);
    o.link = related_.links[v];
    const uint32_t base = g.base_of(v);
    if (g.value(base).kind != graph::ValueKind::input) return o;
    const graph::Input& in = g.inputs[g.value(base).source];
    if (!in.stored) return o;
    for (const Cut& cut : in.stored->cuts)
        if (!is_whole(cut)) o.stored = base;
    o.in_one = o.stored < 0;
    o.strides = g.layout_of(v).strides;
    return o;
}

void Estimator::add(uint32_t number, const graph::Node& node, size_t level) {
    const graph::Graph& g = related_.graph;
    const NodeSpace& space = related_.spaces[number];
    Job job;
    job.level = level;
    job.sparse = node.row->sparse;
    if (schema::only_moves(node.row->rule)) {
        if (node.row->rule != schema::Rule::write) return;
        job.kind = Kind::move;
        job.operands = {operand_of(node.inputs[0], false), operand_of(graph::data_of(node), false),
                        operand_of(node.outputs[0], true)};
        jobs_.push_back(std::move(job));
        return;
    }
    for (size_t k = 0; k < node.inputs.size(); ++k)
        job.operands.push_back(operand_of(node.inputs[k], false));
    for (uint32_t v : node.outputs) job.operands.push_back(operand_of(v, true));
    job.dtype = node.outputs.empty() ? DType::f32 : g.value(node.outputs[0]).dtype;
    const kernels::KernelRow* kernel =
        node.row->kernel.empty() ? nullptr : kernels::find_kernel(node.row->kernel);
    const auto works = [&](kernels::Work work) { return kernel && kernel->work == work; };
    job.kind = node.host_call >= 0                        ? Kind::host
               : node.row->rule == schema::Rule::contract ? Kind::product
               : works(kernels::Work::flops)              ? Kind::flops
               : works(kernels::Work::reorders)           ? Kind::reorders
               : works(kernels::Work::visits)             ? Kind::visits
                                                          : Kind::pass;
    if (kernel && job.dtype == DType::f32) job.as_they_lie = kernel->as_they_lie;
    job.flops =
        node.host_call >= 0 ? host_weight(g.hosts[node.host_call].name) : flops_of(node, space);
    const graph::Parts parts = graph::parts_of(node);
    if (parts.after) job.epilogue = graph::flops_of(*parts.after.program);
    for (size_t k = 0; k < parts.after.inputs.size(); ++k)
        job.operands[parts.own.inputs.size() + k].epilogue = true;
    for (size_t k = 0; k < parts.after.outputs.size(); ++k)
        job.operands[node.inputs.size() + parts.own.outputs.size() + k].epilogue = true;
    for (const schema::Label& l : space.relation.labels)
        job.labels.push_back({-1, static_cast<double>(l.extent), l.kind});
    for (size_t k = 0; k < job.operands.size(); ++k) {
        Operand& o = job.operands[k];
        o.labels = space.labels_of(k);
        for (size_t d = 0; d < o.labels.size() && d < o.axes.size(); ++d)
            if (o.labels[d] >= 0 && o.axes[d] >= 0) job.labels[o.labels[d]].axis = o.axes[d];
    }
    jobs_.push_back(std::move(job));
}

double Estimator::block(const Job& job, const Operand& operand,
                        const std::vector<AxisState>& axes) const {
    double bytes = operand.element;
    for (size_t d = 0; d < operand.labels.size() && d < operand.axes.size(); ++d) {
        if (operand.axes[d] < 0) continue;  // an extent of 1
        const int label = operand.labels[d];
        if (label >= 0 && job.labels[label].kind == LabelKind::whole && job.sparse &&
            !operand.output)
            continue;
        const bool cut = label >= 0 && job.labels[label].kind != LabelKind::whole;
        bytes *= cut ? axes[operand.axes[d]].length
                     : static_cast<double>(all_.extent(axes_[operand.axes[d]]));
    }
    return bytes;
}

// Tiles lie one behind the other, but a block of a tile is as many runs as its outer dims have
// elements.
double Estimator::with_runs(const Operand& operand, double bytes,
                            const std::vector<AxisState>& axes) const {
    if (!operand.in_one) return bytes;
    SmallVector<size_t, 8> order;  // innermost dims first
    for (size_t d = operand.axes.size(); d-- > 0;)
        if (operand.axes[d] >= 0 && operand.strides[d] != 0) order.push_back(d);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return std::abs(operand.strides[a]) < std::abs(operand.strides[b]);
    });
    double run = operand.element;
    for (size_t d : order) {
        const AxisState& axis = axes[operand.axes[d]];
        run *= axis.length;
        if (axis.segments <= 1) continue;
        // Of a cache line that several blocks share each reads all.
        const double apart =
            run < bytes_of_line ? run * static_cast<double>(axis.segments - 1) : bytes_of_miss;
        return bytes + std::max(bytes / run, 1.0) * std::min(apart, bytes_of_miss);
    }
    return bytes;
}

double Estimator::block_and_runs(const Job& job, const Operand& operand,
                                 const std::vector<AxisState>& axes) const {
    return with_runs(operand, block(job, operand, axes), axes);
}

double Estimator::length(const Label& l, const std::vector<AxisState>& axes) {
    return l.axis < 0 || l.kind == LabelKind::whole ? l.extent : axes[l.axis].length;
}

double Estimator::epilogue_seconds(const Job& job, const std::vector<AxisState>& axes) const {
    if (job.epilogue == 0) return 0;
    double flops = job.epilogue, bytes = 0;
    for (const Label& l : job.labels)
        if (l.kind == LabelKind::parallel) flops *= length(l, axes);
    for (const Operand& o : job.operands)
        if (o.epilogue && o.element > 0) bytes += block(job, o, axes);
    return cost_.epilogue(flops, bytes);
}

bool Estimator::reads_as_they_lie(const Job& job, const std::vector<AxisState>& axes) {
    if (!job.as_they_lie) return false;
    SmallVector<int64_t, 10> sizes;
    for (const Label& l : job.labels) sizes.push_back(static_cast<int64_t>(length(l, axes)));
    return job.as_they_lie(sizes);
}

double Estimator::task_seconds(const Job& job, const std::vector<AxisState>& axes) const {
    const size_t n = job.labels.size();
    if (job.kind == Kind::product) {
        double count = 1;
        for (size_t i = 0; i + 3 < n; ++i) count *= length(job.labels[i], axes);
        return cost_.product(length(job.labels[n - 3], axes), length(job.labels[n - 2], axes),
                             length(job.labels[n - 1], axes), count, job.dtype);
    }
    if (job.kind == Kind::move) return 0;
    double bytes = 0;
    for (const Operand& o : job.operands)
        if (o.element > 0)
            bytes += job.kind == Kind::host ? block(job, o, axes) : block_and_runs(job, o, axes);
    if (job.kind == Kind::host) return cost_.host(bytes, job.flops);
    double flops = job.flops;
    for (const Label& l : job.labels)
        if (!(job.sparse && l.kind == LabelKind::whole)) flops *= length(l, axes);
    if (job.kind == Kind::visits) return cost_.visits(flops, job.dtype);
    if (job.kind == Kind::reorders && !reads_as_they_lie(job, axes))
        return cost_.reorders(flops, bytes, job.dtype);
    return job.kind == Kind::flops || job.kind == Kind::reorders
               ? cost_.flops(flops, bytes, job.dtype)
               : cost_.pass(flops, bytes);
}

bool Estimator::fits(uint32_t input) const {
    const graph::Stored& stored = *related_.graph.inputs[related_.graph.value(input).source].stored;
    const AxisDims& dims = related_.dims[input];
    for (size_t d = 0; d < dims.size() && d < stored.cuts.size(); ++d)
        if (all_.level(dims[d]) == automatic_cut &&
            !refines(all_.factors(dims[d]), normal(stored.cuts[d])))
            return false;
    return true;
}

void Estimator::estimate_job(const Job& job, const Now& now, std::vector<Sum>& levels,
                             Estimate& all) const {
    Sum& level = levels[job.level];
    const Machine& machine = cost_.machine;
    auto tiles = [&](const Operand& o) {
        double n = 1;
        for (int axis : o.axes)
            if (axis >= 0) n *= static_cast<double>(now.axes[axis].segments);
        return n;
    };
    auto copy = [&](const Operand& o, bool in_turn) {
        const double n = tiles(o), block = o.bytes / n, read = with_runs(o, block, now.axes);
        const double work = cost_.copy((block + read) / 2) * n + n * machine.task_seconds;
        level.work += work;
        level.longest = std::max(level.longest, in_turn ? work : work / n);
        all.copied += o.bytes;
        all.tasks += static_cast<int64_t>(n);
    };
    if (job.kind == Kind::move) {
        copy(job.operands[1], tiles(job.operands[0]) <= 1);
        const Operand& base = job.operands[0];
        if (base.stored >= 0 && !fits(static_cast<uint32_t>(base.stored))) copy(base, false);
        return;
    }
    for (const Operand& o : job.operands) {
        if (o.element == 0) continue;
        bool gathered = false;
        for (size_t d = 0; d < o.axes.size() && d < o.labels.size(); ++d)
            gathered |= o.axes[d] >= 0 && now.axes[o.axes[d]].segments > 1 &&
                        (o.labels[d] < 0 || job.labels[o.labels[d]].kind == LabelKind::whole);
        if (gathered) copy(o, true);
        else if (o.link >= 0 && !now.lines_up[o.link]) copy(o, false);
        else if (o.stored >= 0 && !fits(static_cast<uint32_t>(o.stored))) copy(o, false);
    }
    double parallel = 1, parts = 1;
    for (const Label& l : job.labels) {
        if (l.axis < 0 || l.kind == LabelKind::whole) continue;
        (l.kind == LabelKind::parallel ? parallel : parts) *=
            static_cast<double>(now.axes[l.axis].segments);
    }
    const double task = machine.task_seconds + task_seconds(job, now.axes);
    const auto lanes =
        static_cast<double>(lanes_of(static_cast<int64_t>(parallel), static_cast<int64_t>(parts)));
    const double epilogue = epilogue_seconds(job, now.axes);
    double chain = std::ceil(parts / lanes) * task + epilogue;
    level.work += parallel * (parts * task + epilogue);
    all.tasks += static_cast<int64_t>(parallel * parts);
    if (lanes > 1) {
        double bytes = 0;
        for (const Operand& o : job.operands)
            if (o.output && !o.epilogue) bytes += block(job, o, now.axes);
        const double join = machine.task_seconds + cost_.pass(bytes / 4, 3 * bytes);
        level.work += parallel * (lanes - 1) * join;
        chain += std::ceil(std::log2(lanes)) * join;
        all.tasks += static_cast<int64_t>(parallel * (lanes - 1));
    }
    level.longest = std::max(level.longest, chain);
    level.spread |= parallel * parts > 1;
}

Estimate Estimator::operator()() const {
    Now now;
    for (int dim : axes_) {
        const int64_t n = all_.segments(dim);
        now.axes.push_back({n, static_cast<double>(all_.extent(dim)) / static_cast<double>(n)});
    }
    for (size_t l = 0; l < all_.link_count(); ++l) now.lines_up.push_back(all_.lines_up(l));
    std::vector<Sum> levels(levels_);
    Estimate all;
    for (const Job& job : jobs_) estimate_job(job, now, levels, all);
    for (const Sum& level : levels)
        for (size_t w = 0; w < sizes_; ++w) {
            const double spread = w > 0 && level.spread ? cost_.machine.spread_seconds : 0;
            const double seconds = std::max(level.longest, level.work / (1 << w)) + spread;
            all.seconds[w] += seconds;
            all.weight += seconds * (1 << w);
        }
    return all;
}

std::vector<std::vector<int>> Estimator::candidates() const {
    std::vector<double> score(axes_.size(), 0);
    for (const Job& job : jobs_)
        for (const Label& l : job.labels) {
            if (l.axis < 0) continue;
            const double sign = l.kind == LabelKind::parallel ? 1
                                : l.kind == LabelKind::reduce ? 0.2
                                                              : -0.2;
            score[l.axis] += sign * job.seconds;
        }
    std::map<int64_t, std::vector<size_t>> by_extent;
    for (size_t a = 0; a < axes_.size(); ++a)
        if (score[a] > 0 && is_whole(all_.factors(axes_[a])))
            by_extent[all_.extent(axes_[a])].push_back(a);
    std::vector<std::pair<double, std::vector<int>>> groups;
    for (auto& [extent, axes] : by_extent) {
        std::stable_sort(axes.begin(), axes.end(),
                         [&](size_t a, size_t b) { return score[a] > score[b]; });
        auto& group = groups.emplace_back();
        for (size_t a : axes) {
            group.first += score[a];
            group.second.push_back(axes_[a]);
        }
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](auto& a, auto& b) { return a.first > b.first; });
    std::vector<std::vector<int>> out;
    for (auto& group : groups) out.push_back(std::move(group.second));
    return out;
}

// Whether all of an axis lies in a cache line of data that has many: tasks of its parts would each
// read the lines of all.
bool Estimator::is_within_lines(int dim) const {
    const int axis = axis_of_dim_[static_cast<size_t>(all_.find(dim))];
    for (const Job& job : jobs_)
        for (const Operand& o : job.operands) {
            const auto lies_along = [&](size_t d) { return o.axes[d] >= 0 && o.strides[d] != 0; };
            size_t dims = 0;
            for (size_t d = 0; o.in_one && d < o.axes.size(); ++d) dims += lies_along(d);
            for (size_t d = 0; dims > 1 && d < o.axes.size(); ++d) {
                if (!lies_along(d) || o.axes[d] != axis) continue;
                const auto span = static_cast<double>(std::abs(o.strides[d]) * all_.extent(dim));
                if (o.element * span <= bytes_of_line) return true;
            }
        }
    return false;
}

int Estimator::leading() const {
    for (const Job& job : jobs_)
        for (const Operand& o : job.operands)
            for (int axis : o.axes)
                if (o.output && axis >= 0 && !is_within_lines(axes_[axis])) return axes_[axis];
    return -1;
}

}  // namespace nntile::tile
