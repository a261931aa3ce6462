// SPDX-License-Identifier: BSD-3-Clause
#include "tile/fit.hh"

#include <algorithm>
#include <cmath>

#include "tile/task_bytes.hh"

namespace nntile::tile {

namespace {

constexpr double slack = 1e-3;                    // of an excess
constexpr int64_t most_tasks = int64_t{1} << 18;  // of a graph: more are no help

class Fitter {
public:
    using Cuts = std::vector<std::pair<int, Cut>>;

    Fitter(const Related& related, Axes& axes, const Axes::Mark& uncut, const Estimator& estimate,
           Chosen& chosen)
        : related_(related),
          axes_(axes),
          uncut_(uncut),
          estimate_(estimate),
          chosen_(chosen),
          bytes_(related, axes),
          most_(static_cast<double>(most_task_bytes())) {}

    void run() {
        if (bytes_(most_).excess == 0) return;  // as without a limit
        drop_useless();
        const Needs uncut = bytes_(most_);
        if (uncut.excess == 0) return;
        const Cuts before = chosen_.cuts;
        Fit best = from(before);
        // Data that is cut already may do as it is
        if (std::optional<Cuts> cuts = followed()) {
            Fit other = from(*cuts);
            const double more = other.needs.excess - best.needs.excess;
            if (more < -slack || (more < slack && other.weight < best.weight))
                best = std::move(other);
        }
        chosen_.cuts = std::move(best.cuts);
        apply(chosen_.cuts);
        tell(before, uncut.largest, best.needs.largest);
    }

private:
    using Needs = TaskBytes::Needs;
    struct Fit {
        Cuts cuts;
        Needs needs;
        double weight;
    };
    struct Trial {
        Fit fit;
        double score;
    };

    // These cuts, made finer until each task fits or nothing more helps.
    Fit from(const Cuts& cuts) {
        apply(cuts);
        Fit now{cuts, bytes_(most_), estimate_().weight};
        std::vector<bool> given_up(bytes_.job_count(), false);
        while (const std::optional<size_t> job = worst(now.needs, given_up)) {
            std::optional<Trial> best;
            for (const Cuts& way : finer(*job, now)) {
                std::optional<Trial> next = at(way, now);
                if (next && (!best || next->score < best->score)) best = std::move(next);
            }
            if (best) now = std::move(best->fit);
            else given_up[*job] = true;
            apply(now.cuts);
        }
        return now;
    }

    std::optional<size_t> worst(const Needs& needs, const std::vector<bool>& given_up) const {
        std::optional<size_t> job;
        for (size_t j = 0; j < needs.jobs.size(); ++j)
            if (!given_up[j] && needs.jobs[j] > most_ && (!job || needs.jobs[j] > needs.jobs[*job]))
                job = j;
        return job;
    }

    void apply(const Cuts& cuts) {
        axes_.undo(uncut_);
        for (const auto& [dim, cut] : cuts) axes_.cut(dim, cut, "automatic", automatic_cut);
        axes_.propagate();
    }

    // `cuts` with these dims in two, where the axes have them; nullopt: there is nothing to cut. An
    // axis whose cut follows from that of another one is left alone.
    std::optional<Cuts> halve(Cuts cuts, std::span<const int> dims) const {
        bool any = false;
        for (int dim : dims) {
            if (axes_.level(dim) != automatic_cut) continue;
            auto own = find(cuts, dim);
            if (own == cuts.end()) {
                if (!is_whole(axes_.factors(dim))) continue;
                cuts.emplace_back(dim, whole(axes_.extent(dim)));
                own = cuts.end() - 1;
            }
            Cut next = halved(own->second);
            any = any || next != own->second;
            own->second = std::move(next);
        }
        return any ? std::optional(std::move(cuts)) : std::nullopt;
    }

    // Cuts of data that were followed along axes that every task wants whole, as the rows of a
    // table.
    void drop_useless() {
        for (size_t k = chosen_.cuts.size(); k-- > 0;) {
            const int axis = axes_.find(chosen_.cuts[k].first);
            if (bytes_.is_cut_by_tasks(axis)) continue;
            const double excess = bytes_(most_).excess, weight = estimate_().weight;
            Cuts fewer = chosen_.cuts;
            fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(k));
            apply(fewer);
            if (bytes_(most_).excess <= excess && estimate_().weight <= weight)
                chosen_.cuts = std::move(fewer);
            else apply(chosen_.cuts);
        }
    }

    Cuts::iterator find(Cuts& cuts, int dim) const {
        return std::find_if(cuts.begin(), cuts.end(), [&](const auto& known) {
            return axes_.find(known.first) == axes_.find(dim);
        });
    }

