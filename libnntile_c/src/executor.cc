// SPDX-License-Identifier: BSD-3-Clause
#include "executor.hh"

#include <algorithm>

#include "base/error.hh"
#include "graph/difference.hh"
#include "graph/text.hh"
#include "tile/cost.hh"
#include "tile/cuts.hh"
#include "tile/text.hh"
#include "tile/upload.hh"

namespace nntile {

namespace {

// Shapes that never come again do not hold what a loop may.
constexpr size_t most_tasks = 1'000'000, most_tasks_once = 100'000;  // 0.2 to 0.8 KB each
constexpr size_t most_plans = 4096;
constexpr size_t most_logged = 64, most_logged_nodes = 20'000;  // some 300 bytes each

// Everything that lowering depends on.
Hash key_of(const Hash& hash, const graph::Graph& graph, const graph::AxisCuts& cuts) {
    Hash key = hash;
    key.add(tile::cost_version()).add(static_cast<uint64_t>(tile::most_task_bytes()));
    for (const graph::Input& in : graph.inputs) {
        if (!in.stored) continue;
        for (const graph::Cut& cut : in.stored->cuts) {
            key.add(cut.size());
            for (const graph::Factor& f : cut) key.add(f.extent).add_all(f.positions);
        }
        key.add(in.stored->hints);
        // None at all is the same as an empty one for each dim
        for (size_t d = 0; d < in.stored->names.size(); ++d)
            if (!in.stored->names[d].empty()) key.add(d).add(in.stored->names[d]);
    }
    for (const auto& [name, sizes] : cuts) key.add(name).add_all(sizes);
    return key;
}

std::shared_ptr<runtime::Storage> storage_of(const graph::StoredRef& stored) {
    auto s = std::static_pointer_cast<runtime::Storage>(stored);
    check(s->generation == runtime::generation(), Status::invalid_state,
          "the data of a tensor was dropped when the context was shut down");
    return s;
}

std::shared_ptr<runtime::Storage> uploaded_storage(DType dtype, std::span<const int64_t> sizes) {
    auto storage = std::make_shared<runtime::Storage>();
    storage->dtype = dtype;
    storage->sizes = Dims(sizes);
    tile::UploadCuts upload = tile::upload_cuts(dtype, sizes, tile::most_task_bytes());
    storage->cuts = std::move(upload.cuts);
    storage->hints = upload.hints;
    storage->names.resize(sizes.size());
    return storage;
}

std::string text_of_cuts(const tile::Tiling& tiling) {
    // Axes without a name that are cut alike are one row
    std::vector<std::pair<tile::AxisGroup, size_t>> rows;
    for (const tile::AxisGroup& a : tiling.axes) {
        const auto same = std::find_if(rows.begin(), rows.end(), [&](const auto& row) {
            return a.name.empty() && row.first.name.empty() && row.first.cut == a.cut &&
                   row.first.origin == a.origin;
        });
        if (same == rows.end()) {
            rows.emplace_back(a, 1);
            continue;
        }
        same->first.dims += a.dims;
        ++same->second;
    }
    std::string out;
    for (const auto& [a, axes] : rows)
        out += text_of(a.name.empty() ? "_" : a.name, " = ", a.cut,
                       a.origin.empty() ? "" : "  (" + a.origin + ")", "  in ", a.dims, " dims",
                       axes > 1 ? text_of(" of ", axes, " axes") : "", "\n");
    for (const std::string& c : tiling.choices) out += c + "\n";
    for (const std::string& r : tiling.retiles) out += "retile: " + r + "\n";
    return out;
}

graph::Graph without_data(graph::Graph graph) {
    for (graph::Input& in : graph.inputs)
        // What is known of it, no tiles
        if (in.stored) in.stored = std::make_shared<graph::Stored>(*in.stored);
    return graph;
}

}  // namespace

int64_t PlanExecutor::most_waiting_bytes() {
    constexpr int64_t parts = 64;  // of the budget
    static const int64_t machine = runtime::stats().machine_bytes;
    if (runtime::imagined_budget() > 0) return machine / 10 * 9 / parts;  // as with a disk, below
    if (budget_of_ != runtime::generation()) {
        budget_of_ = runtime::generation();
        // With a disk behind it, what fits in memory must not change what is one graph: fused
        // otherwise, sums have other last bits.
        const runtime::Stats stats = runtime::stats();
        budget_ = stats.swap_bytes > 0 ? stats.machine_bytes / 10 * 9 : stats.budget_bytes;
    }
    return budget_ / parts;
}

PlanExecutor::Entry& PlanExecutor::find(const graph::Graph& graph, const Hash& hash,
                                        const graph::AxisCuts& cuts) {
    runtime::ensure_started();  // says how large a task may be
    const Hash key = key_of(hash, graph, cuts);
    if (auto known = by_key_.find(key); known != by_key_.end()) {
        ++plan_hits;
        put_first(again_, known->second->again ? again_ : once_, known->second);
        known->second->again = true;
        return *known->second;
    }
    const auto compiled = nntile::compile(graph, cuts, saved_for(hash));
    ++lowerings;
    log_lowering(graph, hash, cuts);
    Entry entry{key,
                compiled->plan,
                {},
                compiled->outputs,
                {},
                compiled->copies,
                compiled->host_calls,
                hash,
                compiled->graph.nodes.size(),
                std::move(compiled->tiling.automatic)};
    for (uint32_t v : compiled->inputs) {
        entry.inputs.push_back(compiled->graph.value(v).source);
        if (compiled->tiling.named) entry.names.push_back(compiled->tiling.values[v].names);
    }
    last_ = {without_data(graph), cuts, compiled->plan, hash};
    once_.tasks += entry.plan->task_count();
    once_.entries.push_front(std::move(entry));
    by_key_[key] = once_.entries.begin();
    put_first(once_, once_, once_.entries.begin());
    bound();
    return once_.entries.front();
}

void PlanExecutor::put_first(Shelf& to, Shelf& from, Entries::iterator entry) {
    from.tasks -= entry->plan->task_count();
    to.tasks += entry->plan->task_count();
    to.entries.splice(to.entries.begin(), from.entries, entry);
    entry->found = ++finds_;
}

void PlanExecutor::drop_last(Shelf& shelf) {
    shelf.tasks -= shelf.entries.back().plan->task_count();
    by_key_.erase(shelf.entries.back().key);
    shelf.entries.pop_back();
}

// After a plan was added, which stays: the first of once_.
void PlanExecutor::bound() {
    while (once_.entries.size() > 1 && once_.tasks > most_tasks_once) drop_last(once_);
    while (by_key_.size() > 1 &&
           (once_.tasks + again_.tasks > most_tasks || by_key_.size() > most_plans)) {
        const bool is_later =
            again_.entries.empty() || again_.entries.back().found > once_.entries.back().found;
        drop_last(is_later && once_.entries.size() > 1 ? once_ : again_);
    }
    plans = static_cast<int64_t>(by_key_.size());
}

record::Executor::Result PlanExecutor::run(const graph::Graph& graph, const Hash& hash,
                                           std::vector<record::HostCall>& calls,
                                           const graph::AxisCuts& cuts, bool& lowered,
                                           bool awaited) {
    runtime::ensure_started();
    Entry& entry = find(graph, hash, cuts);
    lowered = true;
    std::vector<std::shared_ptr<runtime::Storage>> inputs, outputs;
    for (uint32_t i : entry.inputs) inputs.push_back(storage_of(graph.inputs[i].stored));
    for (const Compiled::Kept& kept : entry.outputs) outputs.push_back(kept.storage());
    std::vector<HostFunction> host;
    for (const record::HostCall& call : calls) host.push_back(call.function);
    entry.plan->launch(
        {inputs, outputs, graph.scalars, std::move(host), graph.places, graph.callers, awaited});
    calls.clear();
    // An input that an op related to a named axis keeps the name: a gradient that meets its
    // parameter.
    for (size_t k = 0; k < entry.names.size(); ++k) {
        inputs[k]->names.resize(inputs[k]->sizes.size());
        for (size_t d = 0; d < entry.names[k].size(); ++d)
            if (inputs[k]->names[d].empty()) inputs[k]->names[d] = entry.names[k][d];
    }
    ++graphs;
    tasks += static_cast<int64_t>(entry.plan->task_count());
    copies += static_cast<int64_t>(entry.copies);
    host_calls += static_cast<int64_t>(entry.host_calls);
    Result result;
    for (size_t k = 0; k < outputs.size(); ++k) {
        if (k < graph.outputs.size()) result.outputs.push_back(outputs[k]);
        else result.retiled_inputs.emplace_back(entry.outputs[k].source, outputs[k]);
    }
    return result;
}

class PlanExecutor::Small final : public record::SmallPlan {
public:
    Small(PlanExecutor& executor, const Compiled& compiled)
        : executor_(executor),
          plan_(compiled.plan),
          outputs_(compiled.outputs),
          places_(compiled.graph.places.size()),
          copies_(static_cast<int64_t>(compiled.copies)) {
        for (uint32_t v : compiled.inputs) inputs_.push_back(compiled.graph.value(v).source);
    }

