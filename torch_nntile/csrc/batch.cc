// SPDX-License-Identifier: BSD-3-Clause
#include "batch.h"

#include <cstdint>
#include <sstream>
#include <string_view>

#include "boxed.h"

namespace torch_nntile {
namespace {

constexpr size_t all = SIZE_MAX;

struct BatchRow {
    const char* op;         // in namespace aten; with all overloads
    const char* arguments;  // names of those that have the batch
    size_t parts = all;     // so many results have it too, the others are sums over the batch
};

constexpr BatchRow rows[] = {
    {"convolution", "input"},
    {"convolution_backward", "grad_output input", 1},
};

const BatchRow* find_row(std::string_view name) {
    constexpr std::string_view space = "aten::";
    if (!name.starts_with(space)) return nullptr;
    for (const BatchRow& row : rows)
        if (name.substr(space.size()) == row.op) return &row;
    return nullptr;
}

}  // namespace

BatchDims batch_dims_of(const c10::FunctionSchema& schema) {
    const BatchRow* row = find_row(schema.name());
    if (!row) return {};
    const size_t n = schema.returns().size();
    BatchDims dims{std::vector<bool>(schema.arguments().size()), std::vector<bool>(n)};
    std::istringstream words(row->arguments);
    for (std::string word; words >> word;) {
        const auto k = schema.argumentIndexWithName(word);
        if (!k) return {};  // an overload with other arguments
        dims.arguments[static_cast<size_t>(*k)] = true;
    }
    for (size_t r = 0; r < n; ++r) {
        dims.results[r] = r < row->parts;
        if (const int k = argument_of(schema, schema.returns()[r]); k >= 0)
            dims.arguments[static_cast<size_t>(k)] = dims.results[r];
    }
    return dims;
}

}  // namespace torch_nntile
