// SPDX-License-Identifier: BSD-3-Clause
#include "shapes/structured.h"

#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>

#include <string>
#include <unordered_map>

#include "contract/boxed.h"

namespace torch_nntile {
namespace {

using Kernels = std::unordered_map<std::string, c10::KernelFunction>;

const Kernels& meta_kernels() {
    static const auto* kernels = [] {
        auto* table = new Kernels;
#define STRUCTURED(op, name, function)                                        \
    table->emplace(name, c10::KernelFunction::makeFromUnboxedRuntimeFunction( \
                             static_cast<at::_ops::op::schema*>(&at::meta::function)));
#include NNTILE_STRUCTURED  // of this PyTorch, written by the build: tools/structured_ops.py
#undef STRUCTURED
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

}  // namespace torch_nntile
