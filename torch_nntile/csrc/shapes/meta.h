// SPDX-License-Identifier: BSD-3-Clause
// Sizes, strides and dtypes of results, from PyTorch's Meta kernels. One in Python costs 20 to 800
// us, so the answer is kept for the signature of the call.
#pragma once

#include <memory>

#include "shapes/by_signature.h"
#include "shapes/learned.h"

namespace torch_nntile {

// Throws what the same call on the CPU throws, so that the words are those that users know; returns
// if the CPU takes the call. Computes nothing that matters: every element is `value`. small: shapes
// are known to fit, so that tensors of one element will do.
void refuse_as_cpu(const c10::OperatorHandle& op, Arguments arguments, int value = 0,
                   bool small = false);

// Who says what is wrong with a call that the Meta kernel refuses, or that has none: PyTorch's CPU
// kernel on invented values, or the caller. Invented values are for ops with a row only, whose CPU
// kernels are known: others trust labels and lengths, and lead anywhere.
enum class Refusal { by_cpu, by_caller };

// Asks the Meta kernel.
Shapes infer(const c10::OperatorHandle& op, Arguments arguments, Refusal refusal);
int64_t infer_calls();

class MetaCache {
public:
    // values: shapes depend on numbers too (arange).
    explicit MetaCache(bool values, Refusal refusal = Refusal::by_cpu)
        : values_(values), refusal_(refusal) {}
    // For a caller who finds out whether shapes are right.
    struct Guess {
        bool wanted;
        bool made = false;
    };
    // ask_cpu: a signature that Meta accepts must please the CPU too. With `guess` answers are
    // learned from, and if it is wanted given without the Meta kernel where that is possible.
    std::shared_ptr<const Shapes> shapes(const c10::OperatorHandle& op, Arguments arguments,
                                         bool ask_cpu = false, Guess* guess = nullptr);
    // refuse_as_cpu() with small tensors, once for a signature that the CPU takes.
    void ask_cpu(const c10::OperatorHandle& op, Arguments arguments);

private:
    bool values_;
    Refusal refusal_;
    BySignature<std::shared_ptr<const Shapes>> known_;
    BySignature<bool> asked_;
    LearnedShapes learned_;
};

}  // namespace torch_nntile
