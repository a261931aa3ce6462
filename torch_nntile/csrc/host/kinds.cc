// SPDX-License-Identifier: BSD-3-Clause
// Tensors that are made of tensors of the device: nested, sparse (COO and compressed), quantised.
// What looks at their parts, or joins parts, is PyTorch's own code, which calls ops of the parts on
// any device; it is registered for those that PyTorch knows. All else runs on the host, at once, on
// a tensor of the same kind.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/quantized/QTensorImpl.h>
#include <torch/library.h>

#include <chrono>
#include <cstring>
#include <set>
#include <string>

#include "contract/boxed.h"
#include "contract/device.h"
#include "device/storage.h"
#include "host/fallback.h"

namespace torch_nntile {
namespace {

using at::Tensor;
using at::sparse::get_sparse_impl;
using at::sparse_csr::get_sparse_csr_impl;
using c10::DispatchKey;

bool is_coo(const Tensor& t) { return t.layout() == c10::kSparse; }

// The storage of a quantised tensor as plain bytes, and a quantised tensor over such bytes.
Tensor bytes_of(const Tensor& q) {
    const DispatchKey key = ours(q) ? DispatchKey::PrivateUse1 : DispatchKey::CPU;
    Tensor bytes = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(q.storage()), c10::DispatchKeySet(key), caffe2::TypeMeta::Make<uint8_t>());
    bytes.unsafeGetTensorImpl()->set_sizes_contiguous({static_cast<int64_t>(q.storage().nbytes())});
    return bytes;
}

Tensor quantized_over(const Tensor& bytes, const Tensor& like) {
    const DispatchKey key =
        ours(bytes) ? DispatchKey::QuantizedPrivateUse1 : DispatchKey::QuantizedCPU;
    Tensor q = at::detail::make_tensor<at::QTensorImpl>(c10::Storage(bytes.storage()),
                                                        c10::DispatchKeySet(key), like.dtype(),
                                                        at::get_qtensorimpl(like)->quantizer());
    q.unsafeGetTensorImpl()->set_storage_offset(like.storage_offset());
    q.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
    return q;
}

void set_parts(const Tensor& compressed, const Tensor& from, c10::Device where) {
    auto* parts = get_sparse_csr_impl(from);
    get_sparse_csr_impl(compressed)
        ->set_member_tensors(parts->compressed_indices().to(where),
                             parts->plain_indices().to(where), parts->values().to(where),
                             from.sizes());
}

Tensor moved(const Tensor& t, c10::Device where) {
    if (t.device().type() == where.type()) return t;
    if (is_coo(t)) {
        auto* parts = get_sparse_impl(t);
        return at::_sparse_coo_tensor_unsafe(parts->indices().to(where), parts->values().to(where),
                                             t.sizes(), t.options().device(where),
                                             parts->coalesced());
    }
    if (at::sparse_csr::is_sparse_compressed(t)) {
        const DispatchKey key =
            where.is_cpu() ? DispatchKey::SparseCsrCPU : DispatchKey::SparseCsrPrivateUse1;
        Tensor made = at::detail::make_tensor<at::SparseCsrTensorImpl>(
            c10::DispatchKeySet(key), where, t.layout(), t.dtype());
        set_parts(made, t, where);
        return made;
    }
    if (t.is_quantized()) return quantized_over(bytes_of(t).to(where), t);
    return t.to(where);
}

// Some kernels keep what a gradient needs only if their operands ask for one: places of maxima.
Tensor on_cpu(const Tensor& t) {
    Tensor host = moved(t, at::kCPU);
    if (t.requires_grad() && !host.is_same(t)) host.unsafeGetTensorImpl()->set_requires_grad(true);
    return host;
}

// A tensor of the device becomes what an op made of its copy on the host.
void become(const Tensor& t, const Tensor& host) {
    if (is_coo(t)) {
        auto *to = get_sparse_impl(t), *from = get_sparse_impl(host);
        to->raw_resize_(from->sparse_dim(), from->dense_dim(), host.sizes());
        to->set_indices_and_values_unsafe(from->indices().to(device()),
                                          from->values().to(device()));
        to->set_coalesced(from->coalesced());
    } else if (at::sparse_csr::is_sparse_compressed(t)) {
        set_parts(t, host, device());
    } else if (t.is_quantized()) {
        if (t.storage().nbytes() != host.storage().nbytes())
            resize_storage(*t.storage().unsafeGetStorageImpl(), host.storage().nbytes());
        bytes_of(t).copy_(bytes_of(host));
        t.unsafeGetTensorImpl()->set_storage_offset(host.storage_offset());
        t.unsafeGetTensorImpl()->set_sizes_and_strides(host.sizes(), host.strides());
        at::get_qtensorimpl(t)->set_quantizer_(at::get_qtensorimpl(host)->quantizer());
    } else {
        if (!t.is_nested()) t.resize_(host.sizes());
        t.copy_(host);
    }
}

template <bool copies>  // it may have one side on the CPU
void on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    FallbackOp& known = admit_op(op);
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::FunctionSchema& schema = op.schema();
    const auto start = std::chrono::steady_clock::now();
    const torch::jit::Stack given = torch::jit::pop(*stack, schema.arguments().size());
    const c10::Device cpu(at::kCPU);
    // The result is to be on the host; the user names a device
    bool stays = false, crosses = copies;
    torch::jit::Stack host;
    for (const c10::IValue& v : given) {
        crosses |= v.isDevice();
        stays |= v.isDevice() && v.toDevice().is_cpu();
        host.push_back(v.isDevice() ? c10::IValue(cpu) : map_tensors(v, on_cpu));
    }
    if (!crosses) check_devices(op, given);
    const torch::jit::Stack arguments = host;
    op.callBoxed(host);
    for (size_t k = 0; k < given.size(); ++k) {
        if (!known.written[k]) continue;
        std::vector<Tensor> results;
        each_tensor(arguments[k], [&](const Tensor& t) { results.push_back(t); });
        size_t i = 0;
        each_tensor(given[k], [&](const Tensor& t) {
            if (t.defined() && ours(t)) become(t, results[i]);
            ++i;
        });
    }
    for (size_t r = 0; r < host.size(); ++r) {
        const int k = argument_of(schema, schema.returns()[r]);
        stack->push_back(
            k >= 0  ? given[k]
            : stays ? host[r]
                    : map_tensors(host[r], [](const Tensor& t) { return moved(t, device()); }));
    }
    known.counter.nanoseconds += (std::chrono::steady_clock::now() - start).count();
    ++known.counter.calls;
}

// PyTorch's kernel for one of its devices, which does not ask where the parts are.
template <DispatchKey key>
void of(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    op.callBoxedForDispatchKey(key, *stack);
}

template <DispatchKey cpu_key>
void part_or_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    is_view(op.schema()) && op.hasKernelForDispatchKey(cpu_key) ? of<cpu_key>(op, stack)
                                                                : on_host<false>(op, stack);
}

// parts: overloads whose kernel for the CPU needs no data on the host.
template <DispatchKey cpu_key>
void register_kind(torch::Library& m, const std::set<std::string>& parts) {
    for (const std::string& name : parts)
        m.impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&of<cpu_key>>());
    if (!parts.count("copy_"))
        m.impl("copy_", torch::CppFunction::makeFromBoxedFunction<&on_host<true>>());
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
    for (const char* name : {"_nested_view_from_buffer", "_nested_from_padded"})
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&of<DispatchKey::CPU>>());
}

}  // namespace
}  // namespace torch_nntile