    void run(std::span<const graph::StoredRef* const> inputs,
             std::span<const kernels::Param> scalars, Place place,
             std::span<graph::StoredRef> outputs) override {
        SmallVector<runtime::Storage*, 8> in, out;
        for (uint32_t i : inputs_) in.push_back(static_cast<runtime::Storage*>(inputs[i]->get()));
        for (size_t k = 0; k < outputs.size(); ++k) {
            auto storage = outputs_[k].storage();
            out.push_back(storage.get());
            outputs[k] = std::move(storage);
        }
        if (!plan_->run_small(
                {{in.data(), in.size()}, {out.data(), out.size()}, scalars, place, places_}))
            launch(inputs, scalars, place, outputs);
        ++executor_.graphs;
        ++executor_.plan_hits;
        executor_.tasks += static_cast<int64_t>(plan_->task_count());
        executor_.copies += copies_;
    }

private:
    void launch(std::span<const graph::StoredRef* const> inputs,
                std::span<const kernels::Param> scalars, Place place,
                std::span<const graph::StoredRef> outputs) {
        std::vector<std::shared_ptr<runtime::Storage>> in, out;
        for (uint32_t i : inputs_) in.push_back(storage_of(*inputs[i]));
        for (const graph::StoredRef& o : outputs)
            out.push_back(std::static_pointer_cast<runtime::Storage>(o));
        const std::vector<Place> places(places_, place);
        const std::vector<Mark> marks(places_, current_mark);
        plan_->launch({in, out, scalars, {}, places, marks});
    }

