// SPDX-License-Identifier: BSD-3-Clause
#include "meta.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/full.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "cpu_strides.h"
#include "device.h"
#include "storage.h"
#include "structured.h"

namespace torch_nntile {
namespace {

constexpr size_t most_signatures = 1024;  // of one overload; then the cache starts anew
std::atomic<int64_t> calls{0};

// First word of an argument: its kind in the low byte.
enum Kind : int64_t { none, tensor, list, integer, real, boolean, text, other };

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
        word = word << 8 | (casts ? static_cast<int64_t>(at::autocast::get_autocast_dtype(type)) : 0);
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

uint64_t hash_of(const Signature& signature) {
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

namespace {

bool is_lone(const at::Tensor& t) { return t.defined() && t.is_cpu() && t.dim() == 0; }

bool is_generator(const c10::Argument& argument) { return argument.name() == "generator"; }

// Redispatched, not called at the key: composite kernels (_foreach_*) have nothing registered there.
template <typename Like>
void call_at(const c10::OperatorHandle& op, Arguments arguments, c10::Device at,
             torch::jit::Stack& stack, Like&& like, const c10::KernelFunction* kernel = nullptr,
             bool lone_too = false) {
    stack.reserve(arguments.size());
    for (size_t k = 0; k < arguments.size(); ++k) {
        if (arguments[k].isDevice()) stack.emplace_back(at);
        else if (is_generator(op.schema().arguments()[k]) && at.is_cpu())
            stack.emplace_back(at::detail::createCPUGenerator(0));  // not the user's
        else
            stack.push_back(map_tensors(arguments[k], [&](const at::Tensor& t) {
                return ours(t) || (lone_too && is_lone(t)) ? like(t, op.schema().arguments()[k]) : t;
            }));
    }
    const c10::DispatchKeySet key(at.is_meta() ? c10::DispatchKey::Meta : c10::DispatchKey::CPU);
    if (kernel) kernel->callBoxed(op, key, &stack);
    else op.redispatchBoxed(key, &stack);
}

// What is only read is one element that is repeated. small: one element, in as many dims.
at::Tensor cpu_like(const at::Tensor& t, const c10::Argument& argument, int value, bool small) {
    const bool written = argument.alias_info() && argument.alias_info()->isWrite();
    if (argument.name() == "index") value = 0;  // leads into one element as well
    at::Tensor like;
    if (small) like = at::full(at::DimVector(t.dim(), 1), value, t.scalar_type());
    else if (written) like = at::detail::empty_strided_cpu(t.sizes(), t.strides(), t.scalar_type());
    else like = at::full({}, value, t.scalar_type()).expand(t.sizes());
    if (t.unsafeGetTensorImpl()->is_wrapped_number()) like.unsafeGetTensorImpl()->set_wrapped_number(true);
    return like;
}

}  // namespace

void refuse_as_cpu(const c10::OperatorHandle& op, Arguments arguments, int value, bool small) {
    constexpr int64_t most_elements = int64_t{1} << 28;  // should the CPU accept them after all
    int64_t elements = 0;
    for (const c10::IValue& v : arguments)
        each_tensor(v, [&](const at::Tensor& t) { elements += t.defined() ? t.numel() : 0; });
    // Of random numbers the parameters count, and one number is drawn sooner than all.
    const auto& formal = op.schema().arguments();
    small |= std::any_of(formal.begin(), formal.end(), is_generator);
    if (!small && elements > most_elements) return;
    if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
    torch::jit::Stack stack;
    call_at(op, arguments, c10::Device(c10::kCPU), stack,
            [&](const at::Tensor& t, const c10::Argument& a) { return cpu_like(t, a, value, small); });
}

namespace {

// lone_too: numbers that are tensors of the CPU are not read but stand for any value.
void call_meta(const c10::OperatorHandle& op, Arguments arguments, torch::jit::Stack& stack,
               bool lone_too, bool structured = true) {
    const c10::KernelFunction* kernel = structured ? structured_meta(op) : nullptr;
    const auto call = [&](c10::ScalarType common) {
        call_at(op, arguments, c10::Device(c10::kMeta), stack,
                [&](const at::Tensor& t, const c10::Argument& a) {
                    const bool keeps = common == c10::ScalarType::Undefined || writes(a);
                    return keeps ? meta_like(t, writes(a)) : meta_cast(t, common);
                }, kernel, lone_too);
    };
    if (!kernel || !op.hasTag(at::Tag::pointwise)) return call(c10::ScalarType::Undefined);
    // The CPU compares the strides of what it has cast.
    const c10::ScalarType common = promoted(op, arguments);
    call(common);
    if (!c10::isIntegralType(common, true) || !stack[0].isTensor()) return;
    const c10::ScalarType result = stack[0].toTensor().scalar_type();
    if (!c10::isFloatingType(result)) return;
    stack.clear();
    call(result);
}

}  // namespace

Shapes infer(const c10::OperatorHandle& op, Arguments arguments, Refusal refusal) {
    ++calls;
    torch::jit::Stack stack;
    try {
        call_meta(op, arguments, stack, false);
    } catch (...) {
        if (refusal == Refusal::by_cpu) refuse_as_cpu(op, arguments);
        // masked_fill's wants all of its tensors on one device; the structured one of index_add looks at the
        // first element, of an empty dim too, where the other one does not.
        stack.clear();
        call_meta(op, arguments, stack, true, false);
    }
    Shapes shapes;
    for (const c10::IValue& v : stack) {
        auto& list = shapes.emplace_back();
        each_tensor(v, [&list](const at::Tensor& t) { list.push_back(Shape::of(t)); });
    }
    mend_strides(op, arguments, shapes);
    return shapes;
}

int64_t infer_calls() { return calls; }

std::shared_ptr<const Shapes> MetaCache::shapes(const c10::OperatorHandle& op,
                                                Arguments arguments, bool ask_cpu, Guess* guess) {
    check_not_forked();
    Signature signature = signature_of(arguments, values_);
    {
        std::shared_lock lock(mutex_);
        if (auto it = known_.find(signature); it != known_.end()) return it->second;
    }
    const bool learns = guess && !values_ && !ask_cpu;
    if (learns && guess->wanted)
        if (auto guessed = learned_.guess(op, arguments)) {
            guess->made = true;
            return std::make_shared<const Shapes>(std::move(*guessed));
        }
    auto shapes = std::make_shared<const Shapes>(infer(op, arguments, refusal_));
    if (learns) learned_.teach(op, arguments, *shapes);
    if (ask_cpu) refuse_as_cpu(op, arguments, 1);  // 1: also a divisor
    std::unique_lock lock(mutex_);
    if (known_.size() >= most_signatures) known_.clear();
    known_.emplace(std::move(signature), shapes);
    return shapes;
}

void MetaCache::ask_cpu(const c10::OperatorHandle& op, Arguments arguments) {
    check_not_forked();
    Signature signature = signature_of(arguments, true);
    {
        std::shared_lock lock(mutex_);
        if (asked_.contains(signature)) return;
    }
    refuse_as_cpu(op, arguments, 1, true);
    std::unique_lock lock(mutex_);
    if (asked_.size() >= most_signatures) asked_.clear();
    asked_.insert(std::move(signature));
}

}  // namespace torch_nntile
