// SPDX-License-Identifier: BSD-3-Clause
// The ops without which no tensor exists: making, viewing, resizing, setting, copying, reading.
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/native/ResizeCommon.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "contract/device.h"
#include "contract/notices.h"
#include "contract/operand.h"
#include "device/storage.h"

namespace torch_nntile {
namespace {

using at::Tensor;
using c10::IntArrayRef;
using c10::ScalarType;

void check_options(std::optional<c10::Layout> layout, std::optional<c10::Device> where,
                   std::optional<bool> pinned) {
    TORCH_CHECK_NOT_IMPLEMENTED(c10::layout_or_default(layout) == c10::kStrided,
                                "nntile: only strided tensors are supported");
    TORCH_CHECK(!c10::pinned_memory_or_default(pinned), "Only dense CPU tensors can be pinned");
    if (where) check_index(where->index());
}

// torch.use_deterministic_algorithms(True) and torch.utils.deterministic.fill_uninitialized_memory.
bool fills_memory() {
    const at::Context& context = at::globalContext();
    return context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory();
}

Tensor filled(Tensor t) { return fills_memory() ? at::native::fill_empty_deterministic_(t) : t; }

Tensor empty(IntArrayRef sizes, std::optional<ScalarType> dtype, std::optional<c10::Layout> layout,
             std::optional<c10::Device> where, std::optional<bool> pinned,
             std::optional<c10::MemoryFormat> format) {
    check_options(layout, where, pinned);
    return filled(at::detail::empty_generic(sizes, &allocator(), device_keys,
                                            c10::dtype_or_default(dtype), format));
}

Tensor empty_strided(IntArrayRef sizes, IntArrayRef strides, std::optional<ScalarType> dtype,
                     std::optional<c10::Layout> layout, std::optional<c10::Device> where,
                     std::optional<bool> pinned) {
    check_options(layout, where, pinned);
    return filled(make_tensor(sizes, strides, c10::dtype_or_default(dtype)));
}

Tensor as_strided(const Tensor& self, IntArrayRef sizes, IntArrayRef strides,
                  std::optional<int64_t> offset) {
    return at::native::as_strided_tensorimpl(self, sizes, strides, offset);
}

// Not at::native::resize_: that one allocates through the CPU's storage functions.
const Tensor& resize_(const Tensor& self, IntArrayRef sizes,
                      std::optional<c10::MemoryFormat> format) {
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    const auto before = static_cast<int64_t>(self.storage().nbytes());
    if (self.sizes() != sizes) {
        const size_t needed = at::detail::computeStorageNbytesContiguous(sizes, self.itemsize(),
                                                                         self.storage_offset());
        if (c10::multiply_integers(sizes) && needed > self.storage().nbytes())
            resize_storage(*self.storage().unsafeGetStorageImpl(), needed, self.scalar_type());
        impl->set_sizes_contiguous(sizes);
    }
    if (format && *format != c10::MemoryFormat::Preserve) impl->empty_tensor_restride(*format);
    if (fills_memory()) at::native::fill_resize_deterministic_(self, before);
    return self;
}

Tensor& set_storage_offset(Tensor& self, c10::Storage storage, int64_t offset, IntArrayRef sizes,
                           IntArrayRef strides) {
    at::native::checkSetStorage(self, storage, offset, sizes, strides);
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    impl->set_storage_offset(offset);
    if (strides.data()) impl->set_sizes_and_strides(sizes, strides);
    else impl->set_sizes_contiguous(sizes);
    const size_t needed = at::detail::computeStorageNbytes(
        impl->sizes(), impl->strides(), self.itemsize(), static_cast<size_t>(offset));
    if (impl->numel() && needed > storage.nbytes())
        resize_storage(*storage.unsafeGetStorageImpl(), needed, self.scalar_type());
    return self;
}

Tensor& set_storage(Tensor& self, c10::Storage storage) {
    const auto size = static_cast<int64_t>(storage.nbytes() / self.itemsize());
    return set_storage_offset(self, std::move(storage), 0, {size}, {});
}

Tensor& set_tensor(Tensor& self, const Tensor& source) {
    if (self.is_same(source)) return self;
    return set_storage_offset(self, source.storage(), source.storage_offset(), source.sizes(),
                              source.strides());
}

Tensor& set_nothing(Tensor& self) {
    return set_storage_offset(self, at::empty({0}, self.options()).storage(), 0, {0}, {});
}

// Between the device and tensors of the host, of which both may be conjugate or negative views.
Tensor read(const Tensor& t) {
    Tensor host = at::empty(t.sizes(), t.options().device(at::kCPU));
    read_to_host(t, host.mutable_data_ptr(), host.nbytes());
    host._set_conj(t.is_conj());
    host._set_neg(t.is_neg());
    return host;
}

// Whether the bytes of both mean the same numbers.
bool same_bits(const Tensor& a, const Tensor& b) {
    return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() &&
           a.is_neg() == b.is_neg();
}

// Both with their dims in the order in which the first one's elements lie, if these fill its
// memory.
std::pair<Tensor, Tensor> in_memory_order(const Tensor& host, const Tensor& other) {
    if (host.is_contiguous() || !host.is_non_overlapping_and_dense()) return {host, other};
    at::DimVector dims(host.dim());
    std::iota(dims.begin(), dims.end(), 0);
    std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) {
        return host.stride(a) > host.stride(b) ||
               (host.stride(a) == host.stride(b) && host.size(a) > host.size(b));
    });
    const auto sorted = [&](const Tensor& t) {
        at::DimVector sizes, strides;
        for (int64_t d : dims) {
            sizes.push_back(t.size(d));
            strides.push_back(t.stride(d));
        }
        return as_strided(t, sizes, strides, t.storage_offset());
    };
    return {sorted(host), sorted(other)};
}

