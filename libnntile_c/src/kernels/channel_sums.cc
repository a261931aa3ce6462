// SPDX-License-Identifier: BSD-3-Clause
// Sums over dims, in double: what norms of images, variances and their gradients need, read once.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "kernels/functions.hh"
#include "kernels/row.hh"

namespace nntile::kernels {

int channel_sums(const Args& args) {
    const Block &x = args.blocks[0], &y = args.blocks[1], &shift = args.blocks[2],
                &first = args.blocks[3], &second = args.blocks[4];
    auto* const sums = reinterpret_cast<double*>(first.data);
    auto* const products = reinterpret_cast<double*>(second.data);
    const auto* const shifts = reinterpret_cast<const double*>(shift.data);
    if (!args.params[0].i) {
        SmallVector<int64_t, 6> kept(args.sizes);
        for (size_t d = 0; d < kept.size(); ++d)
            if (first.strides[d] == 0) kept[d] = 1;
        const Param value{.f = 0};
        for (size_t k : {3, 4}) {
            Args zero = args;
            zero.sizes = kept;
            zero.blocks = args.blocks.subspan(k, 1);
            zero.params = std::span(&value, 1);
            if (int status = fill(zero)) return status;
        }
    }
    const int64_t* strides[] = {x.strides, y.strides, first.strides, second.strides,
                                shift.data ? shift.strides : nullptr};
    Space space;
    if (int status = space.make(args, strides, {0, 1})) return status;
    if (space.empty()) return 0;
    Space other;  // where y lies otherwise: that of the longer rows is the measure
    if (int status = other.make(args, strides, {1, 0})) return status;
    if (other.sizes[other.dims - 1] > space.sizes[space.dims - 1]) space = other;
    // The last dim is one of those that are summed, or the channels, where these lie beside each
    // other. Where it is neither, as with batches that lie innermost, the closest one that is goes
    // last.
    const auto is_summed = [&](int dim) { return space.strides[2][dim] == 0; };
    const auto is_beside = [&](int dim) {
        return space.strides[2][dim] == 1 && space.strides[3][dim] == 1 &&
               (!shifts || space.strides[4][dim] == 1);
    };
    const auto along = [&](int dim) { return std::abs(space.strides[0][dim]); };
    const int last = space.dims - 1;
    if (!is_summed(last) && !is_beside(last)) {
        int best = last;
        for (int dim = last; dim-- > 0;)
            if ((is_summed(dim) || is_beside(dim)) && (best == last || along(dim) < along(best)))
                best = dim;
        std::swap(space.sizes[best], space.sizes[last]);
        for (int k = 0; k < space.operands; ++k)
            std::swap(space.strides[k][best], space.strides[k][last]);
    }
    const Compute compute = compute_of(x.dtype);
    const RowLoops& loops = row_tables().table[compute];
    const bool of_each = !is_summed(last), beside = is_beside(last);
    constexpr size_t operands[] = {0, 1};
    Line lines[2];
    Pieces pieces(args, space, compute, operands, lines, Line::piece, true);
    // All pixels of some channels at once, where they lie in place.
    int64_t rows = 1, steps[2] = {0, 0};
    if (beside && !pieces.packed() && lines[0].in_place() && lines[1].in_place() && last > 0 &&
        space.strides[2][last - 1] == 0) {
        rows = std::exchange(space.sizes[last - 1], 1);
        for (int k : {0, 1}) steps[k] = space.strides[k][last - 1];
    }
    // Of squares what has to be converted is so once.
    const bool squares =
        x.data == y.data && x.dtype == y.dtype &&
        std::equal(space.strides[0], space.strides[0] + space.dims, space.strides[1]);
    pieces.each([&](const int64_t* offset, int64_t count) {
        const void *left = lines[0].read(0, count),
                   *right = squares ? left : lines[1].read(0, count);
        double* const to[] = {sums + offset[2], products + offset[3]};
        const double* by = shifts ? shifts + offset[4] : nullptr;
        if (beside) {
            loops.moments_of_each(left, right, count, rows, steps[0], steps[1], by, to[0], to[1]);
        } else if (of_each) {
            const int64_t bytes = size_of(dtype_of(compute));
            for (int64_t j = 0; j < count; ++j) {
                double found[2] = {0, 0};
                loops.moments(static_cast<const std::byte*>(left) + j * bytes,
                              static_cast<const std::byte*>(right) + j * bytes, 1,
                              by ? by[j * space.strides[4][last]] : 0, found);
                to[0][j * space.strides[2][last]] += found[0];
                to[1][j * space.strides[3][last]] += found[1];
            }
        } else {
            double found[2] = {0, 0};
            loops.moments(left, right, count, by ? *by : 0, found);
            *to[0] += found[0];
            *to[1] += found[1];
        }
    });
    return 0;
}

}  // namespace nntile::kernels
