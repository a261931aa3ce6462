// SPDX-License-Identifier: BSD-3-Clause
#include "record/recorder.hh"

#include <algorithm>

#include "base/error.hh"
#include "graph/text.hh"

namespace nntile::record {

using graph::Attr;
using graph::no_value;
using graph::OpRow;
using graph::Type;

// ---- buffers

Buffer* Recorder::create_buffer(int64_t bytes) {
    check(bytes >= 0, Status::invalid_argument, "buffer: negative size ", bytes);
    auto buffer = std::make_unique<Buffer>();
    buffer->owner = shared_from_this();
    buffer->bytes = bytes;
    if (capturing()) buffer->capture = captures_;
    ++buffers;
    const int64_t total = buffer_bytes += bytes;
    int64_t peak = buffer_peak;
    while (total > peak && !buffer_peak.compare_exchange_weak(peak, total)) {
    }
    return buffer.release();
}

void Recorder::destroy_buffer(Buffer* buffer) {
    --buffers;
    buffer_bytes -= buffer->bytes;
    auto self = std::move(buffer->owner);  // may be the last reference to this recorder
    // Nearly always: no pending graph and no capture knows it.
    if (buffer->holder.load(std::memory_order_acquire) < 0 && !buffer->ref) {
        delete buffer;
        return;
    }
    std::lock_guard lock(dead_mutex_);
    dead_.push_back(buffer);
    any_dead_.store(true, std::memory_order_release);
}

void Recorder::bury() {
    if (!any_dead_.load(std::memory_order_acquire)) return;  // nearly always
    std::vector<Buffer*> dead;
    {
        std::lock_guard lock(dead_mutex_);
        dead.swap(dead_);
        any_dead_.store(false, std::memory_order_relaxed);
    }
    for (Buffer* b : dead) {
        if (b->holder >= 0) {
            Holder& holder = holders_[b->holder];
            if (holder.current != holder.leaf)
                waiting_.bytes = std::max<int64_t>(0, waiting_.bytes - b->bytes);
            holder.buffer = nullptr;
        }
        if (b->ref) b->ref->buffer = nullptr;
        delete b;
    }
}

Recorder::Holder& Recorder::hold(Buffer& buffer) {
    if (buffer.holder < 0) {
        buffer.holder = static_cast<int32_t>(holders_.size());
        holders_.push_back({&buffer});
        waiting_.settled &= buffer.written <= settled_;
    }
    return holders_[buffer.holder];
}

void Recorder::set_current(Buffer& buffer, uint32_t value) {
    Holder& holder = hold(buffer);
    last_writes_.emplace_back(buffer.holder, holder.current);
    if (holder.first == no_value) holder.first = value;
    holder.current = value;
}

// ---- calls

static int64_t bytes_of(std::span<const Operand> operands) {
    int64_t bytes = 0;
    for (const Operand& o : operands)
        if (o.kind == Operand::Kind::tensor) bytes += product(o.sizes) * size_of(o.dtype);
    return bytes;
}

// A copy of a result is that value, which never changes.
bool Recorder::is_same(const OpRow& row, std::span<const uint32_t> inputs,
                       std::span<const Type> wanted) const {
    static const OpRow* const copy = schema::find_op("copy");
    if (&row != copy || inputs[0] == no_value || wanted.size() != 1) return false;
    const graph::Value& x = graph_.value(inputs[0]);
    return x.kind == graph::ValueKind::result && x.dtype == wanted[0].dtype &&
           x.sizes == wanted[0].sizes;
}

void Recorder::op(const OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                  std::vector<Attr> attrs, DType compute, Place place) {
    std::lock_guard lock(mutex_);
    const int64_t result_bytes = bytes_of(operands.subspan(n_inputs)),
                  input_bytes = bytes_of(operands.first(n_inputs));
    bury();
    const CallView call{row, operands, n_inputs, attrs, compute};
    std::optional<Hash> learns;
    if (input_bytes + result_bytes <= KnownCalls::most_bytes && knows_calls(operands)) {
        const Hash signature = call.signature();
        bool data = has_data(call);
        const bool often = !data && known_calls_.comes_often(signature);
        if (often && waits_for_little(call)) {
            flush(Failure::kept, true);
            data = has_data(call);
        }
        const Hash with_data = data ? call.signature_with_data(signature) : signature;
        const KnownCall* known = data ? known_calls_.find(with_data) : nullptr;
        if (known && run_known(*known, call, call.numbers(), place)) return;
        if (data && !known && (often || known_calls_.comes_often(signature))) learns = with_data;
    }
    check_operands(row.name, operands, place);
    if (learns) flush();
    // What a composition has of passes is one graph: a mean runs with what made its operand.
    const bool passes = row.rule == schema::Rule::compose && !scopes_.has(Scope::composition);
    begin_call(row.rule == schema::Rule::contract || passes ? std::optional(Event::heavy_call)
                                                            : std::nullopt);
    stand_at(place);
    const Numbers numbers = learns ? call.numbers() : Numbers();
    if (copy_bytes(row.name, operands)) {
        if (learns) known_calls_.learn(*learns, {});
        return finish_call(result_bytes, input_bytes);
    }
    std::vector<Operand> permuted;
    std::vector<Dims> space;
    if (permute_map(row, operands, n_inputs, permuted, space)) operands = permuted;
    else if (order_outputs(row, operands, n_inputs, attrs, permuted, space)) operands = permuted;
    const auto outputs = operands.subspan(n_inputs);

    std::vector<Type> wanted;
    wanted.reserve(outputs.size());
    for (const Operand& o : outputs) wanted.push_back({o.dtype, Dims(o.sizes), false});
    SmallVector<uint32_t, 6> inputs;
    for (size_t k = 0; k < n_inputs; ++k) {
        uint32_t v = read_operand(operands[k]);
        const schema::ArgRow* arg =
            row.inputs.empty() ? nullptr : &row.inputs[std::min(k, row.inputs.size() - 1)];
        const bool is_t =
            arg && (arg->type == "T" || (arg->variadic() && row.rule == schema::Rule::compose));
        if (v != no_value && is_t && row.rule != schema::Rule::map && compute != DType::none)
            v = graph_.in_dtype(v, compute);
        inputs.push_back(v);
    }
    // A row without tensor inputs takes its shape from the output
    for (size_t k = 0; k < attrs.size(); ++k)
        if (row.rule == schema::Rule::map && row.attrs[k].name == "sizes" && !wanted.empty())
            attrs[k].ints = wanted[0].sizes;
    const auto results = is_same(row, inputs, wanted)
                             ? std::vector{inputs[0]}
                             : graph_.add(row, inputs, std::move(attrs), compute, wanted);
    check(outputs.size() <= results.size(), Status::invalid_argument, row.name, ": ",
          outputs.size(), " outputs given, the op has ", results.size());
    for (size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k].kind == Operand::Kind::tensor) write_operand(outputs[k], results[k]);
    if (learns && learn(*learns, call, numbers, place)) return;
    finish_call(result_bytes, input_bytes);
    if (learns) flush(Failure::of_call);
}