void write(const Tensor& target, const Tensor& host) {
    Tensor plain = host;
    // A dense copy of a conjugate or negative view has its numbers, not its bits
    if (!same_bits(target, host) || !host.is_non_overlapping_and_dense()) {
        plain = host.to(target.scalar_type()).resolve_conj().resolve_neg();
        if (target.is_conj()) plain = plain.conj_physical();
        if (target.is_neg()) plain = plain.neg();
        if (!plain.is_non_overlapping_and_dense()) plain = plain.contiguous();
    }
    const auto [from, to] = in_memory_order(plain, target);
    write_from_host(to, from);
}

// Neither libnntile_c nor the bytes on the host know the conjugate and negative bits of a view: the
// plain bytes are copied, then what differs is made explicit.
void copy_bits(const Tensor& self, const Tensor& target) {
    const bool casts = self.scalar_type() != target.scalar_type();
    const bool native = dtype_of(self.scalar_type()) && dtype_of(target.scalar_type());
    const bool explicit_bits =
        self.is_conj() != target.is_conj() || self.is_neg() != target.is_neg();
    if (casts && (!native || explicit_bits))  // by way of the host, which knows complex numbers
        return write(target, read(self));
    copy_on_device(self, target);
    if (!explicit_bits) return;
    Tensor plain = target.detach();
    plain._set_conj(false);
    plain._set_neg(false);
    if (self.is_conj() != target.is_conj()) plain.conj_physical_();
    if (self.is_neg() != target.is_neg()) plain.neg_();
}

bool same_data(const Tensor& a, const Tensor& b) {
    return a.is_alias_of(b) && a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() &&
           a.strides() == b.strides() && same_bits(a, b);
}

