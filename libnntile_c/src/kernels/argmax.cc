// SPDX-License-Identifier: BSD-3-Clause
// Index of the first extreme in row-major order of the reduced dims, which are the last ones; nan
// beats all.
#include <algorithm>

#include "base/error.hh"
#include "kernels/fold.hh"
#include "kernels/functions.hh"
#include "kernels/reader.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

struct Best {
    Total value;
    int64_t index = -1;
};

bool better(Total a, Total b, Compute compute, bool largest) {
    if (compute == compute_i64) return largest ? a.i > b.i : a.i < b.i;
    if (b.f != b.f) return false;
    return a.f != a.f || (largest ? a.f > b.f : a.f < b.f);
}

int extreme(const Args& args, bool largest) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const size_t outer = args.sizes.size() - args.params[0].i;
    Dims kept(args.sizes), reduced(args.sizes);
    for (size_t d = 0; d < args.sizes.size(); ++d) (d < outer ? reduced : kept)[d] = 1;
    const int64_t* strides[] = {x.strides, y.strides};
    Space k, r;
    Args part = args;
    part.sizes = kept;
    if (int status = k.make(part, strides, {1})) return status;
    part.sizes = reduced;
    if (int status = r.make(part, std::span(strides, 1), {})) return status;
    if (k.empty()) return 0;
    if (r.empty())
        return fail_task(args, static_cast<int>(Status::index_error),
                         "%s: the reduced dims are empty", largest ? "argmax" : "argmin");

    const Compute compute = compute_of(x.dtype);
    const Folds::Op& op = folds().op[static_cast<int>(largest ? Fold::amax : Fold::amin)][compute];
    const auto find = folds().find[compute];
    const Reader reader(x.dtype);
    const int last = r.dims - 1;
    Walk walk(k, k.dims);
    do {
        Best best;
        int64_t index = 0;
        Walk inner(r, last);
        do {
            reader.pieces(x.data, walk.offset[0] + inner.offset[0], r.strides[0][last],
                          r.sizes[last], [&](const void* run, int64_t first, int64_t n) {
                              Total value = op.identity;
                              op.run(run, n, &value);
                              if (best.index < 0 || better(value, best.value, compute, largest))
                                  best = {value, index + first + find(run, n, value)};
                          });
            index += r.sizes[last];
        } while (inner.next());
        reinterpret_cast<int64_t*>(y.data)[walk.offset[1]] = best.index;
    } while (walk.next());
    return 0;
}

}  // namespace

int argmax(const Args& args) { return extreme(args, true); }
int argmin(const Args& args) { return extreme(args, false); }

}  // namespace nntile::kernels