void Recorder::host(HostCall call, std::span<const Operand> operands, size_t n_inputs,
                    Place place) {
    std::lock_guard lock(mutex_);
    check_operands(call.host.name, operands, place);
    begin_call(Event::effect);
    stand_at(place);
    SmallVector<uint32_t, 6> inputs;
    for (size_t k = 0; k < n_inputs; ++k) inputs.push_back(read_operand(operands[k]));
    std::vector<Type> wanted;
    for (const Operand& o : operands.subspan(n_inputs))
        wanted.push_back({o.dtype, Dims(o.sizes), false});
    const auto results = graph_.add_host(call.host, inputs, wanted);
    const bool effect = call.host.effect;
    calls_.push_back(std::move(call));
    for (size_t k = 0; k < wanted.size(); ++k)
        if (operands[n_inputs + k].kind == Operand::Kind::tensor)
            write_operand(operands[n_inputs + k], results[k]);
    finish_call(bytes_of(operands.subspan(n_inputs)), bytes_of(operands.first(n_inputs)), effect);
}

static void check_bytes(std::string_view op, const Operand& o, size_t bytes) {
    const auto want = static_cast<size_t>(product(o.sizes) * size_of(o.dtype));
    check(bytes == want, Status::invalid_argument, op, ": got ", bytes, " bytes for a tensor of ",
          want, " bytes, shape ", text_of_dims(o.sizes));
}

