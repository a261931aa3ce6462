// SPDX-License-Identifier: BSD-3-Clause
// The calls that a composition has made, to be made again for operands of the same signature.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "contract/boxed.h"

namespace torch_nntile {

// Tensors have numbers: first those of the arguments, in order, then results of calls.
class Tape {
public:
    // In this thread, now.
    static bool can_be_written();

    // Runs a function, which replaces the last `arguments` of the stack by results, and notes the
    // calls that it makes. nullptr if they do not follow from the signature of the arguments alone:
    // the function read data, took a tensor from elsewhere or left the device. Throws what it
    // throws.
    static std::shared_ptr<const Tape> of(torch::jit::Stack& stack, size_t arguments,
                                          const std::function<void()>& function);

    // Makes the calls, and puts the results in place of the arguments.
    void play(torch::jit::Stack& stack, size_t arguments) const;

    // How a value is made: a constant, or of tensors with these numbers (-1: undefined or absent).
    struct Value {
        enum class Kind { constant, tensor, list, optional_list } kind = Kind::constant;
        c10::IValue constant;
        std::vector<int> tensors;
    };
    struct Call {
        c10::OperatorHandle op;
        std::vector<Value> arguments, results;
        std::vector<int> ends;  // numbers of the tensors that no later call takes
    };

private:
    std::vector<Call> calls_;
    std::vector<Value> results_;
    size_t tensors_ = 0;
};

}  // namespace torch_nntile
