// SPDX-License-Identifier: BSD-3-Clause
#include "structured.h"

#include <ATen/MetaFunctions.h>
#include <ATen/Operators.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>

#include "boxed.h"
#include "fallback.h"

namespace torch_nntile {
namespace {

using Kernels = std::unordered_map<std::string, c10::KernelFunction>;

const Kernels& meta_kernels() {
    static const auto* kernels = [] {
        auto* table = new Kernels;
#define STRUCTURED(op, name, function)                                                        \
    table->emplace(name, c10::KernelFunction::makeFromUnboxedRuntimeFunction(                 \
                             static_cast<at::_ops::op::schema*>(&at::meta::function)));
#include "structured.inc"  // written by the build: tools/structured_ops.py
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

void register_structured_on_host() {
    static auto* library = new torch::Library(torch::Library::IMPL, "aten",
                                              c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    for (const auto& [name, kernel] : meta_kernels()) {
        const size_t dot = name.find('.');
        const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
        const auto op = c10::Dispatcher::singleton().findSchema({name.substr(0, dot), overload});
        if (!op || op->schema().is_mutable() ||
            op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1) ||
            op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd))
            continue;
        library->impl(name.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
    }
}

}  // namespace torch_nntile
