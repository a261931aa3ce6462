// SPDX-License-Identifier: BSD-3-Clause
// Nested tensors of the strided layout: one buffer of the device, sizes and offsets on the host.
// torch.nn.TransformerEncoder makes them of padded batches where no gradient is wanted.
#include <torch/library.h>

#include <chrono>
#include <cstring>
#include <set>
#include <string>

#include "boxed.h"
#include "device.h"
#include "fallback.h"

namespace torch_nntile {
namespace {

// PyTorch's own code for views, sizes and copies calls ops of the buffer, on any device. It is
// registered for those that PyTorch knows.
template <c10::DispatchKey key>
void of(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    op.callBoxedForDispatchKey(key, *stack);
}
constexpr auto* of_cpu = &of<c10::DispatchKey::CPU>;
constexpr auto* of_nested_cpu = &of<c10::DispatchKey::NestedTensorCPU>;

// at::native::cpu_fallback() only knows dense tensors of the host.
void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    FallbackOp& known = admit_op(op);
    const c10::FunctionSchema& schema = op.schema();
    const auto start = std::chrono::steady_clock::now();
    const torch::jit::Stack given = torch::jit::pop(*stack, schema.arguments().size());
    torch::jit::Stack host;
    for (const c10::IValue& v : given)
        host.push_back(v.isDevice() ? c10::IValue(at::kCPU)
                                    : map_tensors(v, [](const auto& t) { return t.cpu(); }));
    const torch::jit::Stack arguments = host;
    op.callBoxed(host);
    for (size_t k = 0; k < given.size(); ++k)
        if (known.written[k]) given[k].toTensor().copy_(arguments[k].toTensor());
    for (size_t r = 0; r < host.size(); ++r) {
        const int k = argument_of(schema, schema.returns()[r]);
        stack->push_back(k >= 0 ? given[k] : map_tensors(host[r], [](const auto& t) {
            return t.to(device());
        }));
    }
    known.counter.nanoseconds += (std::chrono::steady_clock::now() - start).count();
    ++known.counter.calls;
}

void nested(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    is_view(op.schema()) ? of_nested_cpu(op, stack) : on_host(op, stack);
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
    m.fallback(torch::CppFunction::makeFromBoxedFunction<&nested>());
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
    const std::set<std::string> moves = {
        "_to_copy", "copy_", "clone", "empty_like", "zero_", "fill_.Scalar", "is_same_size",
        "to_padded_tensor", "_nested_tensor_size", "_nested_tensor_strides",
        "_nested_tensor_storage_offsets"};
    for (const std::string& name : moves)
        m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<of_nested_cpu>());
    // What is a composition for dense tensors, like linear, does not reach the fallback.
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findOp(name);
        const auto has = [&](c10::DispatchKey key) { return op->hasKernelForDispatchKey(key); };
        if (name.getNamespace() != "aten" || !has(c10::DispatchKey::NestedTensorCPU) ||
            !(has(c10::DispatchKey::CompositeImplicitAutograd) ||
              has(c10::DispatchKey::CompositeExplicitAutograd)))
            continue;
        const std::string word = toString(name).substr(std::strlen("aten::"));
        if (!moves.count(word))
            m.impl(word.c_str(), torch::CppFunction::makeFromBoxedFunction<&nested>());
    }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    for (const char* name : {"_nested_view_from_buffer", "_nested_from_padded"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<of_cpu>());
}

}  // namespace
}  // namespace torch_nntile
