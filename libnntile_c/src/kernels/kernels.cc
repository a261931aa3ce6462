// SPDX-License-Identifier: BSD-3-Clause
// The table of kernels. Operands are listed in order, inputs before outputs; '?' marks an optional one.
#include "kernels/functions.hh"

namespace nntile::kernels {
namespace {

constexpr KernelRow rows[] = {
    {"map", "inputs.. -> outputs..; any dims; params and program of its instructions", map, nullptr},
    {"copy", "x -> y, converted to the dtype of y; any dims", copy, nullptr},
    {"fill", "-> y; any dims; params value(f)", fill, nullptr},
    {"gemm",
     "a, b, c? -> y; dims batch.., m, n, k; params alpha(f), beta(f), accumulate(i). "
     "y = (accumulate ? y : beta * c) + alpha * a @ b; c is not read for beta = 0",
     gemm, nullptr},
    {"reduce",
     "x -> y (strides 0 on reduced dims); any dims; params op(i: sum|prod|amax|amin|any|all|sumsq), "
     "accumulate(i)",
     reduce, nullptr},
    {"argmax", "x -> y (i64); dims outer.., reduced..; params number of reduced dims(i)", argmax, nullptr},
    {"argmin", "x -> y (i64); dims outer.., reduced..; params number of reduced dims(i)", argmin, nullptr},
};

}  // namespace

std::span<const KernelRow> kernel_rows() { return rows; }

const KernelRow* find_kernel(std::string_view name) {
    for (const KernelRow& row : rows)
        if (name == row.name) return &row;
    return nullptr;
}

}  // namespace nntile::kernels
