// SPDX-License-Identifier: BSD-3-Clause
#include "record/recorder.hh"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.hh"
#include "graph/text.hh"

namespace nntile::record {

using graph::Attr;
using graph::no_value;
using graph::OpRow;
using graph::Type;

namespace {
struct OnExit {
    std::function<void()> action;
    ~OnExit() { action(); }
};
}  // namespace

// ---- buffers

Buffer* Recorder::create_buffer(int64_t bytes) {
    check(bytes >= 0, Status::invalid_argument, "buffer: negative size ", bytes);
    auto buffer = std::make_unique<Buffer>();
    buffer->owner = shared_from_this();
    buffer->bytes = bytes;
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
    auto self = std::move(buffer->owner);       // may be the last reference to this recorder
    std::lock_guard lock(dead_mutex_);
    dead_.push_back(buffer);
}

void Recorder::bury() {
    std::vector<Buffer*> dead;
    {
        std::lock_guard lock(dead_mutex_);
        dead.swap(dead_);
    }
    for (Buffer* b : dead) {
        if (b->holder >= 0) holders_[b->holder].buffer = nullptr;
        delete b;
    }
}

Recorder::Holder& Recorder::hold(Buffer& buffer) {
    if (buffer.holder < 0) {
        buffer.holder = static_cast<int32_t>(holders_.size());
        holders_.push_back({&buffer});
    }
    return holders_[buffer.holder];
}

void Recorder::set_current(Buffer& buffer, uint32_t value) { hold(buffer).current = value; }

// ---- operands

static Layout layout_of(const Operand& o) { return {Dims(o.sizes), Dims(o.strides), o.offset}; }

static bool covers(const Operand& o) {
    return product(o.sizes) * size_of(o.dtype) == o.buffer->bytes;
}

// The dims of a tensor that fills its storage, in storage order (size-1 dims last); empty: it does not fill it.
static std::optional<std::vector<size_t>> storage_order(const Operand& o) {
    if (o.offset != 0 || !covers(o)) return std::nullopt;
    std::vector<size_t> order(o.sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        if ((o.sizes[a] == 1) != (o.sizes[b] == 1)) return o.sizes[b] == 1;
        return o.sizes[a] != 1 && o.strides[a] > o.strides[b];
    });
    int64_t want = 1;
    for (size_t k = order.size(); k-- > 0;) {
        if (o.sizes[order[k]] == 1) continue;
        if (o.strides[order[k]] != want) return std::nullopt;
        want *= o.sizes[order[k]];
    }
    return order;
}

// The dense value that the buffer holds, as elements of dtype.
uint32_t Recorder::current_value(Buffer& buffer, DType dtype) {
    Holder& h = hold(buffer);
    if (h.current == no_value) {
        if (buffer.stored && !buffer.stored->undefined) {
            h.input = static_cast<uint32_t>(graph_.inputs.size());
            h.leaf = graph_.add_input(buffer.stored->dtype, buffer.stored->sizes, {}, buffer.stored);
        } else {
            Attr sizes;
            if (buffer.stored) sizes.ints = buffer.stored->sizes;
            else sizes.ints = {buffer.bytes / size_of(dtype)};
            h.leaf = graph_.add(*schema::find_op("empty"), {}, {sizes}, dtype)[0];
            if (buffer.stored)
                for (size_t d = 0; d < buffer.stored->names.size(); ++d)
                    if (!buffer.stored->names[d].empty())
                        graph_.name_axis(h.leaf, static_cast<uint32_t>(d), buffer.stored->names[d]);
        }
        h.current = h.leaf;
    }
    if (graph_.value(h.current).dtype == dtype) return h.current;
    return graph_.add(*schema::find_op("bits"), std::vector<uint32_t>{h.current}, {}, dtype)[0];
}

uint32_t Recorder::read_operand(const Operand& o) {
    if (o.kind == Operand::Kind::absent) return no_value;
    if (o.kind == Operand::Kind::scalar) return graph_.add_scalar(o.dtype, o.f, o.i);
    return graph_.add_view(current_value(*o.buffer, o.dtype), layout_of(o));
}

bool Recorder::held_elsewhere(uint32_t value, const Buffer& buffer) const {
    return std::any_of(holders_.begin(), holders_.end(), [&](const Holder& h) {
        return h.buffer && h.buffer != &buffer && h.current == value;
    });
}

