// SPDX-License-Identifier: BSD-3-Clause
// Axis groups: names of dims, kept with pending values and with stored data, and their cuts.
#include <algorithm>
#include <optional>

#include "base/error.hh"
#include "record/recorder.hh"

namespace nntile::record {

using graph::no_value;

// Own dim of the data that is dim `dim` of the tensor: same extent and stride.
static std::optional<uint32_t> own_dim(std::span<const int64_t> own, const Operand& t, size_t dim) {
    if (own.size() == t.sizes.size() && std::equal(own.begin(), own.end(), t.sizes.begin()) &&
        t.dense())
        return static_cast<uint32_t>(dim);
    const Dims strides = dense_strides(own);
    for (uint32_t d = 0; d < own.size(); ++d)
        if (own[d] == t.sizes[dim] && strides[d] == t.strides[dim]) return d;
    return std::nullopt;
}

bool Recorder::is_pending(const Buffer& buffer) const {
    return buffer.holder >= 0 && holders_[buffer.holder].current != no_value;
}

// A tensor that fills its storage may be cut along any dim: data of another shape (made flat, read
// from bytes) takes the tensor's.
void Recorder::see_for_naming(const Operand& tensor, size_t dim) {
    Buffer& buffer = *tensor.buffer;
    const bool pending = is_pending(buffer);
    if (!pending && (!buffer.stored || buffer.stored->undefined)) return;
    const uint32_t value = pending ? holders_[buffer.holder].current : no_value;
    const Dims& own = pending ? graph_.value(value).sizes : buffer.stored->sizes;
    const DType dtype = pending ? graph_.value(value).dtype : buffer.stored->dtype;
    const auto sizes = storage_sizes(tensor);
    if (own_dim(own, tensor, dim) || tensor.sizes[dim] <= 1 || !sizes) return;
    if (dtype != tensor.dtype && dtype != DType::u8) return;
    if (!pending) see_as(buffer, tensor);
    if (!pending && buffer.stored->sizes == *sizes) return;  // as the tensor is now, without a copy
    const uint32_t view =
        graph_.add_view(current_value(buffer, tensor.dtype), Layout::dense(*sizes));
    set_current(buffer, graph_.copy(view, tensor.dtype));
    if (at_once()) flush();
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
    if (at_once()) flush();
    Buffer& buffer = *tensor.buffer;
    if (product(tensor.sizes) == 0) {  // nothing to cut
        extents_[name].insert(tensor.sizes[at]);
        return;
    }
    need_data(buffer);
    see_for_naming(tensor, at);
    const bool pending = is_pending(buffer);
    if (!buffer.stored) {  // never written, or not yet: remember the shape that was named
        buffer.stored = std::make_shared<graph::Stored>();
        buffer.stored->dtype = tensor.dtype;
        buffer.stored->sizes =
            storage_sizes(tensor).value_or(Dims{buffer.bytes / size_of(tensor.dtype)});
        buffer.stored->undefined = true;
    }
    const uint32_t value = pending ? holders_[buffer.holder].current : no_value;
    const Dims own = pending ? graph_.value(value).sizes : buffer.stored->sizes;
    const auto d = own_dim(own, tensor, at);
    if (!d && tensor.sizes[at] <= 1) {  // a view has dims that the data lacks: nothing to cut
        extents_[name].insert(tensor.sizes[at]);
        return;
    }
    check(d.has_value(), Status::invalid_argument, "set_axis_group_name: dim ", at,
          " of this view of shape ", text_of_dims(tensor.sizes),
          " is no whole dim of its data of shape ", text_of_dims(own));
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
        check(s > 0, Status::invalid_argument, "set_axis_group_tiling: tile size ", s,
              " of axis group '", name, "' (extent ", extent, ") must be > 0");
        sum += s;
    }
    check(sizes.size() < 2 || it->second.count(sum), Status::invalid_argument,
          "set_axis_group_tiling: tile sizes of axis group '", name, "' sum to ", sum,
          ", its extent is ", extent);
    if (at_once()) flush();  // a cut holds from the next op on
    cuts_[name].assign(sizes.begin(), sizes.end());
}

std::string Recorder::axis_text() {
    std::lock_guard lock(mutex_);
    bury();
    std::string out = graph_.nodes.empty() ? "" : executor_->axes(as_if_it_ended(), cuts_);
    for (const auto& [name, extents] : extents_) {
        if (out.find("\n" + name + " ") != std::string::npos || out.starts_with(name + " "))
            continue;
        out += name + " = ";
        for (int64_t e : extents) out += (e == *extents.begin() ? "" : ", ") + std::to_string(e);
        auto cut = cuts_.find(name);
        if (cut == cuts_.end() || cut->second.empty()) out += "  cut auto\n";
        else if (cut->second == graph::AxisCut{INT64_MAX}) out += "  whole\n";
        else if (cut->second.size() == 1) out += "  cut " + std::to_string(cut->second[0]) + "\n";
        else out += "  cut " + text_of_dims(cut->second) + "\n";
    }
    return out;
}

std::string Recorder::save_cuts() {
    std::lock_guard lock(mutex_);
    if (at_once()) flush();
    return executor_->save_cuts(cuts_);
}

void Recorder::load_cuts(std::string_view text) {
    std::lock_guard lock(mutex_);
    if (at_once()) flush();
    known_calls_.forget();
    for (auto& [name, cut] : executor_->load_cuts(text, extents_)) cuts_[name] = std::move(cut);
}

}  // namespace nntile::record
