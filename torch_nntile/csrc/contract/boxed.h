// SPDX-License-Identifier: BSD-3-Clause
// Helpers for boxed calls: arguments as a schema orders them on the stack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

namespace torch_nntile {

using Arguments = c10::ArrayRef<c10::IValue>;

inline bool writes(const c10::Argument& argument) {
    return argument.alias_info() && argument.alias_info()->isWrite();
}

// The argument that a return is, or -1 for a new one.
inline int argument_of(const c10::FunctionSchema& schema, const c10::Argument& result) {
    if (!result.alias_info()) return -1;
    for (size_t k = 0; k < schema.arguments().size(); ++k) {
        const auto* alias = schema.arguments()[k].alias_info();
        if (alias && *alias == *result.alias_info()) return static_cast<int>(k);
    }
    return -1;
}

// Calls visit(tensor) for each tensor of an argument, the undefined and the absent ones too (as an
// undefined tensor), in order.
template <class Visit>
void each_tensor(const c10::IValue& value, Visit&& visit) {
    static const auto* none = new at::Tensor;
    if (value.isTensor()) {
        visit(value.toTensor());
    } else if (value.isTensorList() || value.isOptionalTensorList()) {
        for (const c10::IValue& v : value.toListRef()) visit(v.isNone() ? *none : v.toTensor());
    }
}

// The argument with each defined tensor replaced by replace(tensor).
template <class Replace>
c10::IValue map_tensors(const c10::IValue& value, Replace&& replace) {
    const auto mapped = [&](const at::Tensor& t) { return t.defined() ? replace(t) : t; };
    if (value.isTensor()) return mapped(value.toTensor());
    if (value.isTensorList()) {
        std::vector<at::Tensor> list;
        for (const c10::IValue& v : value.toListRef()) list.push_back(mapped(v.toTensor()));
        return list;
    }
    if (value.isOptionalTensorList()) {
        c10::List<std::optional<at::Tensor>> list;
        for (const c10::IValue& v : value.toListRef())
            list.push_back(v.isNone() ? std::nullopt : std::optional(mapped(v.toTensor())));
        return list;
    }
    return value;
}

// TensorIterator resizes no out= argument that is an operand too: `torch.add(a, b, out=a)`.
inline void check_resizable(Arguments arguments, int out, c10::IntArrayRef sizes) {
    const at::Tensor& written = arguments[out].toTensor();
    if (written.sizes() == sizes) return;
    for (size_t k = 0; k < arguments.size(); ++k)
        TORCH_CHECK(static_cast<int>(k) == out || !arguments[k].isTensor() ||
                        !arguments[k].toTensor().is_same(written),
                    "output with shape ", written.sizes(), " doesn't match the broadcast shape ",
                    sizes);
}

}  // namespace torch_nntile
