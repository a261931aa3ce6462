// SPDX-License-Identifier: BSD-3-Clause
// How every value is cut: axes from the rows' relations and the views, then the user's cuts, the
// cuts of stored data, and automatic ones, in this order.
#include <cmath>
#include <map>
#include <numeric>

#include "base/text.hh"
#include "graph/program.hh"
#include "tile/automatic.hh"
#include "tile/fit.hh"
#include "tile/lower.hh"

namespace nntile::tile {

namespace {

using graph::no_value;

class Tiler {
public:
    Tiler(const graph::Graph& graph, const AxisCuts& cuts)
        : graph_(graph),
          cuts_(cuts),
          live_(live_of(graph)),
          related_{graph, live_, std::vector<AxisDims>(graph.values.size()),
                   std::vector<NodeSpace>(graph.nodes.size()),
                   std::vector<int>(graph.values.size(), -1)},
          dims_(related_.dims) {}

    Tiling run(bool with_texts, const SavedGraph* saved) {
        for (uint32_t v = 0; v < graph_.values.size(); ++v) add_value(v);
        for (size_t n = 0; n < graph_.nodes.size(); ++n)
            if (live_.nodes[n]) relate(n);
        user_cuts();
        for (const graph::Input& in : graph_.inputs) {
            if (!in.stored || !live_.values[in.value]) continue;
            for (size_t d = 0; d < in.stored->cuts.size(); ++d)
                if (!is_whole(in.stored->cuts[d]) && !(in.stored->hints >> d & 1))
                    axes_.cut(dims_[in.value][d], normal(in.stored->cuts[d]), "data",
                              persistent_cut);
        }
        Chosen chosen;
        if (saved) take(*saved);
        else chosen = choose_cuts(related_, axes_);
        Tiling tiling;
        for (const auto& [dim, cut] : chosen.cuts) keep(dim, cut, tiling);
        set_values(tiling);
        keep_stored(taken_over(related_, axes_), tiling);
        if (with_texts) set_texts(chosen, tiling);
        return tiling;
    }

private:
    void add_value(uint32_t v) {
        const graph::Value& value = graph_.value(v);
        if (value.kind == graph::ValueKind::scalar) return;
        if (value.kind == graph::ValueKind::view && live_.values[v]) {
            const graph::View& view = graph_.views[value.source];
            const size_t links = axes_.link_count();
            dims_[v] = axes_.view(dims_[view.base], view.layout, "view %" + std::to_string(v));
            if (axes_.link_count() > links) related_.links[v] = static_cast<int>(links);
        } else {
            dims_[v] = axes_.value(value.sizes);
        }
    }

    void relate(size_t number) {
        const graph::Node& node = graph_.nodes[number];
        if (graph::parts_of(node).before) unite_operands(number, graph::prologue_of(node));
        if (node.row->rule == schema::Rule::write) {
            const uint32_t base = node.inputs[0], data = graph::data_of(node),
                           out = node.outputs[0];
            for (size_t d = 0; d < dims_[out].size(); ++d)
                axes_.same(dims_[base][d], dims_[out][d]);
            const Layout layout = graph::target_of(graph_, node);
            if (layout.numel()) axes_.link(dims_[out], dims_[data], layout, "view_write");
        }
        if (!schema::only_moves(node.row->rule)) unite_operands(number, node);
    }

    // node: number `number`, or its prologue.
    void unite_operands(size_t number, const graph::Node& node) {
        NodeSpace& space = related_.spaces[number];
        space = space_of(graph_, node);
        std::vector<int> first(space.relation.labels.size(), -1);
        auto unite = [&](uint32_t v, size_t operand) {
            if (v == no_value) return;
            const auto& labels = space.labels_of(operand);
            for (size_t d = 0; d < labels.size() && d < dims_[v].size(); ++d) {
                if (labels[d] < 0) continue;
                int& f = first[labels[d]];
                if (f < 0) f = dims_[v][d];
                else axes_.same(f, dims_[v][d]);
            }
        };
        for (size_t k = 0; k < node.inputs.size(); ++k) unite(node.inputs[k], k);
        for (size_t k = 0; k < node.outputs.size(); ++k)
            unite(node.outputs[k], node.inputs.size() + k);
    }