void Recorder::write_operand(const Operand& o, uint32_t data) {
    if (product(o.sizes) == 0) return;
    if (graph_.value(data).dtype != o.dtype)
        data = graph_.add(*schema::find_op("copy"), std::vector<uint32_t>{data}, {}, o.dtype)[0];
    const bool dense = covers(o) && is_dense(o.sizes, o.strides, o.offset);
    if (dense) {
        // A reshaped result is its dense base: a buffer holds bytes in storage order, not dims.
        const uint32_t base = graph_.base_of(data);
        const bool whole = base == data || (is_dense(graph_.layout_of(data)) &&
                                            product(graph_.value(data).sizes) == product(graph_.value(base).sizes));
        const bool own = whole && graph_.value(base).kind == graph::ValueKind::result &&
                         (fresh_from_ <= base || !held_elsewhere(base, *o.buffer));
        set_current(*o.buffer, own ? base
                                   : graph_.add(*schema::find_op("copy"), std::vector<uint32_t>{data}, {},
                                                o.dtype)[0]);
        return;
    }
    if (auto order = storage_order(o)) {        // nothing of the old bytes stays
        Attr sizes;
        for (size_t d : *order) sizes.ints.push_back(o.sizes[d]);
        set_current(*o.buffer, graph_.add(*schema::find_op("empty"), {}, {sizes}, o.dtype)[0]);
    }
    const uint32_t base = current_value(*o.buffer, o.dtype);
    Attr strides, offset;
    strides.ints = Dims(o.strides);
    offset.i = o.offset;
    set_current(*o.buffer, graph_.add(*schema::find_op("view_write"), std::vector<uint32_t>{base, data},
                                      {strides, offset}, o.dtype)[0]);
}

// ---- calls

static void check_operand(std::string_view op, const Operand& o, const Recorder* owner) {
    if (o.kind != Operand::Kind::tensor) return;
    check(o.buffer, Status::invalid_argument, op, ": tensor operand without a buffer");
    check(o.buffer->owner.get() == owner, Status::invalid_argument, op, ": buffer of another recorder");
    check(o.dtype != DType::none, Status::type_error, op, ": tensor operand without a dtype");
    int64_t numel = 1, last = o.offset;
    for (size_t d = 0; d < o.sizes.size(); ++d) {
        numel *= o.sizes[d];
        last += (o.sizes[d] - 1) * o.strides[d];
    }
    check(numel == 0 || (o.offset >= 0 && (last + 1) * size_of(o.dtype) <= o.buffer->bytes),
          Status::invalid_argument, op, ": a tensor of sizes ", text_of_dims(o.sizes), ", strides ",
          text_of_dims(o.strides), ", offset ", o.offset, " and dtype ", name_of(o.dtype),
          " is out of bounds of its storage of ", o.buffer->bytes, " bytes");
}

// A map writes an output that is dense in another order of dims (x.t() of a dense x): run it in that order,
// so that no copy is needed. Returns the operands in storage order, or nothing.
static bool permute_map(const OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                        std::vector<Operand>& out, std::vector<Dims>& space) {
    if (row.rule != schema::Rule::map || n_inputs == operands.size()) return false;
    const Operand& y = operands[n_inputs];
    if (y.kind != Operand::Kind::tensor || is_dense(y.sizes, y.strides, y.offset)) return false;
    for (const schema::AttrRow& a : row.attrs)
        if (a.name == "sizes") return false;
    const auto order = storage_order(y);
    if (!order) return false;
    const size_t rank = y.sizes.size();
    for (size_t k = n_inputs; k < operands.size(); ++k)
        if (!std::equal(operands[k].sizes.begin(), operands[k].sizes.end(), y.sizes.begin(), y.sizes.end()))
            return false;
    space.reserve(2 * operands.size());         // spans into it must stay
    for (const Operand& o : operands) {
        out.push_back(o);
        if (o.kind != Operand::Kind::tensor) continue;
        Dims sizes(rank, 1), strides(rank, 0);
        for (size_t k = 0; k < rank; ++k) {
            const size_t d = (*order)[k], shift = rank - o.sizes.size();
            if (d < shift || o.sizes[d - shift] == 1) continue;
            sizes[k] = o.sizes[d - shift];
            strides[k] = o.strides[d - shift];
        }
        space.push_back(std::move(sizes));
        out.back().sizes = space.back();
        space.push_back(std::move(strides));
        out.back().strides = space.back();
    }
    return true;
}

