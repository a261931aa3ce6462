// SPDX-License-Identifier: BSD-3-Clause
#include "tile/automatic.hh"

#include <algorithm>
#include <cmath>
#include <map>

namespace nntile::tile {

namespace {

// Rough speeds of one core; only their ratio to the quantum matters.
constexpr double gemm_flops_per_second = 8e10;
constexpr double map_flops_per_second = 4e9;
constexpr double bytes_per_second = 1e10;
// A task below `small` is not worth a cut; the heaviest tasks end near `large` (notes: 0.5 to 4 ms of gemm per row
// tile are equally good, and 100 us already cost 10 %).
constexpr double small_seconds = 0.3e-3, large_seconds = 3e-3;
constexpr double few_tiles = 8;                // a heavy node has at least so many tasks
constexpr int64_t least_length = 64;            // shorter tiles make kernels slow
constexpr int rounds = 4;

struct Work {
    double seconds;                             // of the whole node
    std::vector<std::pair<int, schema::LabelKind>> labels;  // axis dim and kind
};

std::vector<Work> work_of(const graph::Graph& graph, const graph::Live& live,
                          const std::vector<AxisDims>& dims) {
    std::vector<Work> all;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
        const graph::Node& node = graph.nodes[n];
        if (!live.nodes[n] || !node.row->relate) continue;  // nobody knows the speed of a host function
        const NodeSpace space = space_of(graph, node);
        Work work;
        double points = 1, bytes = 0;
        for (const schema::Label& l : space.relation.labels) points *= static_cast<double>(l.extent);
        work.labels.assign(space.relation.labels.size(), {-1, schema::LabelKind::whole});
        auto operand = [&](uint32_t v, size_t k) {
            if (v == graph::no_value) return;
            const graph::Value& value = graph.value(v);
            bytes += static_cast<double>(product(value.sizes) * size_of(value.dtype));
            const auto& labels = space.labels_of(k);
            for (size_t d = 0; d < labels.size() && d < dims[v].size(); ++d)
                if (labels[d] >= 0)
                    work.labels[labels[d]] = {dims[v][d], space.relation.labels[labels[d]].kind};
        };
        for (size_t k = 0; k < node.inputs.size(); ++k) operand(node.inputs[k], k);
        for (size_t k = 0; k < node.outputs.size(); ++k) operand(node.outputs[k], node.inputs.size() + k);
        const bool gemm = node.row->rule == schema::Rule::contract;
        // A table lookup visits no point of the table's rows.
        for (const schema::Label& l : space.relation.labels)
            if (l.kind == schema::LabelKind::whole && node.row->kernel.starts_with("embedding"))
                points /= static_cast<double>(std::max<int64_t>(l.extent, 1));
        work.seconds = std::max(node.row->flops * points / (gemm ? gemm_flops_per_second : map_flops_per_second),
                                bytes / bytes_per_second);
        all.push_back(std::move(work));
    }
    return all;
}

int64_t tiles_of(const Axes& axes, int dim) {
    int64_t n = 1;
    for (const Factor& f : axes.factors(dim)) n *= static_cast<int64_t>(f.positions.size()) + 1;
    return n;
}

double task_seconds(const Work& work, const Axes& axes) {
    double s = work.seconds;
    for (auto [dim, kind] : work.labels)
        if (dim >= 0 && kind != schema::LabelKind::whole) s /= static_cast<double>(tiles_of(axes, dim));
    return s;
}

// Equal segments, a multiple of 8 where that leaves enough of them: kernels like full vectors.
Cut even_cut(int64_t extent, int64_t segments) {
    int64_t length = (extent + segments - 1) / segments;
    if (length > 16) length = (length + 7) / 8 * 8;
    Factor f{extent, {}};
    for (int64_t at = length; at < extent; at += length) f.positions.push_back(at);
    return normal({f});
}

}  // namespace

bool cut_automatically(const graph::Graph& graph, const graph::Live& live,
                       const std::vector<AxisDims>& dims, Axes& axes) {
    axes.propagate();
    const std::vector<Work> work = work_of(graph, live, dims);
    for (int round = 0; round < rounds; ++round) {
        double segments = 0;                    // that the node most in need of a cut asks for
        for (const Work& w : work) {
            const double task = task_seconds(w, axes), tasks = w.seconds / task;
            const double parts = task > 1.5 * large_seconds ? std::ceil(task / large_seconds) : 0;
            segments = std::max({segments, parts, std::floor(std::min(few_tiles / tasks, task / small_seconds))});
        }
        if (segments < 2) return round > 0;
        // The axis that most work can be split along; splitting a contraction leaves partial results to be
        // joined, and only nodes that are still too large count.
        std::map<int, double> score;
        for (const Work& w : work) {
            const double s = task_seconds(w, axes);
            if (s < 2 * small_seconds) continue;
            for (auto [dim, kind] : w.labels)
                if (dim >= 0 && axes.extent(dim) >= 2 * least_length && is_whole(axes.factors(dim)))
                    score[axes.find(dim)] += s * (kind == schema::LabelKind::parallel ? 1
                                                  : kind == schema::LabelKind::reduce ? 0.3
                                                                                      : -1);
        }
        const auto best = std::max_element(score.begin(), score.end(),
                                           [](auto& a, auto& b) { return a.second < b.second; });
        if (best == score.end() || best->second <= 0) return round > 0;
        const int64_t extent = axes.extent(best->first);
        const auto wanted = static_cast<int64_t>(std::min(segments, 1e9));
        axes.cut(best->first, even_cut(extent, std::min(wanted, extent / least_length)), "automatic", automatic_cut);
        axes.propagate();
    }
    return true;
}

}  // namespace nntile::tile