    void take(const SavedGraph& saved) {
        for (const SavedCut& c : saved.cuts) {
            const bool known =
                c.value < dims_.size() && live_.values[c.value] && c.dim < dims_[c.value].size();
            check(known, Status::invalid_argument, "cuts, line ", c.line, ": the graph has no %",
                  c.value, " with dim ", c.dim);
            const int dim = dims_[c.value][c.dim];
            if (c.segments.size() == 1 && c.segments[0] >= axes_.extent(dim)) continue;
            const int64_t sum = std::accumulate(c.segments.begin(), c.segments.end(), int64_t{0});
            check(sum == axes_.extent(dim), Status::invalid_argument, "cuts, line ", c.line,
                  ": the segments sum to ", sum, ", dim ", c.dim, " of %", c.value, " has ",
                  axes_.extent(dim));
            axes_.cut(dim, cut_of_segments(sum, c.segments), "saved", automatic_cut);
        }
        axes_.propagate();
    }

    void keep(int dim, const Cut& cut, Tiling& tiling) const {
        if (cut.size() != 1) return;  // follows from another one
        SavedCut saved{0, 0, {}};
        int64_t from = 0;
        for (int64_t p : cut[0].positions) {
            saved.segments.push_back(p - from);
            from = p;
        }
        saved.segments.push_back(cut[0].extent - from);
        const int root = axes_.find(dim);
        for (uint32_t v = 0; v < dims_.size(); ++v)
            for (uint32_t d = 0; live_.values[v] && d < dims_[v].size(); ++d) {
                if (axes_.find(dims_[v][d]) != root) continue;
                saved.value = v;
                saved.dim = d;
                tiling.automatic.push_back(std::move(saved));
                return;
            }
    }

    void name(uint32_t v, size_t d, const std::string& name) {
        named_.push_back({dims_[v][d], name});
        auto it = cuts_.find(name);
        if (it == cuts_.end() || it->second.empty()) return;
        const int64_t extent = graph_.value(v).sizes[d];
        graph::AxisCut segments = it->second;
        // A list is for the dims of its extent; another one of the group, as a smaller last batch,
        // is not cut. An error here would take all of a pending graph with it.
        if (segments.size() > 1 &&
            std::accumulate(segments.begin(), segments.end(), int64_t{0}) != extent)
            return;
        if (segments.size() == 1) {
            const int64_t size = segments[0];
            segments.assign(extent / size, size);
            if (extent % size) segments.push_back(extent % size);
        }
        if (extent > 0) axes_.cut(dims_[v][d], cut_of_segments(extent, segments), name, user_cut);
    }

    void user_cuts() {
        for (const graph::AxisMark& m : graph_.marks) name(m.value, m.dim, m.name);
        for (const graph::Input& in : graph_.inputs) {
            if (!in.stored) continue;
            for (size_t d = 0; d < in.stored->names.size(); ++d)
                if (!in.stored->names[d].empty()) name(in.value, d, in.stored->names[d]);
        }
    }

    void set_values(Tiling& tiling) const {
        std::map<int, std::string> names;  // the first name of an axis is the one that data keeps
        for (const auto& [dim, label] : named_) names.emplace(axes_.find(dim), label);
        tiling.named = !names.empty();
        tiling.values.resize(graph_.values.size());
        for (uint32_t v = 0; v < graph_.values.size(); ++v) {
            tiling.values[v].cuts.reserve(dims_[v].size());
            for (int dim : dims_[v]) {
                tiling.values[v].cuts.push_back(axes_.factors(dim));
                const size_t d = tiling.values[v].cuts.size() - 1;
                if (axes_.level(dim) == automatic_cut && !is_whole(tiling.values[v].cuts[d]))
                    tiling.values[v].hints |= uint64_t{1} << d;
                if (names.empty()) continue;
                auto it = names.find(axes_.find(dim));
                tiling.values[v].names.push_back(it == names.end() ? "" : it->second);
            }
        }
    }

    // Data stays as it is unless the user's cuts say otherwise, or a task would be too large.
    void keep_stored(const std::vector<bool>& taken_over, Tiling& tiling) const {
        for (const graph::Input& in : graph_.inputs) {
            if (!in.stored || !live_.values[in.value]) continue;
            ValueTiling& own = tiling.values[in.value];
            own.as_stored = taken_over.empty() || !taken_over[in.value];
            for (size_t d = 0; d < own.cuts.size(); ++d) {
                const bool same = d < in.stored->cuts.size()
                                      ? normal(in.stored->cuts[d]) == own.cuts[d]
                                      : is_whole(own.cuts[d]);
                own.as_stored =
                    own.as_stored && (same || axes_.level(dims_[in.value][d]) == automatic_cut);
            }
        }
    }

