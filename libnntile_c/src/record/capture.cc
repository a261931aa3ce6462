// SPDX-License-Identifier: BSD-3-Clause
#include "record/capture.hh"

#include <algorithm>

#include "base/error.hh"
#include "graph/difference.hh"
#include "graph/live.hh"
#include "graph/text.hh"

namespace nntile::record {

using graph::no_value;

void Recorder::begin_capture(GeneratorState generator) {
    std::lock_guard lock(mutex_);
    bury();
    check(!capturing(), Status::invalid_state, "capture: another capture records already");
    flush();
    capture_start_ = generator;
    ++captures_;
    scopes_.begin(Scope::capture);
}

void Recorder::check_no_capture(const char* what) const {
    check(!capturing(), Status::invalid_state, what,
          ": not possible inside of a captured function, which is recorded as a whole before "
          "anything of it runs");
}

// Numbers that ops drew from the generator.
static std::vector<Random> random_of(const graph::Graph& graph, GeneratorState start) {
    std::vector<Random> random;
    for (const graph::Node& node : graph.nodes)
        for (size_t k = 0; k < node.attrs.size(); ++k) {
            if (node.program || node.row->attrs[k].kind != schema::AttrKind::seed) continue;
            const std::string& name = node.row->attrs[k].name;
            const bool is_offset = name == "offset";
            if (name != "seed" && !is_offset) continue;  // another integer of the run
            const uint32_t scalar = node.attrs[k].scalar;
            const int64_t value = graph.scalars[scalar].i;
            random.push_back({scalar, is_offset, is_offset ? value - start.offset : value});
        }
    return random;
}

std::unique_ptr<Capture> Recorder::end_capture(bool keep) {
    std::lock_guard lock(mutex_);
    check(scopes_.end(Scope::capture), Status::invalid_state, "capture: none records");
    bury();
    if (!keep) {
        flush();
        return nullptr;
    }
    mark_outputs(graph_);
    auto capture = std::make_unique<Capture>();
    capture->owner = shared_from_this();
    std::vector<bool> of_slot(graph_.inputs.size());
    const graph::Live live = graph::live_of(graph_);
    uint32_t output = 0;
    for (Holder& h : holders_) {
        Slot slot;
        if (h.input != no_value) {
            of_slot[h.input] = true;
            if (live.values[graph_.inputs[h.input].value]) slot.input = h.input;
        }
        if (h.buffer && h.current != no_value && h.current != h.leaf) slot.output = output++;
        if (slot.input == no_value && slot.output == no_value) continue;
        slot.made = h.buffer && h.buffer->capture == captures_;
        if (!h.buffer) slot.ref = std::make_shared<BufferRef>();
        else if (!h.buffer->ref) h.buffer->ref = std::make_shared<BufferRef>(BufferRef{h.buffer});
        if (h.buffer) slot.ref = h.buffer->ref;
        capture->digest.add(slot.input).add(slot.output).add(slot.made ? 1 : 0);
        capture->slots.push_back(std::move(slot));
    }
    // Data from the host is the same at each replay
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
        if (!of_slot[i]) graph_.inputs[i].overwritable = false;
    for (const auto& [input, bytes] : host_data_)
        capture->digest.add(input).add(bytes.a).add(bytes.b);
    capture->graph = graph_;
    capture->calls = calls_;
    capture->host_data = host_data_;
    capture->random = random_of(graph_, capture_start_);
    capture->hash = graph_.hash();
    capture->digest.add(capture->hash.a).add(capture->hash.b);
    for (size_t i = 0; i < graph_.inputs.size(); ++i)
        if (of_slot[i]) capture->graph.inputs[i].stored = nullptr;
    flush();
    return capture;
}

static std::string data_difference(const Capture& before, const Capture& now) {
    for (size_t k = 0; k < std::min(before.host_data.size(), now.host_data.size()); ++k)
        if (before.host_data[k] != now.host_data[k]) {
            const std::string reader =
                graph::reader_of(now.graph, now.graph.inputs[now.host_data[k].first].value);
            return "other data from the host" + (reader.empty() ? reader : ", read by " + reader);
        }
    return before.host_data.size() == now.host_data.size() ? "" : "more or less data from the host";
}

std::string difference(const Capture& before, const Capture& now, std::span<const uint32_t> live) {
    if (!(before.hash == now.hash))
        return "other ops or shapes: " + graph::difference(before.graph, now.graph, false);
    if (std::string data = data_difference(before, now); !data.empty()) return data;
    if (!(before.digest == now.digest)) return "other tensors are read, written or made";
    for (uint32_t k = 0; k < now.graph.scalars.size(); ++k) {
        const auto is_k = [k](const Random& r) { return r.scalar == k; };
        if (before.graph.scalars[k].i == now.graph.scalars[k].i ||
            std::ranges::find(live, k) != live.end() ||
            (std::ranges::any_of(before.random, is_k) && std::ranges::any_of(now.random, is_k)))
            continue;
        return "other numbers: " + graph::number_difference(before.graph, now.graph, k);
    }
    return {};
}

size_t Recorder::numbers(size_t from, std::span<kernels::Param> to) {
    std::lock_guard lock(mutex_);
    for (size_t k = from; k < graph_.scalars.size() && k - from < to.size(); ++k)
        to[k - from] = graph_.scalars[k];
    return graph_.scalars.size();
}

// The data of a buffer as an input of the captured graph; nullptr: it is another kind of data by
// now.
static graph::StoredRef data_for(const Buffer& buffer, const graph::Value& value) {
    const graph::StoredRef& stored = buffer.stored;
    if (!stored || stored->undefined) return nullptr;
    if (stored->dtype == value.dtype && stored->sizes == value.sizes) return stored;
    return stored->as(value.dtype, value.sizes);
}

void Recorder::replay(Capture& capture, const Replay& given) {
    std::lock_guard lock(mutex_);
    bury();
    check_no_capture("replay");
    check(capture.owner.get() == this, Status::invalid_argument,
          "replay: a capture of another recorder");
    flush();
    graph::Graph& graph = capture.graph;
    std::vector<Buffer*> buffers;
    buffers.reserve(capture.slots.size());
    for (const Slot& slot : capture.slots) buffers.push_back(slot.ref->buffer);
    for (const Replay::Binding& b : given.bindings) {
        check(b.slot < buffers.size(), Status::invalid_argument, "replay: slot ", b.slot, " of ",
              buffers.size());
        check(b.buffer && b.buffer->owner.get() == this, Status::invalid_argument, "replay: slot ",
              b.slot, " gets a buffer of another recorder");
        buffers[b.slot] = b.buffer;
    }
    // No buffer is in an open graph now, so `holder` is free to find those that stand in two slots.
    struct Unmark {
        std::vector<Buffer*>& buffers;
        graph::Graph& graph;
        const std::vector<Slot>& slots;
        ~Unmark() {
            for (Buffer* b : buffers)
                if (b) b->holder.store(-1, std::memory_order_release);
            for (const Slot& slot : slots)
                if (slot.input != no_value) graph.inputs[slot.input].stored = nullptr;
        }
    } unmark{buffers, graph, capture.slots};
    for (size_t k = 0; k < buffers.size(); ++k) {
        if (!buffers[k]) continue;
        check(buffers[k]->holder < 0, Status::not_found,
              "replay: an argument is data that the captured function "
              "also uses in another way");
        buffers[k]->holder = static_cast<int32_t>(k);
    }
    for (size_t k = 0; k < buffers.size(); ++k) {
        const Slot& slot = capture.slots[k];
        if (slot.input == no_value) continue;
        const graph::Value& value = graph.value(graph.inputs[slot.input].value);
        if (buffers[k]) need_data(*buffers[k]);
        auto data = buffers[k] ? data_for(*buffers[k], value) : nullptr;
        check(data != nullptr, Status::not_found, "replay: data of shape ",
              text_of_dims(value.sizes),
              " that was read when the function was captured is no longer there");
        graph.inputs[slot.input].stored = std::move(data);
    }
    for (const Replay::Number& n : given.numbers) {
        check(n.scalar < graph.scalars.size(), Status::invalid_argument, "replay: number ",
              n.scalar, " of ", graph.scalars.size());
        graph.scalars[n.scalar].f = n.value;
    }
    for (const Random& r : capture.random)
        graph.scalars[r.scalar].i =
            r.is_offset ? given.generator.offset + r.value : given.generator.seed;
    if (graph.is_idle()) return;
    compute_before_overwriting(graph);
    graph.callers.assign(current_mark ? graph.places.size() : 0, current_mark);
    std::vector<HostCall> calls = capture.calls;
    bool lowered = false;
    Executor::Result result = executor_->run(graph, capture.hash, calls, cuts_, lowered, false);
    ++submitted_;
    for (size_t k = 0; k < buffers.size(); ++k) {
        if (!buffers[k]) continue;
        buffers[k]->used = submitted_;
        if (capture.slots[k].output != no_value) buffers[k]->written = submitted_;
    }
    for (auto& [input, stored] : result.retiled_inputs)
        for (size_t k = 0; k < buffers.size(); ++k)
            if (capture.slots[k].input == input && capture.slots[k].output == no_value)
                buffers[k]->stored = stored;
    for (size_t k = 0; k < buffers.size(); ++k)
        if (buffers[k] && capture.slots[k].output != no_value)
            buffers[k]->stored = std::move(result.outputs[capture.slots[k].output]);
}

}  // namespace nntile::record
