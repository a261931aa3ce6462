// SPDX-License-Identifier: BSD-3-Clause
// What PyTorch's CPU kernels do and neither a schema nor a Meta kernel says: one table of data, for
// rows, host functions and compositions in Python alike. An op that is not in it has no habits.
#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <string>
#include <vector>

#include "contract/stub.h"

namespace torch_nntile {

struct Habit {
    const char* op;  // in namespace aten: a name for all its overloads, or one overload
    nntile_stub_layout layout = NNTILE_STUB_META;
    int is = 0;  // nntile_stub_habit_flag
    // Names of the arguments whose elements along dim 0 are treated one by one
    const char* batch = "";
    size_t batched = 0;  // of such an op so many results have that dim, the others are sums over it
};

// The habit of an overload; that of its name, if the overload has none of its own.
const Habit& habit_of(const c10::FunctionSchema& schema);
const Habit& habit_of(const std::string& name, const std::string& overload);

// All overloads with a flag, as Library::impl() takes them.
std::vector<const char*> overloads_with(nntile_stub_habit_flag flag);

// Dim 0 is the batch (element 0 of a list of sizes). Empty: the op knows no batch. The host's
// kernel may get a part of it, so that a cut of the batch does not stop there.
struct BatchDims {
    std::vector<bool> arguments, results;
};
BatchDims batch_dims_of(const c10::FunctionSchema& schema);

}  // namespace torch_nntile
