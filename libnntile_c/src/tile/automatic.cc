// SPDX-License-Identifier: BSD-3-Clause
#include "tile/automatic.hh"

#include <algorithm>

#include "base/settings.hh"
#include "tile/fit.hh"

namespace nntile::tile {

namespace {

using graph::no_value;

constexpr double few_seconds = 60e-6;  // of a graph that is not worth a cut
// A cut that makes data that outlives the graph anew, in tiles, needs a reason: an optimizer's step
// would else cut its parameter, and each later op would follow.
constexpr double settled_seconds = 2e-3;
constexpr double worth = 0.97;  // a cut has to bring the estimate below this much of what it was
constexpr size_t one_call = 4;  // nodes that a call of eager mode becomes, at most
constexpr size_t one_window = 128;  // and a window of such calls, which has one product
// Likewise more tiles of a call that is cut: later calls get them too
constexpr double worth_more = 0.92;
// How much another axis than that of the rows has to be better
constexpr double not_leading = 1.25;
constexpr size_t few_axes = 4;  // are tried in a round
constexpr int rounds = 3;
constexpr int64_t most_segments = 1024;

class Chooser {
public:
    Chooser(const Related& related, Axes& axes)
        : related_(related),
          graph_(related.graph),
          axes_(axes),
          cost_(cost()),
          estimate_(related, axes, *cost_),
          small_(is_small(related)) {}

    void run() {
        axes_.propagate();
        const Axes::Mark uncut = axes_.mark();
        choose();
        fit(related_, axes_, uncut, estimate_, chosen_);
    }

    Chosen take() { return std::move(chosen_); }

private:
    void choose() {
        const bool hints = any_hint();
        if (!hints && estimate_.seconds_whole() < few_seconds)
            return end("too short a graph for cuts");
        best_ = estimate_();
        const bool settles = all_in_place();
        if (small_ || (settles && only_maps())) {
            // A call, or the window of an optimizer's step, follows how its operands are cut,
            // unless that is dear, and is cut no further. One that writes some elements of data in
            // its place would make all of that anew to be cut as an index is.
            if (hints && follow(1.2, settles && !only_maps()))
                return end("a call follows how its operands are cut");
            if (alone()) return end("one call for one worker");
            if (estimate_.seconds_whole() >= (settles ? settled_seconds : few_seconds)) search();
            else end("too short a call for cuts of data that stays");
            return;
        }
        // A larger graph chooses for itself, as it did when its data was not cut yet; where that
        // does not fit the data as it is now, following the data may be cheaper.
        const Axes::Mark none = axes_.mark();
        const Estimate uncut = best_;
        search();
        if (!hints || best_.copied <= uncut.copied / 8) return;
        const Estimate free = best_;
        Chosen own = std::move(chosen_);
        restart(none, uncut, {});
        follow(1, false);
        search();
        if (best_.weight < worth * free.weight) return;
        restart(none, free, std::move(own));
    }

    // A call of eager mode, or a product and the calls behind it: those that follow will be cut as
    // it is.
    static bool is_small(const Related& related) {
        const std::vector<graph::Node>& nodes = related.graph.nodes;
        if (nodes.size() <= one_call) return true;
        const auto products =
            std::count_if(nodes.begin(), nodes.end(), [](const graph::Node& node) {
                return node.row->rule == schema::Rule::contract ||
                       node.row->rule == schema::Rule::host;
            });
        return nodes.size() <= one_window && products <= 1;
    }

    void end(const char* reason) { chosen_.end = reason; }

    bool any_hint() const {
        for (const graph::Input& in : graph_.inputs)
            if (in.stored && in.stored->hints && related_.live.values[in.value]) return true;
        return false;
    }

    bool only_maps() const {
        for (size_t n = 0; n < graph_.nodes.size(); ++n)
            if (related_.live.nodes[n] && graph_.nodes[n].row->rule != schema::Rule::map)
                return false;
        return true;
    }

