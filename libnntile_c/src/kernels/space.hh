// SPDX-License-Identifier: BSD-3-Clause
// The iteration space of a task in the simplest equal form: dims of size 1 dropped, dims in the
// order in which the leading operand lies in memory, neighbours merged where every operand allows
// it.
#pragma once

#include <initializer_list>
#include <span>

#include "kernels/kernel.hh"

namespace nntile::kernels {

inline constexpr int max_dims = 24;
inline constexpr int max_operands = max_map_blocks + 1;  // and the linear index

struct Space {
    int dims = 0;  // at least 1
    int operands = 0;
    int64_t sizes[max_dims];
    int64_t strides[max_operands][max_dims];

    bool empty() const;
    int64_t count() const;
    // Orders and merges; `leads` are operands, the most important first. Returns 0 or an error
    // status.
    int make(const Args& args, std::span<const int64_t* const> operand_strides,
             std::initializer_list<int> leads);
};

// Offsets of all operands while the first `dims` dims of a space are walked in row-major order.
struct Walk {
    const Space& space;
    const int dims;
    int64_t at[max_dims] = {};
    int64_t offset[max_operands] = {};

    Walk(const Space& s, int d) : space(s), dims(d) {}
    bool next() {  // false: all done
        for (int d = dims; d-- > 0;) {
            const bool more = ++at[d] < space.sizes[d];
            const int64_t steps = more ? 1 : 1 - space.sizes[d];
            if (!more) at[d] = 0;
            for (int k = 0; k < space.operands; ++k) offset[k] += steps * space.strides[k][d];
            if (more) return true;
        }
        return false;
    }
};

// Writes the text of an error, printf style; returns its status.
[[gnu::format(printf, 3, 4)]] int fail_task(const Args& args, int status, const char* format, ...);

}  // namespace nntile::kernels
