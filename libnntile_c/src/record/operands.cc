// SPDX-License-Identifier: BSD-3-Clause
// From operands to values and back: a read is a view of what the buffer holds now, a write makes it
// hold another value.
#include <algorithm>
#include <numeric>
#include <optional>
#include <ranges>

#include "base/error.hh"
#include "record/recorder.hh"

namespace nntile::record {

using graph::Attr;
using graph::no_value;
using graph::OpRow;

void check_operand(std::string_view op, const Operand& o, const Recorder* owner) {
    if (o.kind != Operand::Kind::tensor) return;
    check(o.buffer, Status::invalid_argument, op, ": tensor operand without a buffer");
    check(o.buffer->owner.get() == owner, Status::invalid_argument, op,
          ": buffer of another recorder");
    check(o.dtype != DType::none, Status::type_error, op, ": tensor operand without a dtype");
    check(in_bounds(o.sizes, o.strides, o.offset, o.buffer->bytes / size_of(o.dtype)),
          Status::invalid_argument, op, ": a tensor of sizes ", text_of_dims(o.sizes), ", strides ",
          text_of_dims(o.strides), ", offset ", o.offset, " and dtype ", name_of(o.dtype),
          " is out of bounds of its storage of ", o.buffer->bytes, " bytes");
}

// What has data and what has none do not meet: data would stay as it was, though it was written.
void Recorder::check_operands(std::string_view op, std::span<const Operand> operands,
                              Place place) const {
    for (const Operand& o : operands) {
        check_operand(op, o, this);
        if (o.kind != Operand::Kind::tensor || !o.buffer->stored) continue;
        const graph::Stored& stored = *o.buffer->stored;
        if (stored.undefined || stored.missing || stored.imagined == executor_->imagines())
            continue;
        const std::string line = text_of_place(place);
        fail(Status::invalid_state, op, ": a tensor ", name_of(o.dtype), " ", text_of_dims(o.sizes),
             stored.imagined ? " has no data, because it was made in estimate_only()"
                             : " has data: in estimate_only(), make models and batches inside too",
             line.empty() ? "" : " [" + line + "]");
    }
}

// The dims of a tensor that fills its storage, in storage order (size-1 dims last); nullopt: it
// does not fill it.
static std::optional<std::vector<size_t>> storage_order(const Operand& o) {
    if (o.offset != 0 || !o.fills_buffer()) return std::nullopt;
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

std::optional<Dims> storage_sizes(const Operand& o) {
    const auto order = storage_order(o);
    if (!order) return std::nullopt;
    Dims sizes;
    for (size_t d : *order) sizes.push_back(o.sizes[d]);
    return sizes;
}

void Recorder::see_as(Buffer& buffer, const Operand& like) {
    if (!buffer.stored || buffer.stored->undefined) return;
    for (const std::string& name : buffer.stored->names)
        if (!name.empty()) return;  // it has the shape that the user knows
    if (const auto sizes = storage_sizes(like))
        if (auto seen = buffer.stored->as(like.dtype, *sizes)) buffer.stored = std::move(seen);
}

// The data has other dims of one element than the operand, and is the same else.
static bool differ_in_ones(const graph::Stored& stored, const Operand& like) {
    const auto sizes = storage_sizes(like);
    if (!sizes || stored.dtype != like.dtype || Dims(stored.sizes) == *sizes) return false;
    const auto more = [](int64_t n) { return n != 1; };
    return std::ranges::equal(stored.sizes | std::views::filter(more),
                              *sizes | std::views::filter(more));
}

// False: bytes would remain behind the last element.
static bool fits(const Buffer& buffer, DType dtype) { return buffer.bytes % size_of(dtype) == 0; }

uint32_t Recorder::current_value(Buffer& buffer, DType dtype, const Operand* like) {
    Holder& h = hold(buffer);
    if (h.current == no_value) {
        need_data(buffer);
        // Weights of a model that came by to_empty(): in an estimate as if they were loaded.
        if (like && executor_->imagines() && (!buffer.stored || buffer.stored->undefined))
            if (const auto sizes = storage_sizes(*like))
                buffer.stored = executor_->write(like->dtype, *sizes, nullptr);
        const bool bytes = buffer.stored && buffer.stored->dtype == DType::u8;
        // A gradient that autograd made as (1, n) and adds to as (n): two recordings see it alike.
        const bool ones =
            capturing() && like && buffer.stored && differ_in_ones(*buffer.stored, *like);
        if (like && dtype != DType::u8 && (bytes || ones)) see_as(buffer, *like);
        if (buffer.stored && !buffer.stored->undefined) {
            h.input = static_cast<uint32_t>(graph_.inputs.size());
            h.leaf =
                graph_.add_input(buffer.stored->dtype, buffer.stored->sizes, {}, buffer.stored);
        } else {
            Attr sizes;
            DType own = fits(buffer, dtype) ? dtype : DType::u8;
            if (buffer.stored) {
                own = buffer.stored->dtype;
                sizes.ints = buffer.stored->sizes;
            } else {
                sizes.ints = {buffer.bytes / size_of(own)};
            }
            h.leaf = graph_.add(*schema::find_op("empty"), {}, {sizes}, own)[0];
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
    return graph_.add_view(current_value(*o.buffer, o.dtype, &o), o.layout());
}

void Recorder::write_operand(const Operand& o, uint32_t data) {
    if (product(o.sizes) == 0) return;
    data = graph_.in_dtype(data, o.dtype);
    const uint32_t base = graph_.base_of(data);
    const bool covers = product(graph_.value(data).sizes) == product(graph_.value(base).sizes);
    // Another buffer may hold it, too: it is copied where both still do when the graph ends.
    const bool free = graph_.value(base).kind == graph::ValueKind::result;
    // A result that was made in the order of the storage, as one with channels last.
    if (base != data && covers && free && o.fills_buffer() && o.layout() == graph_.layout_of(data))
        return set_current(*o.buffer, base);
    if (o.fills_buffer() && o.dense()) {
        // A reshaped result is its dense base: a buffer holds bytes in storage order, not dims.
        const bool whole = base == data || (covers && is_dense(graph_.layout_of(data)));
        const bool own = whole && free;
        set_current(*o.buffer, own ? base : graph_.copy(data, o.dtype));
        return;
    }
    if (const auto own = storage_sizes(o)) {  // nothing of the old bytes stays
        Attr sizes;
        sizes.ints = *own;
        set_current(*o.buffer, graph_.add(*schema::find_op("empty"), {}, {sizes}, o.dtype)[0]);
    }
    Layout to = o.layout();
    DType dtype = o.dtype;
    if (!fits(*o.buffer, dtype)) {  // as bytes, of which an element is one more dim
        const int64_t size = size_of(dtype);
        const uint32_t dense = graph_.copy(data, dtype);
        const uint32_t bytes =
            graph_.add(*schema::find_op("bits"), std::vector<uint32_t>{dense}, {}, DType::u8)[0];
        for (int64_t& stride : to.strides) stride *= size;
        to.offset *= size;
        to.sizes.push_back(size);
        to.strides.push_back(1);
        data = graph_.add_view(bytes, Layout::dense(to.sizes));
        dtype = DType::u8;
    }
    const uint32_t old = current_value(*o.buffer, dtype);
    Attr strides, offset;
    strides.ints = to.strides;
    offset.i = to.offset;
    set_current(*o.buffer,
                graph_.add(*schema::find_op("view_write"), std::vector<uint32_t>{old, data},
                           {strides, offset}, dtype)[0]);
}

// A storage is copied as bytes (copy.deepcopy): the copy is of what they stand for, with its shape,
// names and cuts.
bool Recorder::copy_bytes(std::string_view op, std::span<const Operand> operands) {
    if (op != "copy" || operands.size() != 2) return false;
    const Operand &from = operands[0], &to = operands[1];
    for (const Operand& o : operands)
        if (o.kind != Operand::Kind::tensor || o.dtype != DType::u8 || !o.dense() ||
            !o.fills_buffer())
            return false;
    if (from.buffer == to.buffer || from.buffer->bytes != to.buffer->bytes) return false;
    const bool pending = is_pending(*from.buffer);
    if (!pending && (!from.buffer->stored || from.buffer->stored->undefined)) return false;
    const DType dtype = pending ? graph_.value(holders_[from.buffer->holder].current).dtype
                                : from.buffer->stored->dtype;
    if (dtype == DType::u8) return false;
    const uint32_t value = current_value(*from.buffer, dtype);
    set_current(*to.buffer, graph_.copy(value, dtype));
    return true;
}

bool permute_map(const OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                 std::vector<Operand>& out, std::vector<Dims>& space) {
    if (row.rule != schema::Rule::map || n_inputs == operands.size()) return false;
    const Operand& y = operands[n_inputs];
    if (y.kind != Operand::Kind::tensor || y.dense()) return false;
    for (const schema::AttrRow& a : row.attrs)
        if (a.name == "sizes") return false;
    const auto order = storage_order(y);
    if (!order) return false;
    const size_t rank = y.sizes.size();
    for (size_t k = n_inputs; k < operands.size(); ++k)
        if (!std::equal(operands[k].sizes.begin(), operands[k].sizes.end(), y.sizes.begin(),
                        y.sizes.end()))
            return false;
    space.reserve(2 * operands.size());  // spans into it must stay
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

bool order_outputs(const OpRow& row, std::span<const Operand> operands, size_t n_inputs,
                   std::vector<Attr>& attrs, std::vector<Operand>& out, std::vector<Dims>& space) {
    const auto* attr = std::find_if(row.attrs.data(), row.attrs.data() + row.attrs.size(),
                                    [](const schema::AttrRow& a) { return a.name == "order"; });
    const auto number = static_cast<size_t>(attr - row.attrs.data());
    if (number >= attrs.size() || !attrs[number].ints.empty()) return false;
    const auto outputs = operands.subspan(n_inputs);
    bool any = false;
    Dims orders;
    for (const Operand& o : outputs) {
        if (o.kind != Operand::Kind::tensor) return false;
        auto order = o.dense() ? std::nullopt : storage_order(o);
        any |= order.has_value();
        for (size_t d = 0; d < o.sizes.size(); ++d)
            orders.push_back(static_cast<int64_t>(order ? (*order)[d] : d));
    }
    if (!any) return false;
    out.assign(operands.begin(), operands.end());
    space.reserve(2 * outputs.size());  // spans into it must stay
    const int64_t* order = orders.data();
    for (size_t k = 0; k < outputs.size(); ++k) {
        const Operand& o = outputs[k];
        for (const auto& from : {o.sizes, o.strides}) {
            Dims& to = space.emplace_back();
            for (size_t d = 0; d < o.sizes.size(); ++d)
                to.push_back(from[static_cast<size_t>(order[d])]);
        }
        order += o.sizes.size();
        out[n_inputs + k].sizes = space[2 * k];
        out[n_inputs + k].strides = space[2 * k + 1];
    }
    attrs[number].ints = std::move(orders);
    return true;
}

}  // namespace nntile::record