Tensor copy_from(const Tensor& self, const Tensor& target, bool /*non_blocking*/) {
    if (same_data(self, target)) return target;  // even where the layout overlaps itself
    if (ours(target)) {
        at::assert_no_internal_overlap(target);
        if (target.is_alias_of(self)) at::assert_no_partial_overlap(target, self);
    }
    if (self.sizes() != target.sizes()) {  // in the words of the CPU
        const at::DimVector shape = at::infer_size_dimvector(target.sizes(), self.sizes());
        TORCH_CHECK(shape == target.sizes(), "output with shape ", target.sizes(),
                    " doesn't match the broadcast shape ", shape);
    }
    if (target.numel() == 0) return target;
    const Tensor source = self.sizes() == target.sizes() ? self : self.expand(target.sizes());
    if (ours(self) && ours(target)) {
        copy_bits(source, target);
    } else if (ours(target)) {
        TORCH_CHECK(self.is_cpu(), "nntile: cannot copy from a tensor on ", self.device());
        write(target, source);
    } else {
        TORCH_CHECK(target.is_cpu(), "nntile: cannot copy to a tensor on ", target.device());
        if (self.requires_grad() && self.is_leaf() && !at::GradMode::is_enabled())
            notify("nntile::parameter_read");
        if (same_bits(self, target) && target.is_non_overlapping_and_dense()) {
            const auto [host, from] = in_memory_order(target, source);
            read_to_host(from, host.mutable_data_ptr(), host.nbytes());
        } else Tensor(target).copy_(read(source));
    }
    return target;
}

Tensor copy_from_and_resize(const Tensor& self, const Tensor& target) {
    if (ours(target)) resize_(target, self.sizes(), std::nullopt);
    else target.resize_(self.sizes());
    return copy_from(self, target, false);
}

template <class T>
at::Scalar read_number(const Tensor& self) {
    T number{};
    read_to_host(self, &number, sizeof number);
    return self.is_neg() ? at::Scalar(-number) : at::Scalar(number);
}

at::Scalar local_scalar_dense(const Tensor& self) {
    TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(),
                " elements cannot be converted to Scalar");
    switch (self.scalar_type()) {  // without a tensor of the host: losses are read at each step
        case ScalarType::Float: return read_number<float>(self);
        case ScalarType::Double: return read_number<double>(self);
        case ScalarType::Long: return read_number<int64_t>(self);
        case ScalarType::Bool: return read_number<bool>(self);
        default: return read(self).item();
    }
}

// Raises what is wrong with the numbers, once they are computed; a capture computes nothing.
void raise_errors(const Tensor& self) {
    if (!nntile_capture_is_open(record())) read(self);
}

// A storage lives as long as a task needs it, whatever the stream.
void record_stream(Tensor&, c10::Stream) {}

// Lets `p.data = q` cross from and to the CPU: without it Module.to makes new parameters and tied
// ones part.
bool has_compatible_shallow_copy_type(const Tensor& self, const Tensor& from) {
    const auto dense = [](const Tensor& t) {
        return ours(t) || (t.is_cpu() && t.layout() == c10::kStrided);
    };
    return dense(self) && dense(from);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    m.impl("empty.memory_format", empty);
    m.impl("empty_strided", empty_strided);
    m.impl("as_strided", as_strided);
    m.impl("view", at::native::view);
    m.impl("_reshape_alias", at::native::_reshape_alias);
    m.impl("unfold", at::native::unfold);
    m.impl("view_as_real", at::native::view_as_real);
    m.impl("view_as_complex", at::native::view_as_complex);
    m.impl("resize_", resize_);
    m.impl("set_.source_Storage_storage_offset", set_storage_offset);
    m.impl("set_.source_Storage", set_storage);
    m.impl("set_.source_Tensor", set_tensor);
    m.impl("set_", set_nothing);
    m.impl("is_set_to", at::native::is_set_to);
    m.impl("_copy_from", copy_from);
    m.impl("_copy_from_and_resize", copy_from_and_resize);
    m.impl("_local_scalar_dense", local_scalar_dense);
    m.impl("record_stream", record_stream);
    m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

// The fallback of these keys would copy a conjugate view to resolve it: a circle.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
    m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

// Autograd's fallback would ask a view for its graph, which may be an error: `x.data = y` is not.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
    m.impl("_has_compatible_shallow_copy_type", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_FRAGMENT(nntile, m) { m.def("raise_errors(Tensor self) -> ()"); }
TORCH_LIBRARY_IMPL(nntile, PrivateUse1, m) { m.impl("raise_errors", raise_errors); }

// Ops without an autocast policy pass through.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

}  // namespace torch_nntile
