// SPDX-License-Identifier: BSD-3-Clause
// Tells Python what a user should know: an op of namespace nntile, whose kernel is in notices.py.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <utility>

namespace torch_nntile {

// It may raise: users make warnings errors.
template <typename... Text>
void notify(const char* op, Text&&... text) {
    torch::jit::Stack stack{c10::IValue(std::forward<Text>(text))...};
    c10::Dispatcher::singleton().findSchemaOrThrow(op, "").callBoxed(&stack);
}

}  // namespace torch_nntile
