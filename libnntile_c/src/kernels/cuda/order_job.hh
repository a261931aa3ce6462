// SPDX-License-Identifier: BSD-3-Clause
// What kernels that put rows in order share.
#pragma once

#include "kernels/cuda/rows.hh"
#include "kernels/order.hh"

namespace nntile::kernels::cuda {

// start(T{}): of the type in which elements of the first operand are exact.
template <class Start>
int start_by_type(const Args& args, Start&& start) {
    switch (compute_of(args.blocks[0].dtype)) {
        case compute_f32: return status_of(args, start(float{}));
        case compute_f64: return status_of(args, start(double{}));
        default: return status_of(args, start(int64_t{}));
    }
}

// The last dims are k and d: x has the last one, the results have the one before.
inline bool make_first_job(RowJob<3>& job, const Args& args) {
    const size_t k = args.sizes.size() - 2, d = k + 1;
    Dims of_x(std::span(args.blocks[0].strides, d + 1));
    of_x[k] = of_x[d];
    const Block blocks[] = {
        {args.blocks[0].data, args.blocks[0].dtype, of_x.data()}, args.blocks[1], args.blocks[2]};
    Args rows = args;
    rows.sizes = args.sizes.first(d);
    rows.blocks = blocks;
    if (!make_row_job(job, rows, {0})) return false;
    job.d = args.sizes[d];
    return true;
}

}  // namespace nntile::kernels::cuda