void Recorder::op(const OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                  std::vector<Attr> attrs, DType compute, std::string_view where) {
    std::lock_guard lock(mutex_);
    bury();
    for (const Operand& o : operands) check_operand(row.name, o, this);
    std::vector<Operand> permuted;
    std::vector<Dims> space;
    if (permute_map(row, operands, n_inputs, permuted, space)) operands = permuted;
    const auto outputs = operands.subspan(n_inputs);

    std::vector<Type> wanted;
    for (const Operand& o : outputs) wanted.push_back({o.dtype, Dims(o.sizes), false});
    SmallVector<uint32_t, 6> inputs;
    for (size_t k = 0; k < n_inputs; ++k) {
        uint32_t v = read_operand(operands[k]);
        const schema::ArgRow* arg = row.inputs.empty() ? nullptr : &row.inputs[std::min(k, row.inputs.size() - 1)];
        const bool is_t = arg && (arg->type == "T" || (arg->variadic() && row.rule == schema::Rule::compose));
        if (v != no_value && is_t && row.rule != schema::Rule::map && compute != DType::none &&
            graph_.value(v).dtype != compute && graph_.value(v).kind != graph::ValueKind::scalar)
            v = graph_.add(*schema::find_op("copy"), std::vector<uint32_t>{v}, {}, compute)[0];
        inputs.push_back(v);
    }
    for (size_t k = 0; k < attrs.size(); ++k)   // a row without tensor inputs takes its shape from the output
        if (row.rule == schema::Rule::map && row.attrs[k].name == "sizes" && !wanted.empty())
            attrs[k].ints = wanted[0].sizes;
    fresh_from_ = graph_.values.size();
    const auto results = graph_.add(row, inputs, std::move(attrs), compute, wanted, where);
    check(outputs.size() <= results.size(), Status::invalid_argument, row.name, ": ", outputs.size(),
          " outputs given, the op has ", results.size());
    for (size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k].kind == Operand::Kind::tensor) write_operand(outputs[k], results[k]);
    finish_call();
}

void Recorder::host(HostCall call, std::span<const Operand> operands, size_t n_inputs, std::string_view where) {
    std::lock_guard lock(mutex_);
    bury();
    for (const Operand& o : operands) check_operand(call.name, o, this);
    SmallVector<uint32_t, 6> inputs;
    for (size_t k = 0; k < n_inputs; ++k) inputs.push_back(read_operand(operands[k]));
    std::vector<Type> wanted;
    for (const Operand& o : operands.subspan(n_inputs)) wanted.push_back({o.dtype, Dims(o.sizes), false});
    fresh_from_ = graph_.values.size();
    const auto results = graph_.add_host(call.name, call.signature, inputs, wanted, where);
    calls_.push_back(std::move(call));
    for (size_t k = 0; k < wanted.size(); ++k)
        if (operands[n_inputs + k].kind == Operand::Kind::tensor)
            write_operand(operands[n_inputs + k], results[k]);
    finish_call();
}

void Recorder::finish_call() {
    ++ops_recorded;
    ++pending_ops_;
    if (mode_ == Mode::eager) flush();
}

static void check_bytes(std::string_view op, const Operand& o, size_t bytes) {
    const auto want = static_cast<size_t>(product(o.sizes) * size_of(o.dtype));
    check(bytes == want, Status::invalid_argument, op, ": got ", bytes, " bytes for a tensor of ", want,
          " bytes, shape ", text_of_dims(o.sizes));
}

void Recorder::write(const Operand& target, const void* host, size_t bytes) {
    check_operand("write", target, this);
    check_bytes("write", target, bytes);
    if (bytes == 0) return;
    std::lock_guard lock(mutex_);
    bury();
    auto stored = executor_->write(target.dtype, target.sizes, host);
    Buffer& buffer = *target.buffer;
    if (is_dense(target.sizes, target.strides, target.offset) && covers(target)) {
        if (buffer.stored && buffer.stored->sizes == stored->sizes) stored->names = buffer.stored->names;
        if (buffer.holder >= 0) {               // earlier readers keep their value; the buffer starts anew
            holders_[buffer.holder].buffer = nullptr;
            buffer.holder = -1;
        }
        buffer.stored = std::move(stored);
        return;
    }
    fresh_from_ = graph_.values.size();
    const uint32_t data = graph_.add_input(target.dtype, target.sizes, {}, std::move(stored));
    graph_.inputs.back().overwritable = true;
    write_operand(target, data);
    finish_call();
}

