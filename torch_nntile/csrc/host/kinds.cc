// SPDX-License-Identifier: BSD-3-Clause
// Tensors that are made of tensors of the device: nested, sparse (COO and compressed), quantised.
// What looks at their parts, or joins parts, is PyTorch's own code, which calls ops of the parts on
// any device; it is registered for those that PyTorch knows. All else runs on the host, at once, on
// a tensor of the same kind.
#include <torch/library.h>

#include <cstring>
#include <set>
#include <string>

#include "contract/callers_thread.h"
#include "contract/device.h"
#include "host/fallback.h"
#include "observe/recording.h"

namespace torch_nntile {
namespace {

using at::Tensor;
using c10::DispatchKey;

template <DispatchKey cpu_key, bool copies>
void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    FallbackOp& known = admit_op(op);
    run_backward_here();
    Recording recording(known.name.c_str());
    run_now(op, known, stack, cpu_key, copies);
    recording.done();
}

// PyTorch's kernel for one of its devices, which does not ask where the parts are.
template <DispatchKey key>
void of(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    op.callBoxedForDispatchKey(key, *stack);
}

template <DispatchKey cpu_key>
void part_or_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    is_view(op.schema()) && op.hasKernelForDispatchKey(cpu_key)
        ? of<cpu_key>(op, stack)
        : on_host<cpu_key, false>(op, stack);
}

// parts: overloads whose kernel for the CPU needs no data on the host.
template <DispatchKey cpu_key>
void register_kind(torch::Library& m, const std::set<std::string>& parts) {
    for (const std::string& name : parts)
        m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&of<cpu_key>>());
    if (!parts.count("copy_"))
        m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&on_host<cpu_key, true>>());
    // What is a composition for dense tensors, like linear, does not reach the fallback.
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findOp(name);
        const auto has = [&](DispatchKey key) { return op->hasKernelForDispatchKey(key); };
        if (name.getNamespace() != "aten" || !has(cpu_key) ||
            !(has(DispatchKey::CompositeImplicitAutograd) ||
              has(DispatchKey::CompositeExplicitAutograd) ||
              has(DispatchKey::CompositeExplicitAutogradNonFunctional)))
            continue;
        const std::string word = toString(name).substr(std::strlen("aten::"));
        if (!parts.count(word) && word != "copy_")
            m.impl(word.c_str(),
                   torch::CppFunction::makeFromBoxedFunction<&part_or_host<cpu_key>>());
    }
}

Tensor copy_quantized(const Tensor& self, const Tensor& target, bool /*non_blocking*/) {
    Tensor host = moved(target, at::kCPU);
    host.copy_(moved(self, at::kCPU));
    if (ours(target)) become(target, host);
    return target;
}

template <DispatchKey cpu_key>
torch::CppFunction fallback_of() {
    return torch::CppFunction::makeFromBoxedFunction<&part_or_host<cpu_key>>();
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
    m.fallback(fallback_of<DispatchKey::NestedTensorCPU>());
}
TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) { m.fallback(fallback_of<DispatchKey::SparseCPU>()); }
TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
    m.fallback(fallback_of<DispatchKey::SparseCsrCPU>());
}
TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
    m.fallback(fallback_of<DispatchKey::QuantizedCPU>());
}

TORCH_LIBRARY_IMPL(aten, NestedTensorPrivateUse1, m) {
    register_kind<DispatchKey::NestedTensorCPU>(
        m, {"_to_copy", "copy_", "clone", "empty_like", "zero_", "fill_.Scalar", "is_same_size",
            "to_padded_tensor", "_nested_tensor_size", "_nested_tensor_strides",
            "_nested_tensor_storage_offsets"});
}
TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
    register_kind<DispatchKey::SparseCPU>(
        m, {"_sparse_coo_tensor_with_dims", "_sparse_coo_tensor_with_dims_and_tensors",
            "_coalesced_", "_nnz", "sparse_dim", "dense_dim", "is_coalesced", "_dimI", "_dimV"});
}
TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
    register_kind<DispatchKey::SparseCsrCPU>(m, {"_nnz", "sparse_dim", "dense_dim"});
}
TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
    register_kind<DispatchKey::QuantizedCPU>(m, {"q_scale", "q_zero_point", "q_per_channel_axis",
                                                 "qscheme", "set_.source_Storage_storage_offset"});
    m.impl("_copy_from", copy_quantized);
}

// PyTorch's own code for dense tensors that only calls ops.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    for (const char* name : {"_nested_view_from_buffer", "_nested_from_padded", "roll"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&of<DispatchKey::CPU>>());
}

}  // namespace
}  // namespace torch_nntile