    PlanExecutor& executor_;
    std::shared_ptr<runtime::Plan> plan_;
    std::vector<uint32_t> inputs_;
    std::vector<Compiled::Kept> outputs_;
    size_t places_;
    int64_t copies_;
};

std::shared_ptr<record::SmallPlan> PlanExecutor::small(const graph::Graph& graph,
                                                       const graph::AxisCuts& cuts) {
    runtime::ensure_started();  // says how large a task may be
    const auto compiled = nntile::compile(graph, cuts);
    const bool plain = compiled->host_calls == 0 && !compiled->tiling.named &&
                       compiled->outputs.size() == graph.outputs.size() &&
                       compiled->plan->is_small();
    return plain ? std::make_shared<Small>(*this, *compiled) : nullptr;
}

graph::StoredRef PlanExecutor::write(DType dtype, std::span<const int64_t> sizes,
                                     const void* host) {
    runtime::ensure_started();
    auto storage = uploaded_storage(dtype, sizes);  // the first graph that reads it knows better
    runtime::allocate(*storage);
    runtime::write(*storage, host);
    return storage;
}

static const runtime::Storage& open_storage(const graph::Stored& stored) {
    const auto& storage = static_cast<const runtime::Storage&>(stored);
    check(storage.generation == runtime::generation(), Status::invalid_state,
          "the data of a tensor was dropped when the context was shut down");
    return storage;
}

void PlanExecutor::read(const graph::Stored& stored, void* host) {
    runtime::read(open_storage(stored), host);
}

bool PlanExecutor::read_view(const graph::Stored& stored, DType dtype, const Layout& view,
                             void* host) {
    return runtime::read_view(open_storage(stored), dtype, view, host);
}

std::string PlanExecutor::axes(const graph::Graph& graph, const graph::AxisCuts& cuts) {
    graph::Graph after = graph;
    run_passes(after);
    return text_of_cuts(tile::choose_tiling(after, cuts, true, saved_for(graph.hash())));
}

const tile::SavedGraph* PlanExecutor::saved_for(const Hash& hash) const {
    const auto known = saved_.find(hash);
    return known == saved_.end() ? nullptr : &known->second;
}

std::string PlanExecutor::save_cuts(const graph::AxisCuts& cuts) {
    tile::SavedCuts all{cuts, {}, {}};
    std::vector<const Entry*> latest_first;
    for (const Shelf* shelf : {&once_, &again_})
        for (const Entry& e : shelf->entries) latest_first.push_back(&e);
    std::ranges::sort(latest_first, std::greater{}, &Entry::found);
    std::unordered_map<Hash, bool> seen;
    for (const Entry* e : latest_first)  // the latest plan of a graph says how it is cut now
        if (!e->automatic.empty() && seen.emplace(e->hash, true).second)
            all.graphs.push_back({e->hash, e->nodes, e->automatic});
    for (const auto& [hash, graph] : saved_)
        if (!seen.count(hash)) all.graphs.push_back(graph);
    return print(all);
}

graph::AxisCuts PlanExecutor::load_cuts(std::string_view text,
                                        const std::map<std::string, std::set<int64_t>>& extents) {
    tile::SavedCuts cuts = tile::parse_cuts(text);
    for (const auto& [name, cut] : cuts.axes) {
        const auto known = extents.find(name);
        int64_t sum = 0;
        for (int64_t s : cut) sum += cut.size() > 1 ? s : 0;
        check(cut.size() < 2 || known == extents.end() || known->second.count(sum),
              Status::invalid_argument, "cuts, line ", cuts.lines[name], ": the segments of axis '",
              name, "' sum to ", sum,
              known == extents.end() ? "" : text_of(", its extent is ", *known->second.rbegin()));
    }
    drop_plans();  // under other cuts
    for (tile::SavedGraph& g : cuts.graphs) saved_[g.hash] = std::move(g);
    return std::move(cuts.axes);
}

namespace {

// Where the last call stands that says so.
Place place_of_last(const graph::Graph& graph) {
    for (size_t k = graph.places.size(); k-- > 0;)
        if (graph.places[k]) return graph.places[k];
    return 0;
}

}  // namespace

std::string PlanExecutor::reason_for(const graph::Graph& graph, const Hash& hash,
                                     const graph::AxisCuts& cuts) const {
    const Place place = place_of_last(graph);
    const Lowering* same = nullptr;  // the latest one of the same line
    for (auto before = lowerings_log_.rbegin(); before != lowerings_log_.rend(); ++before) {
        if (before->hash == hash) {
            if (before->cuts != cuts) return "planned again: named axes are cut otherwise";
            if (before->cost != tile::cost_version())
                return "planned again: the cost module has other constants";
            if (before->task_bytes != tile::most_task_bytes())
                return "planned again: the context has another memory budget";
            return "planned again: what it reads is cut otherwise, or its plan was dropped";
        }
        if (!same && place && place_of_last(before->graph) == place) same = &*before;
    }
    return same ? "planned again: " + graph::difference(same->graph, graph)
                : "planned for the first time";
}

void PlanExecutor::log_lowering(const graph::Graph& graph, const Hash& hash,
                                const graph::AxisCuts& cuts) {
    std::string why = reason_for(graph, hash, cuts);
    logged_nodes_ += graph.nodes.size();
    lowerings_log_.push_back({without_data(graph), hash, cuts, tile::cost_version(),
                              tile::most_task_bytes(), std::move(why)});
    while (lowerings_log_.size() > 1 &&
           (lowerings_log_.size() > most_logged || logged_nodes_ > most_logged_nodes)) {
        logged_nodes_ -= lowerings_log_.front().graph.nodes.size();
        lowerings_log_.pop_front();
    }
}

std::string PlanExecutor::text(std::string_view stage) {
    if (stage == "why") {
        std::string out;
        for (const Lowering& l : lowerings_log_) {
            const std::string place = text_of_place(place_of_last(l.graph));
            const std::string name =
                l.graph.nodes.empty() ? "" : graph::name_of(l.graph, l.graph.nodes.back());
            out += text_of(place.empty() ? "(no line)" : place, ": ", name,
                           l.graph.nodes.size() > 1
                               ? text_of(" and ", l.graph.nodes.size() - 1, " before it")
                               : "",
                           ": ", l.why, "\n");
        }
        return out;
    }
    check(last_.has_value(), Status::invalid_state,
          "text: nothing has run yet that could be shown: run an op first and wait(), or run a "
          "step in graph mode");
    if (stage == "plan") return last_->plan->text();
    if (stage == "passes") return passes_text(last_->graph);
    check(
        stage == "graph" || stage == "tiles" || stage == "cuts", Status::invalid_argument,
        "text: stage must be 'pending', 'passes', 'graph', 'cuts', 'tiles', 'plan' or 'why', got '",
        stage, "'");
    graph::Graph graph = last_->graph;
    run_passes(graph);
    if (stage == "graph") return graph::print(graph);
    const tile::Tiling tiling =
        tile::choose_tiling(graph, last_->cuts, true, saved_for(last_->hash));
    if (stage == "cuts") return text_of_cuts(tiling);
    return tiling.text() + tile::print(tile::lower(graph, tiling).tiles);
}

void PlanExecutor::drop_plans() {
    for (Shelf* shelf : {&once_, &again_}) {
        shelf->entries.clear();
        shelf->tasks = 0;
    }
    by_key_.clear();
    plans = 0;
}

void PlanExecutor::reset() {
    drop_plans();
    last_.reset();
    lowerings_log_.clear();
    logged_nodes_ = 0;
}

}  // namespace nntile
