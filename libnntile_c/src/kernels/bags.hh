// SPDX-License-Identifier: BSD-3-Clause
// Sums of rows of a table that lie anywhere in it: what the two sides of embedding_bag share, and
// the CPU's loops.
#pragma once

#include "kernels/isa.hh"

namespace nntile::kernels {

enum { mode_sum, mode_mean, mode_max };
enum { dim_offsets, dim_bags, dim_indices, dim_e, dim_v };

// Whether bag k of n indices may begin there. Offsets are sorted, from 0 on.
NNTILE_FN inline bool begins_bag(int64_t offset, int64_t k, int64_t before, int64_t n) {
    return offset >= before && offset <= n && (k > 0 || offset == 0);
}

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
