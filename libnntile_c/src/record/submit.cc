// SPDX-License-Identifier: BSD-3-Clause
// The open graph is handed to the executor, and what becomes of one that it does not take.
#include <algorithm>

#include "base/error.hh"
#include "graph/live.hh"
#include "record/recorder.hh"

namespace nntile::record {

using graph::no_value;

namespace {

// Of the call with the largest result: nearly always the one that does not fit.
Place place_of_largest(const graph::Graph& graph) {
    Place place = 0;
    int64_t most = -1;
    for (const graph::Node& node : graph.nodes) {
        int64_t bytes = 0;
        for (uint32_t v : node.outputs)
            bytes += product(graph.value(v).sizes) * size_of(graph.value(v).dtype);
        if (bytes < most || node.recorded == no_value || !graph.places[node.recorded]) continue;
        most = bytes;
        place = graph.places[node.recorded];
    }
    return place;
}

std::exception_ptr with_place(std::exception_ptr error, const graph::Graph& graph) {
    try {
        std::rethrow_exception(error);
    } catch (const Error& e) {
        const std::string place = text_of_place(place_of_largest(graph));
        if (e.status != Status::out_of_memory || place.empty()) return error;
        return std::make_exception_ptr(Error(e.status, text_of(e.what(), " [", place, "]")));
    } catch (...) {
        return error;
    }
}

}  // namespace

bool Unrun::reads(const graph::StoredRef& stored) const {
    return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                       [&](const graph::Input& in) { return in.stored == stored; });
}

// Results that nobody holds any more, and what only they read.
void Unrun::forget_others() {
    std::erase_if(results, [this](const Result& r) {
        return !r.ref->buffer || unrun_of(*r.ref->buffer) != this;
    });
    graph.outputs.clear();
    for (const Result& r : results) {
        graph.set_output(r.value);
        graph.outputs.back().input = r.input;
    }
    const graph::Live live = graph::live_of(graph);
    for (graph::Input& in : graph.inputs)
        if (!live.values[in.value]) in.stored = nullptr;
}

void Unrun::end(std::exception_ptr why) {
    reason = std::move(why);
    ended = true;
    graph = {};
    calls.clear();
}

// Names of data that was overwritten.
static void keep_names(const graph::StoredRef& stored, uint32_t value, graph::Graph& graph) {
    if (!stored || stored->sizes != graph.value(value).sizes) return;
    for (size_t d = 0; d < stored->names.size(); ++d)
        if (!stored->names[d].empty())
            graph.name_axis(value, static_cast<uint32_t>(d), stored->names[d]);
}

void Recorder::mark_outputs(graph::Graph& graph) const {
    graph.outputs.clear();
    for (const Holder& h : holders_) {
        const bool keeps = h.buffer && h.current == h.leaf;
        if (h.input != no_value) {
            graph::Input& in = graph.inputs[h.input];
            in.overwritable =
                !keeps && std::none_of(unrun_.begin(), unrun_.end(), [&](const auto& kept) {
                    const auto unrun = kept.lock();
                    return unrun && unrun->reads(in.stored);
                });
        }
        if (!h.buffer || h.current == no_value || keeps) continue;
        keep_names(h.buffer->stored, h.current, graph);
        graph.set_output(h.current);
        graph.outputs.back().input = h.input;
    }
}

graph::Graph Recorder::as_if_it_ended() const {
    graph::Graph graph = graph_;
    mark_outputs(graph);
    return graph;
}

void Recorder::drop_graph() {
    for (Holder& h : holders_)
        if (h.buffer) h.buffer->holder.store(-1, std::memory_order_release);
    holders_.clear();
    graph_.clear();
    calls_.clear();
    host_data_.clear();
    last_writes_.clear();
    waiting_ = {};
}

// The call that is being recorded has not happened: whoever made it hears so.
void Recorder::take_back() {
    for (auto at = last_writes_.rbegin(); at != last_writes_.rend(); ++at)
        holders_[at->first].current = at->second;
    last_writes_.clear();
}

// Nothing has happened: data is what it was, and what was made meanwhile what it was first.
void Recorder::take_all_back() {
    for (Holder& h : holders_) h.current = h.leaf != no_value ? h.leaf : h.first;
}

void Recorder::set_aside(std::exception_ptr reason, bool told) {
    auto unrun = std::make_shared<Unrun>();
    unrun->reason = std::move(reason);
    unrun->told = told;
    for (const Holder& h : holders_) {
        if (!h.buffer || h.current == no_value || h.current == h.leaf) continue;
        const graph::Value& value = graph_.value(h.current);
        auto missing = std::make_shared<Missing>(unrun);
        missing->dtype = value.dtype;
        missing->sizes = value.sizes;
        missing->names.resize(value.sizes.size());
        if (h.buffer->stored && h.buffer->stored->sizes == value.sizes)
            missing->names = h.buffer->stored->names;
        if (!h.buffer->ref) h.buffer->ref = std::make_shared<BufferRef>(BufferRef{h.buffer});
        unrun->results.push_back({h.buffer->ref, h.current, h.input});
        h.buffer->stored = std::move(missing);
    }
    for (const Holder& h : holders_)  // a call that was taken back would have replaced it
        if (h.input != no_value && h.buffer && h.current == h.leaf)
            graph_.inputs[h.input].overwritable = false;
    if (!unrun->results.empty()) {
        unrun->graph = std::move(graph_);
        unrun->calls = std::move(calls_);
        unrun->forget_others();
        unrun_.push_back(unrun);
    }
    drop_graph();
}