void Recorder::write(const Operand& target, const void* host, size_t bytes) {
    check_operand("write", target, this);
    check_bytes("write", target, bytes);
    if (bytes == 0) return;
    forget_dead();
    // Without the mutex: it may wait for memory.
    auto stored = executor_->write(target.dtype, target.sizes, host);
    std::lock_guard lock(mutex_);
    bury();
    stand_at(current_place);
    Buffer& buffer = *target.buffer;
    const bool whole = target.dense() && target.fills_buffer();
    if (!whole) check_operands("write", {&target, 1}, current_place);
    if (whole && !capturing()) {
        buffer.written = buffer.used = 0;
        if (buffer.stored && buffer.stored->sizes == stored->sizes)
            stored->names = buffer.stored->names;
        if (buffer.holder >= 0) {  // earlier readers keep their value; the buffer starts anew
            holders_[buffer.holder].buffer = nullptr;
            buffer.holder = -1;
        }
        buffer.stored = std::move(stored);
        return;
    }
    last_writes_.clear();
    const uint32_t data = graph_.add_input(target.dtype, target.sizes, {}, std::move(stored));
    graph_.inputs.back().overwritable = true;
    if (capturing())
        host_data_.emplace_back(
            graph_.inputs.size() - 1,
            Hash().add(std::string_view(static_cast<const char*>(host), bytes)));
    write_operand(target, data);
    finish_call(static_cast<int64_t>(bytes), 0);
}

void Recorder::read(const Operand& source, void* host, size_t bytes) {
    check_operand("read", source, this);
    check_bytes("read", source, bytes);
    if (bytes == 0) return;
    Buffer& buffer = *source.buffer;
    graph::StoredRef stored;
    {
        std::lock_guard lock(mutex_);
        check_no_capture("read");
        bury();
        // Data that is there can be read, whatever becomes of other calls.
        const bool waits =
            is_pending(buffer) && holders_[buffer.holder].current != holders_[buffer.holder].leaf;
        if (waits) flush(Failure::kept, true);
        else (void)try_flush(Failure::later);
        need_data(buffer);
        if (buffer.stored && !buffer.stored->undefined) stored = buffer.stored;
        settled_ = std::max(settled_, buffer.written);
    }
    // Without the mutex: others may record meanwhile. A later write makes another value.
    if (stored && stored->dtype == source.dtype && source.dense() && source.fills_buffer())
        return executor_->read(*stored, host);
    if (stored && executor_->read_view(*stored, source.dtype, source.layout(), host)) return;
    {  // let a graph of its own make it dense
        std::lock_guard lock(mutex_);
        flush();
        stand_at(current_place);
        const uint32_t v =
            graph_.add_view(current_value(buffer, source.dtype, &source), source.layout());
        const uint32_t dense = graph_.copy(v, source.dtype);
        Buffer target;
        target.bytes = static_cast<int64_t>(bytes);
        hold(target).current = dense;
        flush(Failure::forget, true);
        stored = std::move(target.stored);
    }
    executor_->read(*stored, host);
}

// ---- running

void Recorder::set_mode(Mode mode) {
    std::lock_guard lock(mutex_);
    check_no_capture("runtime_mode");
    bury();
    flush();
    (void)scopes_.end(Scope::graph);
    if (mode == Mode::graph) scopes_.begin(Scope::graph);
}

size_t Recorder::pending() {
    std::lock_guard lock(mutex_);
    return waiting_.calls;
}

void Recorder::compile() {
    std::lock_guard lock(mutex_);
    bury();
    const graph::Graph graph = as_if_it_ended();
    if (!graph.is_idle()) executor_->compile(graph, cuts_);
}

void Recorder::run() {
    std::lock_guard lock(mutex_);
    check_no_capture("run");
    bury();
    flush();
}

void Recorder::reset() {
    std::lock_guard lock(mutex_);
    bury();
    known_calls_.forget();
    lose_all("the data of a tensor was dropped when the context was shut down");
    (void)scopes_.end(Scope::capture);
    executor_->reset();
}

void Recorder::forget_dead() {
    std::lock_guard lock(mutex_);
    bury();
}

void Recorder::trim() {
    std::lock_guard lock(mutex_);
    bury();
    known_calls_.forget();
}

std::string Recorder::text(std::string_view stage) {
    std::lock_guard lock(mutex_);
    if (stage != "pending") return executor_->text(stage);
    bury();
    return graph::print(as_if_it_ended());
}

}  // namespace nntile::record