void Recorder::read(const Operand& source, void* host, size_t bytes) {
    check_operand("read", source, this);
    check_bytes("read", source, bytes);
    if (bytes == 0) return;
    graph::StoredRef stored;
    {
        std::lock_guard lock(mutex_);
        bury();
        flush();
        Buffer& buffer = *source.buffer;
        const bool direct = buffer.stored && !buffer.stored->undefined && buffer.stored->dtype == source.dtype &&
                            is_dense(source.sizes, source.strides, source.offset) && covers(source);
        if (direct) {
            stored = buffer.stored;
        } else {                                // a view: let a graph of its own make it dense
            const uint32_t v = graph_.add_view(current_value(buffer, source.dtype), layout_of(source));
            const uint32_t dense = graph_.add(*schema::find_op("copy"), std::vector<uint32_t>{v}, {}, source.dtype)[0];
            Buffer target;
            target.bytes = static_cast<int64_t>(bytes);
            hold(target).current = dense;
            OnExit exit{[&] {
                if (target.holder >= 0) holders_[target.holder].buffer = nullptr;
            }};
            flush();
            stored = std::move(target.stored);
        }
    }
    executor_->read(*stored, host);             // without the mutex: others may record meanwhile
}

// ---- running

void Recorder::mark_outputs() {
    graph_.outputs.clear();
    for (const Holder& h : holders_) {
        const bool keeps = h.buffer && h.current == h.leaf;
        if (h.input != no_value) graph_.inputs[h.input].overwritable = !keeps;
        if (h.buffer && h.current != no_value && !keeps) graph_.set_output(h.current);
    }
}

void Recorder::drop_graph() {
    for (Holder& h : holders_)
        if (h.buffer) h.buffer->holder = -1;
    holders_.clear();
    graph_ = {};
    calls_.clear();
    pending_ops_ = 0;
}

void Recorder::flush() {
    if (holders_.empty() && graph_.nodes.empty()) return;
    bool submitted = false, lowered = false;
    // A failed call leaves its buffers as they were. A graph that only did not fit into memory stays pending: the
    // user may free some and run it again.
    OnExit exit{[&] {
        if (submitted || !lowered || mode_ == Mode::eager) drop_graph();
    }};
    mark_outputs();
    Executor::Result result;
    if (!graph_.outputs.empty()) result = executor_->run(graph_, calls_, cuts_, lowered);
    size_t k = 0;
    for (Holder& h : holders_)
        if (h.buffer && h.current != no_value && h.current != h.leaf)
            h.buffer->stored = std::move(result.outputs[k++]);
    for (auto& [input, stored] : result.retiled_inputs)
        for (Holder& h : holders_)
            if (h.buffer && h.input == input && h.current == h.leaf) h.buffer->stored = stored;
    submitted = true;
}

void Recorder::set_mode(Mode mode) {
    std::lock_guard lock(mutex_);
    bury();
    flush();
    mode_ = mode;
}

size_t Recorder::pending() {
    std::lock_guard lock(mutex_);
    return pending_ops_;
}

void Recorder::compile() {
    std::lock_guard lock(mutex_);
    bury();
    mark_outputs();
    if (!graph_.outputs.empty()) executor_->compile(graph_, cuts_);
}

void Recorder::run() {
    std::lock_guard lock(mutex_);
    bury();
    flush();
}

void Recorder::reset() {
    std::lock_guard lock(mutex_);
    bury();
    drop_graph();
    executor_->reset();
}

// ---- axis groups

// Own dim of the data that is dim `dim` of the tensor: same extent and stride.
static std::optional<uint32_t> own_dim(std::span<const int64_t> own, const Operand& t, size_t dim) {
    if (own.size() == t.sizes.size() && std::equal(own.begin(), own.end(), t.sizes.begin()) &&
        is_dense(t.sizes, t.strides, t.offset))
        return static_cast<uint32_t>(dim);
    const Dims strides = dense_strides(own);
    for (uint32_t d = 0; d < own.size(); ++d)
        if (own[d] == t.sizes[dim] && strides[d] == t.strides[dim]) return d;
    return std::nullopt;
}

