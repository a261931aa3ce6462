// SPDX-License-Identifier: BSD-3-Clause
// What a kernel finds wrong in its data. A device writes which it is, and the host says it when the
// task has ended: so both say the same.
#pragma once

#include "kernels/kernel.hh"

namespace nntile::kernels {

enum class Refusal : int32_t {
    none,
    zero_divisor,
    no_probability,
    // of draw
    no_distribution,
    no_chance,
    index,
    target,
    pooled,
    // of the ops behind gather and scatter
    gather,
    indexing,
    scatter,
    index_put,
    // of embedding_bag
    bag_index,
    offset,
};

struct Refused {
    Refusal what = Refusal::none;
    int64_t place = 0, end = 0;  // of an index: it is not in [0, end), or does not count from there
    int64_t value = 0, least = 0;  // of an offset: offsets[place] is not in [least, end]
};

int refuse(const Args& args, const Refused& refused);  // writes the text; returns the status

}  // namespace nntile::kernels
