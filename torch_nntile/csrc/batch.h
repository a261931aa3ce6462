// SPDX-License-Identifier: BSD-3-Clause
// Ops without a row that treat the elements of a batch one by one: the host's kernel may get a part
// of it, so that a cut of the batch does not stop there.
#pragma once

#include <ATen/core/function_schema.h>

#include <vector>

namespace torch_nntile {

struct BatchDims {
    // Dim 0 is the batch (element 0 of a list of sizes). Empty: the op knows no batch.
    std::vector<bool> arguments;
    // So too; a result that has none is a sum over the batch.
    std::vector<bool> results;
};
BatchDims batch_dims_of(const c10::FunctionSchema& schema);

}  // namespace torch_nntile