void Recorder::forget_unrun() {
    std::erase_if(unrun_, [](const std::weak_ptr<Unrun>& kept) {
        const auto unrun = kept.lock();
        return !unrun || unrun->ended;
    });
}

std::exception_ptr Recorder::try_again(const std::shared_ptr<Unrun>& unrun) {
    if (unrun->ended) return unrun->reason;
    unrun->forget_others();
    graph::Graph& graph = unrun->graph;
    try {
        bool lowered = false;
        Executor::Result result =
            executor_->run(graph, graph.hash(), unrun->calls, cuts_, lowered, false);
        ++submitted_;
        for (size_t k = 0; k < unrun->results.size(); ++k) {
            Buffer& buffer = *unrun->results[k].ref->buffer;
            buffer.stored = std::move(result.outputs[k]);
            buffer.written = buffer.used = submitted_;
        }
        unrun->end(nullptr);
    } catch (...) {
        unrun->reason = with_place(std::current_exception(), graph);
    }
    return unrun->reason;
}

void Recorder::need_data(Buffer& buffer) {
    if (!buffer.stored || !buffer.stored->missing) return;
    const std::shared_ptr<Unrun> unrun = static_cast<const Missing&>(*buffer.stored).unrun;
    if (const std::exception_ptr reason = try_again(unrun)) {
        unrun->told = true;
        std::rethrow_exception(reason);
    }
}

// A replay writes into what it was captured to write into. What a graph that was set aside would
// still read there is read now or never.
void Recorder::compute_before_overwriting(const graph::Graph& graph) {
    for (const auto& kept : std::vector(unrun_)) {
        const auto unrun = kept.lock();
        if (!unrun || unrun->ended) continue;
        const bool loses =
            std::any_of(graph.inputs.begin(), graph.inputs.end(), [&](const graph::Input& in) {
                return in.overwritable && in.stored && unrun->reads(in.stored);
            });
        if (loses && try_again(unrun)) unrun->end(unrun->reason);
    }
}

std::exception_ptr Recorder::try_flush(Failure failure, bool awaited) {
    if (holders_.empty() && graph_.nodes.empty()) return nullptr;
    forget_unrun();
    mark_outputs(graph_);
    bool lowered = false;
    try {
        Executor::Result result;
        if (!graph_.is_idle())
            result = executor_->run(graph_, graph_.hash(), calls_, cuts_, lowered, awaited);
        ++submitted_;
        const uint64_t number = awaited && is_little() ? settled_ : submitted_;
        size_t k = 0;
        for (Holder& h : holders_) {
            if (!h.buffer || h.current == no_value) continue;
            h.buffer->used = std::max(h.buffer->used, number);
            if (h.current == h.leaf) continue;
            h.buffer->written = number;
            h.buffer->stored = std::move(result.outputs[k++]);
        }
        for (auto& [input, stored] : result.retiled_inputs)
            for (Holder& h : holders_)
                if (h.buffer && h.input == input && h.current == h.leaf) h.buffer->stored = stored;
        drop_graph();
        return nullptr;
    } catch (...) {
        std::exception_ptr reason = with_place(std::current_exception(), graph_);
        // A graph of graph mode that only did not fit stays open: the user may free some and run it
        // again.
        if (lowered && !at_once() && failure != Failure::forget) return reason;
        if (failure == Failure::of_call) take_back();
        if (failure == Failure::whole) take_all_back();
        if (failure == Failure::forget) drop_graph();
        else set_aside(reason, failure != Failure::later);
        return reason;
    }
}

void Recorder::flush(Failure failure, bool awaited) {
    if (const std::exception_ptr reason = try_flush(failure, awaited))
        std::rethrow_exception(reason);
}

void Recorder::submit() {
    std::lock_guard lock(mutex_);
    if (!at_once()) return;
    bury();
    // The caller nearly always waits next. It does a little work itself: to hand that over takes
    // longer.
    std::exception_ptr untold = try_flush(Failure::kept, true);
    forget_unrun();
    for (const auto& kept : std::vector(unrun_)) {
        const auto unrun = kept.lock();
        const std::exception_ptr reason = unrun ? try_again(unrun) : nullptr;
        if (!reason || unrun->told) continue;
        unrun->told = true;
        if (!untold) untold = reason;
    }
    if (untold) std::rethrow_exception(untold);
    settled_ = submitted_;
}

void Recorder::lose_all(const char* why) {
    const auto reason = std::make_exception_ptr(Error(Status::invalid_state, why));
    set_aside(reason, true);
    for (const auto& kept : unrun_)
        if (const auto unrun = kept.lock()) unrun->end(reason);
    unrun_.clear();
}

}  // namespace nntile::record
