// SPDX-License-Identifier: BSD-3-Clause
// Collectives of torch.distributed. PyTorch has kernels for our key that give the tensors to the
// backend which the user chose for the device. Backends of PyTorch itself (gloo, mpi, nccl) read
// the memory at data_ptr(), where a storage of ours has none: the call ends in an error before they
// see an address. A backend that somebody registered for the device knows what it gets.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "contract/device.h"

namespace torch_nntile {
namespace {

using c10d::ProcessGroup;

std::string backend_name(ProcessGroup& group) {
    const auto devices = group.getDeviceTypes();
    const bool has = std::any_of(devices.begin(), devices.end(),
                                 [](c10::Device d) { return d.type() == device_type; });
    return has ? group.getBackend(device_type)->getBackendName() : "";
}

class Collective final : public c10::OperatorKernel {
public:
    Collective(c10::SafeKernelFunction kernel, int group)
        : kernel_(std::move(kernel)), group_(group) {}

    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                    torch::jit::Stack* stack) {
        const auto& v = torch::jit::peek(*stack, group_, op.schema().arguments().size());
        const std::string name = backend_name(*v.toCustomClass<ProcessGroup>());
        TORCH_CHECK_NOT_IMPLEMENTED(
            !name.empty() && ProcessGroup::strToBackendType(name) == ProcessGroup::CUSTOM,
            "nntile: '", op.operator_name(), "' of tensors of device nntile ",
            name.empty() ? "has no backend in this process group"
                         : "cannot go through '" + name + "', which reads plain memory",
            ": make the group by init_process_group('cpu:gloo,nntile:nntile'), or without a name");
        kernel_.callBoxed(op, keys, stack);
    }

private:
    c10::SafeKernelFunction kernel_;
    int group_;  // argument
};

// The fallbacks of other kinds of tensors would run a collective on copies, whose results nobody
// sees.
class NoSuchKind final : public c10::OperatorKernel {
public:
    void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack*) {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "nntile: '", op.operator_name(), "' has no tensors of ",
                                    keys.highestBackendKey(), " with key ",
                                    keys.highestPriorityTypeId());
    }
};

std::tuple<std::vector<at::Tensor>, c10::intrusive_ptr<c10d::Work>> all_reduce_sparse(
    at::TensorList tensors, const c10::intrusive_ptr<ProcessGroup>& group,
    const c10::intrusive_ptr<c10d::ReduceOp>& op, const std::optional<at::Tensor>&, bool,
    int64_t timeout) {
    std::vector<at::Tensor> list = tensors.vec();
    const c10d::AllreduceOptions options{*op, std::chrono::milliseconds(timeout)};
    auto work = group->getBackend(device_type)->allreduce_sparse(list, options);
    return {std::move(list), std::move(work)};
}

struct Silence final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
};

TORCH_LIBRARY_IMPL(c10d, PrivateUse1, m) {
    auto& dispatcher = c10::Dispatcher::singleton();
    Silence silence;  // PyTorch warns where a kernel takes the place of its own
    const c10::WarningUtils::WarningHandlerGuard guard(&silence);
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
        const auto op = dispatcher.findOp(name);
        if (name.getNamespace() != "c10d" ||
            !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
            continue;
        const auto group = op->schema().argumentIndexWithName("process_group");
        if (!group) continue;
        auto kernel = op->getComputedKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
        m.impl(toString(name).substr(std::string("c10d::").size()).c_str(),
               torch::CppFunction::makeFromBoxedFunctor(
                   std::make_unique<Collective>(std::move(kernel), *group)));
    }
}

// All but `done`, which has a kernel of its own.
void refuse(torch::Library& m, const std::string& done = "") {
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
        if (name.getNamespace() != "c10d") continue;
        const std::string op = toString(name).substr(std::string("c10d::").size());
        if (op != done)
            m.impl(op.c_str(),
                   torch::CppFunction::makeFromBoxedFunctor(std::make_unique<NoSuchKind>()));
    }
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, m) {
    refuse(m, "allreduce_");
    m.impl("allreduce_", &all_reduce_sparse);
}
TORCH_LIBRARY_IMPL(c10d, SparseCsrPrivateUse1, m) { refuse(m); }
TORCH_LIBRARY_IMPL(c10d, QuantizedPrivateUse1, m) { refuse(m); }
TORCH_LIBRARY_IMPL(c10d, NestedTensorPrivateUse1, m) { refuse(m); }

}  // namespace
}  // namespace torch_nntile