void Recorder::name_axis(const Operand& tensor, int64_t dim, std::string name) {
    check_operand("set_axis_group_name", tensor, this);
    const auto rank = static_cast<int64_t>(tensor.sizes.size());
    check(dim >= -rank && dim < rank, Status::index_error, "set_axis_group_name: dim ", dim,
          " is out of range for a tensor of shape ", text_of_dims(tensor.sizes));
    const size_t at = dim < 0 ? dim + rank : dim;
    check(!name.empty() && name.find_first_of("= \t\n{}[](),\"") == std::string::npos,
          Status::invalid_argument, "set_axis_group_name: '", name, "' is not a name");
    std::lock_guard lock(mutex_);
    bury();
    Buffer& buffer = *tensor.buffer;
    const bool pending = buffer.holder >= 0 && holders_[buffer.holder].current != no_value;
    if (!pending && !buffer.stored) {           // never written: remember the shape that was named
        buffer.stored = std::make_shared<graph::Stored>();
        buffer.stored->dtype = tensor.dtype;
        buffer.stored->sizes = covers(tensor) && is_dense(tensor.sizes, tensor.strides, tensor.offset)
                                   ? Dims(tensor.sizes)
                                   : Dims{buffer.bytes / size_of(tensor.dtype)};
        buffer.stored->undefined = true;
    }
    const uint32_t value = pending ? holders_[buffer.holder].current : no_value;
    const Dims own = pending ? graph_.value(value).sizes : buffer.stored->sizes;
    const auto d = own_dim(own, tensor, at);
    check(d.has_value(), Status::invalid_argument, "set_axis_group_name: dim ", at, " of this view of shape ",
          text_of_dims(tensor.sizes), " is no whole dim of its data of shape ", text_of_dims(own));
    if (pending) graph_.name_axis(value, *d, name);
    if (buffer.stored && buffer.stored->sizes == own) {
        buffer.stored->names.resize(own.size());
        buffer.stored->names[*d] = name;
    }
    extents_[name].insert(own[*d]);
}

void Recorder::cut_axis(const std::string& name, std::span<const int64_t> sizes) {
    std::lock_guard lock(mutex_);
    auto it = extents_.find(name);
    if (it == extents_.end()) {
        std::string known;
        for (const auto& [n, e] : extents_) known += (known.empty() ? "" : ", ") + n;
        fail(Status::not_found, "set_axis_group_tiling: no axis group '", name, "'; there ",
             known.empty() ? "are none" : "are ", known);
    }
    const int64_t extent = *it->second.rbegin();
    int64_t sum = 0;
    for (int64_t s : sizes) {
        check(s > 0, Status::invalid_argument, "set_axis_group_tiling: tile size ", s, " of axis group '", name,
              "' (extent ", extent, ") must be > 0");
        sum += s;
    }
    check(sizes.size() < 2 || it->second.count(sum), Status::invalid_argument,
          "set_axis_group_tiling: tile sizes of axis group '", name, "' sum to ", sum, ", its extent is ", extent);
    cuts_[name].assign(sizes.begin(), sizes.end());
}

std::string Recorder::axis_text() {
    std::lock_guard lock(mutex_);
    bury();
    mark_outputs();
    std::string out = graph_.nodes.empty() ? "" : executor_->axes(graph_, cuts_);
    for (const auto& [name, extents] : extents_) {
        if (out.find("\n" + name + " ") != std::string::npos || out.starts_with(name + " ")) continue;
        out += name + " = ";
        for (int64_t e : extents) out += (e == *extents.begin() ? "" : ", ") + std::to_string(e);
        auto cut = cuts_.find(name);
        if (cut == cuts_.end() || cut->second.empty()) out += "  cut auto\n";
        else if (cut->second.size() == 1) out += "  cut " + std::to_string(cut->second[0]) + "\n";
        else out += "  cut " + text_of_dims(cut->second) + "\n";
    }
    return out;
}

std::string Recorder::text(std::string_view stage) {
    std::lock_guard lock(mutex_);
    if (stage != "pending") return executor_->text(stage);
    mark_outputs();
    return graph::print(graph_);
}

}  // namespace nntile::record