    void set_texts(const Chosen& chosen, Tiling& tiling) const {
        std::map<int, AxisGroup> groups;  // by the dim that stands for the axis
        for (const auto& [dim, label] : named_) {
            std::string& own = groups[axes_.find(dim)].name;
            if (own.empty()) own = label;
            else if (own != label && own.find(label) == std::string::npos) own += "+" + label;
        }
        for (uint32_t v = 0; v < graph_.values.size(); ++v)
            for (size_t d = 0; live_.values[v] && d < dims_[v].size(); ++d) {
                const int root = axes_.find(dims_[v][d]);
                if (groups.count(root) || !is_whole(tiling.values[v].cuts[d])) ++groups[root].dims;
            }
        for (auto& [root, group] : groups) {
            const Cut cut = axes_.factors(root);
            group.extent = axes_.extent(root);
            group.cut = is_whole(cut) ? std::to_string(group.extent) + " whole" : text_of(cut);
            auto user = cuts_.find(group.name);
            if (!is_whole(cut))
                group.origin = user != cuts_.end() && !user->second.empty() ? "user"
                               : axes_.level(root) == automatic_cut         ? "automatic"
                                                                            : "follows";
            tiling.axes.push_back(group);
        }
        tiling.retiles = axes_.retiles();
        for (const Choice& c : chosen.choices)
            tiling.choices.push_back("chosen: " + text_of_choice(c));
        const std::string refused = chosen.refused ? ", " + text_of_tried(*chosen.refused) : "";
        const char* after = chosen.choices.empty() ? "no cut: " : "then: ";
        if (!chosen.end.empty()) tiling.choices.push_back(after + chosen.end + refused);
        for (const Fitted& f : chosen.fitted)
            tiling.choices.push_back(text_of(
                "cut to fit: ", text_of_tried(f.taken), ", a task needs ", megabytes(f.after),
                " MB, before ", megabytes(f.before), " MB, and should need ",
                megabytes(static_cast<double>(most_task_bytes())), " MB at most"));
    }

    static std::string milliseconds(double seconds) {
        return text_of_real(std::round(seconds * 1e6) / 1e3) + " ms";
    }

    static std::string megabytes(double bytes) {
        return text_of_real(std::round(bytes / 1e3) / 1e3);
    }

    // "batch and 3 like it: 64 cut in 4, about 4.3 ms"
    std::string text_of_tried(const Tried& t) const {
        const int root = axes_.find(t.dim);
        std::string axis;
        for (const auto& [dim, label] : named_)
            if (axis.empty() && axes_.find(dim) == root) axis = label;
        for (uint32_t v = 0; v < graph_.values.size() && axis.empty(); ++v)
            for (size_t d = 0; live_.values[v] && d < dims_[v].size() && axis.empty(); ++d)
                if (axes_.find(dims_[v][d]) == root) axis = text_of("dim ", d, " of %", v);
        if (t.axes > 1) axis += text_of(" and ", t.axes - 1, " like it");
        return text_of(axis, ": ", axes_.extent(t.dim), " cut in ", t.segments, ", about ",
                       milliseconds(t.seconds));
    }

    std::string text_of_choice(const Choice& c) const {
        const std::string next = c.next ? "; next best was " + text_of_tried(*c.next) : "";
        return text_of(text_of_tried(c.taken), " on ", c.workers, " workers from ",
                       milliseconds(c.before), ", ", c.tasks_before, " -> ", c.tasks_after,
                       " tasks, ", megabytes(c.copied), " MB copied", next);
    }

    const graph::Graph& graph_;
    const AxisCuts& cuts_;
    graph::Live live_;
    Related related_;
    std::vector<AxisDims>& dims_;  // by value
    Axes axes_;
    std::vector<std::pair<int, std::string>> named_;
};

}  // namespace

Tiling choose_tiling(const graph::Graph& graph, const AxisCuts& cuts, bool with_texts,
                     const SavedGraph* saved) {
    return Tiler(graph, cuts).run(with_texts, saved);
}

std::string Tiling::text() const {
    std::string out = "axes {\n";
    for (const AxisGroup& a : axes)
        out += "  " + (a.name.empty() ? "_" : a.name) + " = " + a.cut +
               (a.origin.empty() ? "" : " (" + a.origin + ")") + ", " + std::to_string(a.dims) +
               " dims\n";
    for (const std::string& r : retiles) out += "  retile " + r + "\n";
    return out + "}\n";
}

}  // namespace nntile::tile