    // One op and one worker: there is nobody to share with, and nothing that a tile could find in a
    // cache.
    bool alone() const {
        const auto makes_tasks = [&](size_t n) {
            return related_.live.nodes[n] && !schema::only_moves(graph_.nodes[n].row->rule);
        };
        int ops = 0;
        for (size_t n = 0; n < graph_.nodes.size() && ops < 2; ++n) ops += makes_tasks(n);
        return ops < 2 && cost_->machine.workers < 2;
    }

    // Every result is made in the place of data that is there, or from no data: its grid will stay.
    bool all_in_place() const {
        return std::all_of(
            graph_.outputs.begin(), graph_.outputs.end(), [&](const graph::Output& out) {
                const graph::Value& value = graph_.value(out.value);
                const bool replaces = std::any_of(
                    graph_.inputs.begin(), graph_.inputs.end(), [&](const graph::Input& in) {
                        return in.overwritable && related_.live.values[in.value] &&
                               graph_.value(in.value).sizes == value.sizes;
                    });
                if (replaces || value.kind != graph::ValueKind::result) return replaces;
                const auto& from = graph_.nodes[value.source].inputs;
                return std::all_of(from.begin(), from.end(), [&](uint32_t v) {
                    return v == no_value || graph_.value(v).kind == graph::ValueKind::scalar;
                });
            });
    }

    void add(int dim, Cut cut) {
        axes_.cut(dim, cut, "automatic", automatic_cut);
        chosen_.cuts.emplace_back(dim, std::move(cut));
    }

    void restart(const Axes::Mark& mark, const Estimate& estimate, Chosen chosen) {
        axes_.undo(mark);
        for (const auto& [dim, cut] : chosen.cuts) axes_.cut(dim, cut, "automatic", automatic_cut);
        chosen_ = std::move(chosen);
        axes_.propagate();
        best_ = estimate;
    }

    // Takes the cuts that data has for a hint, largest data first; or of data that is replaced
    // alone.
    bool follow(double patience, bool replaced_alone) {
        std::vector<const graph::Input*> inputs;
        for (const graph::Input& in : graph_.inputs)
            if (in.stored && in.stored->hints && related_.live.values[in.value] &&
                (in.overwritable || !replaced_alone))
                inputs.push_back(&in);
        if (inputs.empty()) return false;
        auto bytes = [&](const graph::Input* in) {
            return product(graph_.value(in->value).sizes) * size_of(graph_.value(in->value).dtype);
        };
        std::stable_sort(inputs.begin(), inputs.end(),
                         [&](auto* a, auto* b) { return bytes(a) > bytes(b); });
        std::vector<std::pair<int, Cut>> hinted;
        for (const graph::Input* in : inputs)
            for (size_t d = 0; d < in->stored->cuts.size(); ++d)
                if ((in->stored->hints >> d & 1) && !is_whole(in->stored->cuts[d]))
                    hinted.emplace_back(related_.dims[in->value][d], normal(in->stored->cuts[d]));
        const Axes::Mark mark = axes_.mark();
        auto with = [&](size_t without) {
            axes_.undo(mark);
            chosen_ = {};
            for (size_t k = 0; k < hinted.size(); ++k)
                if (k != without) add(hinted[k].first, hinted[k].second);
            axes_.propagate();
            return estimate_();
        };
        Estimate now = with(hinted.size());
        // Two operands may cut a result along both of its axes, which its rows do not like: an axis
        // whose hint makes the call dearer is left whole.
        for (size_t k = hinted.size(); k-- > 0 && hinted.size() > 1;)
            if (Estimate fewer = with(k); fewer.weight < worth * now.weight) {
                now = fewer;
                hinted.erase(hinted.begin() + k);
            }
        now = with(hinted.size());
        if (now.weight <= patience * best_.weight) {
            best_ = now;
            return true;
        }
        axes_.undo(mark);
        chosen_ = {};
        return false;
    }

    struct Trial {
        std::vector<int> dims;
        int64_t segments = 1;
        Estimate estimate;
        double weight = 0;
    };

