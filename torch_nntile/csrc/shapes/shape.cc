// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/shape.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "contract/device.h"
#include "device/storage.h"

namespace torch_nntile {
namespace {

// First word of an argument: its kind in the low byte.
enum Kind : int64_t { none, tensor, list, integer, real, complex, boolean, text, other };

void append_number(Signature& out, Kind kind, int64_t bits, bool values) {
    out.push_back(kind);
    if (values) out.push_back(bits);
}

void append_tensor(const at::Tensor& t, Signature& out) {
    if (!t.defined()) {
        out.push_back(none);
        return;
    }
    const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
    out.push_back(tensor | impl->dim() << 8 | static_cast<int64_t>(t.scalar_type()) << 16 |
                  int64_t{impl->is_wrapped_number()} << 24 | int64_t{ours(t)} << 25);
    out.append(impl->sizes().begin(), impl->sizes().end());
    out.append(impl->strides().begin(), impl->strides().end());
}

void append_value(const c10::IValue& v, bool values, Signature& out) {
    if (v.isTensor()) return append_tensor(v.toTensor(), out);
    if (v.isNone()) return out.push_back(none);
    if (v.isDouble()) return append_number(out, real, std::bit_cast<int64_t>(v.toDouble()), values);
    if (v.isComplexDouble()) {
        const c10::complex<double> number = v.toComplexDouble();
        append_number(out, complex, std::bit_cast<int64_t>(number.real()), values);
        return append_number(out, complex, std::bit_cast<int64_t>(number.imag()), values);
    }
    if (v.isInt()) return out.append({integer, v.toInt()});
    if (v.isBool()) return out.append({boolean, v.toBool()});
    if (v.isSymInt()) return out.append({integer, v.toSymInt().guard_int(__FILE__, __LINE__)});
    if (v.isDevice() || v.isGenerator()) return out.push_back(other);
    if (v.isString()) {
        const std::string& s = v.toStringRef();
        const size_t at = out.size() + 2;
        out.append({text, static_cast<int64_t>(s.size())});
        out.resize(at + (s.size() + 7) / 8);
        std::memcpy(out.data() + at, s.data(), s.size());
        return;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(v.isList(), "nntile: arguments of kind ", v.tagKind(),
                                " are not supported");
    const auto elements = v.toListRef();
    out.append({list, static_cast<int64_t>(elements.size())});
    for (const c10::IValue& e : elements) append_value(e, true, out);
}

c10::Storage no_bytes() {
    static const auto* storage = new c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), 0, c10::GetAllocator(c10::kMeta)->allocate(0), nullptr,
        false));
    return *storage;
}

}  // namespace

at::DimVector dense_strides(c10::IntArrayRef sizes) {
    at::DimVector strides(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0; stride *= std::max<int64_t>(sizes[d], 1))
        strides[d] = stride;
    return strides;
}

Shape Shape::of(const at::Tensor& t) {
    if (!t.defined()) return {};
    return {at::DimVector(t.sizes()), at::DimVector(t.strides()), t.scalar_type()};
}

at::Tensor Shape::make() const {
    return dtype == c10::ScalarType::Undefined ? at::Tensor() : make_tensor(sizes, strides, dtype);
}

size_t default_dtype() {
    switch (c10::get_default_dtype_as_scalartype()) {
        case c10::ScalarType::Float: return 0;
        case c10::ScalarType::Double: return 1;
        case c10::ScalarType::Half: return 2;
        default: return 3;  // bfloat16: PyTorch lets no other be the default
    }
}

int64_t call_state() {
    const at::Context& context = at::globalContext();
    auto word = static_cast<int64_t>(default_dtype());
    const auto add = [&word](bool bit) { word = word << 1 | int64_t{bit}; };
    add(context.deterministicAlgorithms());
    add(context.deterministicAlgorithmsWarnOnly());
    add(c10::GradMode::is_enabled());
    add(c10::InferenceMode::is_enabled());
    for (const c10::DeviceType type : {device_type, c10::kCPU}) {
        const bool casts = at::autocast::is_autocast_enabled(type);
        add(casts);
        word =
            word << 8 | (casts ? static_cast<int64_t>(at::autocast::get_autocast_dtype(type)) : 0);
    }
    return word;
}

// An integer Scalar is not left out as a real one is: it cannot be told from an int argument here,
// and a number that changes at each step is a real one.
void append_signature(const c10::IValue& argument, bool values, Signature& out) {
    append_value(argument, values, out);
}

Signature signature_of(Arguments arguments, bool values) {
    Signature signature{call_state()};
    for (const c10::IValue& v : arguments) append_value(v, values, signature);
    return signature;
}

size_t HashOfSignature::operator()(const Signature& signature) const {
    uint64_t h = signature.size();
    for (const int64_t word : signature) {
        h = (h ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    return h;
}

at::Tensor meta_like(const at::Tensor& t, bool resizable) {
    if (resizable) return at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type());
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        no_bytes(), c10::DispatchKeySet(c10::DispatchKey::Meta), t.dtype());
    impl->set_sizes_and_strides(t.sizes(), t.strides());
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return at::Tensor(std::move(impl));
}

}  // namespace torch_nntile
