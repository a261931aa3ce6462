// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/meta.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <atomic>

#include "contract/device.h"
#include "contract/versions.h"
#include "shapes/cpu_strides.h"
#include "shapes/structured.h"

namespace torch_nntile {
namespace {

std::atomic<int64_t> calls{0};

bool is_lone(const at::Tensor& t) { return t.defined() && t.is_cpu() && t.dim() == 0; }

bool is_generator(const c10::Argument& argument) { return argument.name() == "generator"; }

// Redispatched, not called at the key: composite kernels (_foreach_*) have nothing registered
// there.
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
                return ours(t) || (lone_too && is_lone(t)) ? like(t, op.schema().arguments()[k])
                                                           : t;
            }));
    }
    // Boxing of PyTorch up to 2.11 drops arguments before it reads results that are arguments.
    const torch::jit::Stack kept = stack;
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
    if (t.unsafeGetTensorImpl()->is_wrapped_number())
        like.unsafeGetTensorImpl()->set_wrapped_number(true);
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
    call_at(
        op, arguments, c10::Device(c10::kCPU), stack,
        [&](const at::Tensor& t, const c10::Argument& a) { return cpu_like(t, a, value, small); });
}

namespace {

// lone_too: numbers that are tensors of the CPU are not read but stand for any value.
void call_meta(const c10::OperatorHandle& op, Arguments arguments, torch::jit::Stack& stack,
               bool lone_too, bool structured = true) {
    const c10::KernelFunction* kernel = structured ? structured_meta(op) : nullptr;
    const auto call = [&](c10::ScalarType common) {
        call_at(
            op, arguments, c10::Device(c10::kMeta), stack,
            [&](const at::Tensor& t, const c10::Argument& a) {
                const bool keeps = common == c10::ScalarType::Undefined || writes(a);
                return keeps ? meta_like(t, writes(a)) : meta_cast(t, common);
            },
            kernel, lone_too);
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

void mend_dtypes(const c10::OperatorHandle& op, Arguments arguments, Shapes& shapes) {
    if (!meta_logsumexp_is_float32 || arguments.empty() || !arguments[0].isTensor()) return;
    if (arguments[0].toTensor().scalar_type() != c10::ScalarType::Double) return;
    if (op.schema().name() == "aten::_scaled_dot_product_flash_attention_for_cpu")
        shapes[1][0].dtype = c10::ScalarType::Double;
}

}  // namespace

Shapes infer(const c10::OperatorHandle& op, Arguments arguments, Refusal refusal) {
    ++calls;
    torch::jit::Stack stack;
    try {
        call_meta(op, arguments, stack, false);
    } catch (...) {
        if (refusal == Refusal::by_cpu) refuse_as_cpu(op, arguments);
        // masked_fill's wants all of its tensors on one device; the structured one of index_add
        // looks at the first element, of an empty dim too, where the other one does not.
        stack.clear();
        call_meta(op, arguments, stack, true, false);
    }
    Shapes shapes;
    for (const c10::IValue& v : stack) {
        auto& list = shapes.emplace_back();
        each_tensor(v, [&list](const at::Tensor& t) { list.push_back(Shape::of(t)); });
    }
    mend_dtypes(op, arguments, shapes);
    mend_strides(op, arguments, shapes);
    return shapes;
}

int64_t infer_calls() { return calls; }

std::shared_ptr<const Shapes> MetaCache::shapes(const c10::OperatorHandle& op, Arguments arguments,
                                                bool ask_cpu, Guess* guess) {
    Signature signature = signature_of(arguments, values_);
    if (auto known = known_.find(signature)) return std::move(*known);
    const bool learns = guess && !values_ && !ask_cpu;
    if (learns && guess->wanted)
        if (auto guessed = learned_.guess(op, arguments)) {
            guess->made = true;
            return std::make_shared<const Shapes>(std::move(*guessed));
        }
    auto shapes = std::make_shared<const Shapes>(infer(op, arguments, refusal_));
    if (learns) learned_.teach(op, arguments, *shapes);
    if (ask_cpu) refuse_as_cpu(op, arguments, 1);  // 1: also a divisor
    known_.keep(std::move(signature), shapes);
    return shapes;
}

void MetaCache::ask_cpu(const c10::OperatorHandle& op, Arguments arguments) {
    Signature signature = signature_of(arguments, true);
    if (asked_.find(signature)) return;
    refuse_as_cpu(op, arguments, 1, true);
    asked_.keep(std::move(signature), true);
}

}  // namespace torch_nntile
