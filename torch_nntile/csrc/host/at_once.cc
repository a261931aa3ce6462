// SPDX-License-Identifier: BSD-3-Clause
// PyTorch's CPU kernel in the thread of the caller, on copies of the operands, whatever their kind:
// dense, nested, sparse (COO and compressed), quantised.
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/quantized/QTensorImpl.h>

#include <chrono>

#include "contract/boxed.h"
#include "contract/device.h"
#include "device/rng.h"
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

int64_t bytes_moved(const Tensor& t) {
    if (is_coo(t))
        return bytes_moved(get_sparse_impl(t)->indices()) +
               bytes_moved(get_sparse_impl(t)->values());
    if (at::sparse_csr::is_sparse_compressed(t)) {
        auto* parts = get_sparse_csr_impl(t);
        return bytes_moved(parts->compressed_indices()) + bytes_moved(parts->plain_indices()) +
               bytes_moved(parts->values());
    }
    return static_cast<int64_t>(t.nbytes());
}

}  // namespace

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

namespace {

// Some kernels keep what a gradient needs only if their operands ask for one: places of maxima.
Tensor on_cpu(const Tensor& t) {
    Tensor host = moved(t, at::kCPU);
    if (t.requires_grad() && !host.is_same(t)) host.unsafeGetTensorImpl()->set_requires_grad(true);
    return host;
}

}  // namespace

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

namespace {

// The host's kernels know only the host's generators.
void replace_generator(const FallbackOp& op, torch::jit::Stack& arguments) {
    if (op.generator < 0) return;
    const auto given = arguments[op.generator].toOptional<at::Generator>();
    if (given && given->device().type() != device_type) return;
    arguments[op.generator] = host_generator(draw_for_host(given, 1));
}

// What the op has written goes back into the tensors of the device.
void write_back(const c10::IValue& given, const c10::IValue& host) {
    std::vector<Tensor> results;
    each_tensor(host, [&](const Tensor& t) { results.push_back(t); });
    size_t i = 0;
    each_tensor(given, [&](const Tensor& t) {
        if (t.defined() && ours(t)) become(t, results[i]);
        ++i;
    });
}

}  // namespace

void run_now(const c10::OperatorHandle& op, FallbackOp& known, torch::jit::Stack* stack,
             DispatchKey key, bool copies) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    const c10::FunctionSchema& schema = op.schema();
    const auto start = std::chrono::steady_clock::now();
    const torch::jit::Stack given = torch::jit::pop(*stack, schema.arguments().size());
    // The result is to be on the host; the user names a device
    bool stays = false, crosses = copies;
    for (const c10::IValue& v : given) {
        crosses |= v.isDevice();
        stays |= v.isDevice() && v.toDevice().is_cpu();
    }
    if (!crosses) check_devices(op, given);
    int64_t bytes = 0;
    torch::jit::Stack host;
    for (const c10::IValue& v : given) {
        each_tensor(v, [&](const Tensor& t) { bytes += t.defined() ? bytes_moved(t) : 0; });
        host.push_back(v.isDevice() ? c10::IValue(c10::Device(at::kCPU)) : map_tensors(v, on_cpu));
    }
    replace_generator(known, host);
    const torch::jit::Stack arguments = host;  // as call_at in shapes/meta.cc
    op.redispatchBoxed(c10::DispatchKeySet(key), &host);
    for (size_t k = 0; k < given.size(); ++k)
        if (known.written[k]) write_back(given[k], arguments[k]);
    for (size_t r = 0; r < host.size(); ++r) {
        const int k = argument_of(schema, schema.returns()[r]);
        if (k >= 0) stack->push_back(given[k]);
        else if (stays) stack->push_back(host[r]);
        else
            stack->push_back(
                map_tensors(host[r], [](const Tensor& t) { return moved(t, device()); }));
    }
    known.counter.nanoseconds += (std::chrono::steady_clock::now() - start).count();
    known.counter.bytes += bytes;
    ++known.counter.calls;
}

}  // namespace torch_nntile
