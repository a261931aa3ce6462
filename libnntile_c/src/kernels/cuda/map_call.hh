// SPDX-License-Identifier: BSD-3-Clause
// What the code of a program gets for a call: what else a MapJob says is in the code itself.
#pragma once

#include "kernels/refuse.hh"

namespace nntile::kernels::cuda {

inline constexpr int call_dims = 8;
inline constexpr int code_threads = 128;  // of a block
inline constexpr int most_params = 64;    // of a program

struct MapCall {
    struct Operand {
        void* data;
        Param number;  // if it is one
        int64_t strides[call_dims];
    };
    int64_t count;  // of places: elements, or groups that lie side by side
    int64_t sizes[call_dims];
    int64_t index_offset, index_step;
    int64_t index_strides[call_dims];
    Refused* refused;
    Operand operands[max_map_blocks];
    Param params[most_params];
};

}  // namespace nntile::kernels::cuda