    // The chosen cuts, and those of data on axes that are whole.
    std::optional<Cuts> followed() {
        apply(chosen_.cuts);
        Cuts cuts = chosen_.cuts;
        for (const graph::Input& in : related_.graph.inputs) {
            if (!in.stored || !related_.live.values[in.value]) continue;
            const AxisDims& dims = related_.dims[in.value];
            for (size_t d = 0; d < dims.size() && d < in.stored->cuts.size(); ++d) {
                const Cut& cut = in.stored->cuts[d];
                if (is_whole(cut) || !(in.stored->hints >> d & 1)) continue;
                if (!bytes_.is_cut_by_tasks(axes_.find(dims[d]))) continue;
                if (axes_.level(dims[d]) == automatic_cut && is_whole(axes_.factors(dims[d])) &&
                    find(cuts, dims[d]) == cuts.end())
                    cuts.emplace_back(dims[d], normal(cut));
            }
        }
        return cuts.size() > chosen_.cuts.size() ? std::optional(std::move(cuts)) : std::nullopt;
    }

    // Ways to make the tasks of a job smaller: a label of it in two, or that of all jobs like it,
    // as layers of a network are; or an axis that others follow.
    std::vector<Cuts> finer(size_t job, Fit& now) const {
        std::vector<Cuts> ways;
        const auto add = [&](std::span<const int> dims) {
            std::optional<Cuts> way = halve(now.cuts, dims);
            if (way && std::find(ways.begin(), ways.end(), *way) == ways.end())
                ways.push_back(std::move(*way));
        };
        bool follows = false;
        const auto labels = bytes_.labels_of(job);
        for (size_t l = 0; l < labels.size(); ++l) {
            if (!labels[l].helps()) continue;
            std::vector<int> dims;
            for (size_t j = 0; j < bytes_.job_count(); ++j) {
                if (now.needs.jobs[j] <= most_ || !bytes_.are_alike(job, j)) continue;
                const int dim = bytes_.labels_of(j)[l].dim;
                if (dim >= 0 && std::find(dims.begin(), dims.end(), dim) == dims.end())
                    dims.push_back(dim);
            }
            add({&labels[l].dim, 1});
            if (dims.size() > 1) add(dims);
            follows |= !is_whole(axes_.factors(labels[l].dim)) &&
                       find(now.cuts, labels[l].dim) == now.cuts.end();
        }
        for (size_t k = 0; follows && k < now.cuts.size(); ++k) add({&now.cuts[k].first, 1});
        return ways;
    }

    // nullopt: it does not help. Cheap is what costs little time for what it brings.
    std::optional<Trial> at(const Cuts& cuts, const Fit& now) {
        apply(cuts);
        Needs needs = bytes_(most_);
        const double brings = now.needs.excess - needs.excess;
        if (brings < slack) return std::nullopt;
        const Estimate estimate = estimate_();
        if (estimate.tasks > most_tasks) return std::nullopt;
        const double costs = std::log2(estimate.weight / now.weight);
        return Trial{{cuts, std::move(needs), estimate.weight}, costs > 0 ? costs / brings : costs};
    }

    // Axes that are cut alike are told once.
    void tell(Cuts before, double needed, double needs) {
        for (const auto& [dim, cut] : chosen_.cuts) {
            const auto known = find(before, dim);
            if (known != before.end() && known->second == cut) continue;
            const Tried tried{dim, 1, axes_.segments(dim), estimate_.seconds(estimate_())};
            auto like = std::find_if(
                chosen_.fitted.begin(), chosen_.fitted.end(), [&](const Fitted& other) {
                    return axes_.extent(other.taken.dim) == axes_.extent(dim) &&
                           other.taken.segments == tried.segments;
                });
            if (like == chosen_.fitted.end()) chosen_.fitted.push_back({tried, needed, needs});
            else ++like->taken.axes;
        }
    }

    const Related& related_;
    Axes& axes_;
    const Axes::Mark uncut_;
    const Estimator& estimate_;
    Chosen& chosen_;
    const TaskBytes bytes_;
    const double most_;
};

bool may_exceed(const Related& related) {
    const int64_t most = most_task_bytes();
    return most != INT64_MAX && TaskBytes::most_of(related) > static_cast<double>(most);
}

}  // namespace

void fit(const Related& related, Axes& axes, const Axes::Mark& uncut, const Estimator& estimate,
         Chosen& chosen) {
    if (may_exceed(related)) Fitter(related, axes, uncut, estimate, chosen).run();
}

std::vector<bool> taken_over(const Related& related, const Axes& axes) {
    if (!may_exceed(related)) return {};
    return TaskBytes(related, axes)(static_cast<double>(most_task_bytes())).taken_over;
}

}  // namespace nntile::tile
