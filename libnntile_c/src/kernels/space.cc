// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/space.hh"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.hh"
#include "base/merge_dims.hh"

namespace nntile::kernels {

bool Space::empty() const {
    for (int d = 0; d < dims; ++d)
        if (sizes[d] == 0) return true;
    return false;
}

int64_t Space::count() const {
    int64_t n = 1;
    for (int d = 0; d < dims; ++d) n *= sizes[d];
    return n;
}

int Space::make(const Args& args, std::span<const int64_t* const> operand_strides,
                std::initializer_list<int> leads) {
    operands = static_cast<int>(operand_strides.size());
    dims = 0;
    for (size_t d = 0; d < args.sizes.size(); ++d) {
        if (args.sizes[d] == 1) continue;
        if (dims == max_dims || operands > max_operands)
            return fail_task(args, static_cast<int>(Status::unsupported),
                             "a task has more than %d dims or %d operands", max_dims, max_operands);
        sizes[dims] = args.sizes[d];
        for (int k = 0; k < operands; ++k)
            strides[k][dims] = operand_strides[k] ? operand_strides[k][d] : 0;
        ++dims;
    }
    // Insertion sort, outermost first; equal dims keep their order. Of dims of which a lead lacks
    // one the others decide: data that is expanded is read as the rest lies.
    auto outer = [&](int a, int b) {
        bool open = false;
        for (int k : leads) {
            const int64_t x = std::abs(strides[k][a]), y = std::abs(strides[k][b]);
            if (x != y && x && y) return x > y;
            open = open || x != y;
        }
        for (int k = 0; open && k < operands; ++k) {
            const int64_t x = std::abs(strides[k][a]), y = std::abs(strides[k][b]);
            if (x != y && x && y) return x > y;
        }
        return false;
    };
    auto swap_dims = [&](int a, int b) {
        std::swap(sizes[a], sizes[b]);
        for (int k = 0; k < operands; ++k) std::swap(strides[k][a], strides[k][b]);
    };
    for (int i = 1; i < dims; ++i)
        for (int j = i; j > 0 && outer(j, j - 1); --j) swap_dims(j, j - 1);
    int64_t* arrays[max_operands];
    for (int k = 0; k < operands; ++k) arrays[k] = strides[k];
    dims = merge_dims({sizes, static_cast<size_t>(dims)}, {arrays, static_cast<size_t>(operands)});
    if (dims == 0) {  // one element
        dims = 1;
        sizes[0] = 1;
        for (int k = 0; k < operands; ++k) strides[k][0] = 1;
    }
    return 0;
}

int fail_task(const Args& args, int status, const char* format, ...) {
    if (args.error) {
        va_list list;
        va_start(list, format);
        std::vsnprintf(args.error, error_text_bytes, format, list);
        va_end(list);
    }
    return status;
}

}  // namespace nntile::kernels
