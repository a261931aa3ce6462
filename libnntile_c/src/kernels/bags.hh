// SPDX-License-Identifier: BSD-3-Clause
// Sums of rows of a table that lie anywhere in it: the loops behind embedding_bag.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

// Strides are in elements. Rows are contiguous; indices are within the table.
struct BagRows {
    const void* table;
    int64_t row_stride;
    const void* indices;  // i64, or i32 if not wide
    bool wide;
    int64_t index_stride, count;
    int64_t padding;      // rows of this index are left out
    const void* weights;  // of the table's dtype, or nullptr
    int64_t weight_stride;
};

struct BagLoops {
    // total[j] = sum of weight * row[j] for indices first .. last - 1, in the compute type of the
    // table's dtype. Returns how many rows that were. nullptr: not of this dtype.
    int64_t (*sum[dtype_count])(const BagRows& rows, int64_t first, int64_t last, int64_t n,
                                void* total);
};
NNTILE_ISA_TABLE(BagLoops, bag_loops)

}  // namespace nntile::kernels