    Trial at(const std::vector<int>& dims, int64_t segments) {
        const Axes::Mark mark = axes_.mark();
        for (int dim : dims)
            axes_.cut(dim, even_cut(axes_.extent(dim), segments), "automatic", automatic_cut);
        axes_.propagate();
        Trial trial{dims, segments, estimate_(), 0};
        trial.weight = trial.estimate.weight;
        axes_.undo(mark);
        return trial;
    }

    // The best number of segments of some axes: twice as many, as long as that gets better. Where
    // two bring too little to be taken, more seldom bring much.
    Trial best_of(const std::vector<int>& dims) {
        const int64_t most = std::min(axes_.extent(dims[0]), most_segments);
        Trial best = at(dims, std::min<int64_t>(2, most));
        if (best.weight > worth * best_.weight) return best;
        for (int64_t s = 4; s <= most; s *= 2) {
            Trial next = at(dims, s);
            if (next.weight >= (small_ ? worth_more : 1) * best.weight) break;
            best = std::move(next);
        }
        return best;
    }

    // Segments of one axis that are as many tiles as those of all.
    int64_t as_many(const Trial& all) const {
        const int64_t most = std::min(axes_.extent(all.dims[0]), most_segments);
        int64_t segments = 1;
        for (size_t k = 0; k < all.dims.size() && segments < most; ++k) segments *= all.segments;
        return std::min(segments, most);
    }

    Tried tried(const Trial& t) const {
        return {t.dims[0], t.dims.size(), t.segments, estimate_.seconds(t.estimate)};
    }

    void search() {
        end("so many rounds of cuts are tried");
        for (int round = 0; round < rounds; ++round) {
            Trial best;
            std::optional<Tried> next;
            size_t count = 0;
            const int leading = small_ ? estimate_.leading() : -1;
            auto take = [&](Trial found) {
                // The other operand of the next call has no such axis as the rows have.
                if (small_ && found.dims[0] != leading) found.weight *= not_leading;
                if (estimate_.is_within_lines(found.dims[0])) found.weight *= not_leading;
                Trial& worse = best.dims.empty() || found.weight < best.weight ? best : found;
                const Tried other = worse.dims.empty() ? Tried{} : tried(worse);
                if (!worse.dims.empty() && (!next || other.seconds < next->seconds)) next = other;
                if (&worse == &best) best = std::move(found);
            };
            for (const std::vector<int>& axes : estimate_.candidates()) {
                if (++count > few_axes) break;
                Trial all = best_of(axes);
                const bool leads = best.dims.empty() || all.weight < best.weight;
                if (axes.size() > 1 && leads && all.weight < best_.weight) {
                    // Others may only look like it; and as many tiles along one axis lie together.
                    take(at({axes[0]}, all.segments));
                    take(at({axes[0]}, as_many(all)));
                }
                take(std::move(all));
            }
            if (best.dims.empty()) return end("no other axis has work along it");
            if (best.weight > (small_ && round > 0 ? worth_more : worth) * best_.weight) {
                chosen_.refused = tried(best);
                return end("the best of other cuts brings too little");
            }
            for (int dim : best.dims) add(dim, even_cut(axes_.extent(dim), best.segments));
            chosen_.choices.push_back({tried(best), next, estimate_.workers(),
                                       estimate_.seconds(best_), best_.tasks, best.estimate.tasks,
                                       best.estimate.copied});
            best_ = best.estimate;
            axes_.propagate();
        }
    }

    const Related& related_;
    const graph::Graph& graph_;
    Axes& axes_;
    const CostRef cost_;
    const Estimator estimate_;
    const bool small_;  // what a call of eager mode becomes
    Estimate best_;
    Chosen chosen_;
};

}  // namespace

bool automatic_cuts() { return settings().automatic_cuts; }

Chosen choose_cuts(const Related& related, Axes& axes) {
    if (automatic_cuts()) {
        Chooser chooser(related, axes);
        chooser.run();
        return chooser.take();
    }
    axes.propagate();
    return {};
}

}  // namespace nntile::tile
