// SPDX-License-Identifier: BSD-3-Clause
#include "structured.h"

#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>

#include <string>
#include <unordered_map>

namespace torch_nntile {

const c10::KernelFunction* structured_meta(const c10::OperatorHandle& op) {
    static const auto* kernels = [] {
        auto* table = new std::unordered_map<std::string, c10::KernelFunction>;
#define STRUCTURED(op, name, function)                                                        \
    table->emplace(name, c10::KernelFunction::makeFromUnboxedRuntimeFunction(                 \
                             static_cast<at::_ops::op::schema*>(&at::meta::function)));
#include "structured.inc"  // written by the build: tools/structured_ops.py
#undef STRUCTURED
        return table;
    }();
    const auto it = kernels->find(toString(op.operator_name()));
    return it == kernels->end() ? nullptr : &it->second;
}

}  // namespace torch_nntile
