// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/structured.h"

#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>

#include "contract/boxed.h"

namespace torch_nntile {
namespace {

using at::Tensor;

// Kernels of the CPU that are one call of a structured op. Meta's are in Python, and the first of
// those that runs imports torch._dynamo and sympy: a second and 80 MB.
Tensor mean(const Tensor& self, std::optional<at::ScalarType> dtype) {
    return at::meta::mean(self, at::OptionalIntArrayRef(), false, dtype);
}
Tensor relu(const Tensor& self) { return at::meta::clamp_min(self, 0); }

// What an element-wise op makes of up to three operands, for Meta kernels of our own ops.
Tensor elementwise(at::TensorList operands) {
    TORCH_CHECK(!operands.empty() && operands.size() <= 3, "elementwise: one to three operands");
    if (operands.size() < 3) return at::meta::mul(operands.front(), operands.back());
    return at::meta::addcmul(operands[0], operands[1], operands[2], 1);
}

using Kernels = std::unordered_map<std::string, c10::KernelFunction>;

const Kernels& meta_kernels() {
    static const auto* kernels = [] {
        auto* table = new Kernels;
#define STRUCTURED(op, name, function)                                        \
    table->emplace(name, c10::KernelFunction::makeFromUnboxedRuntimeFunction( \
                             static_cast<at::_ops::op::schema*>(&at::meta::function)));
#include NNTILE_STRUCTURED  // of this PyTorch, written by the build: tools/structured_ops.py
#undef STRUCTURED
        table->emplace("aten::mean", c10::KernelFunction::makeFromUnboxedRuntimeFunction(&mean));
        table->emplace("aten::relu", c10::KernelFunction::makeFromUnboxedRuntimeFunction(&relu));
        return table;
    }();
    return *kernels;
}

}  // namespace

const c10::KernelFunction* structured_meta(const c10::OperatorHandle& op) {
    const auto it = meta_kernels().find(toString(op.operator_name()));
    return it == meta_kernels().end() ? nullptr : &it->second;
}

std::vector<std::string> structured_names() {
    std::vector<std::string> names;
    for (const auto& [name, kernel] : meta_kernels()) names.push_back(name);
    return names;
}

TORCH_LIBRARY_FRAGMENT(nntile, m) {
    m.def("elementwise(Tensor[] operands) -> Tensor");
    m.impl("elementwise", c10::DispatchKey::Meta, elementwise);
}

}  // namespace torch_nntile
