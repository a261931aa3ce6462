// SPDX-License-Identifier: BSD-3-Clause
// The part of matrices on one side of a diagonal, and zeros on the other.
#include <algorithm>
#include <cstring>

#include "kernels/copy_run.hh"
#include "kernels/functions.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

// Rows and columns of a task, with all of its matrices.
struct Part {
    const Args& args;
    int64_t first_row, rows, first_column, columns;

    int run(bool zeros) const {
        if (rows <= 0 || columns <= 0) return 0;
        static const uint64_t zero = 0;
        const size_t m = args.sizes.size() - 2, n = m + 1;
        Dims sizes(args.sizes), none(sizes.size(), 0);
        sizes[m] = rows;
        sizes[n] = columns;
        Block blocks[] = {args.blocks[0], args.blocks[1]};
        for (Block& b : blocks)
            b.data += (first_row * b.strides[m] + first_column * b.strides[n]) * size_of(b.dtype);
        if (zeros)
            blocks[0] = {reinterpret_cast<std::byte*>(const_cast<uint64_t*>(&zero)),
                         blocks[1].dtype, none.data()};
        Args part = args;
        part.sizes = sizes;
        part.blocks = blocks;
        return copy(part);
    }
};

// Rows that lie one element after the other, each written from its begin to its end. low: where its
// upper side begins.
template <class Low>
int by_rows(const Args& args, bool upper, Low&& low) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const size_t m = args.sizes.size() - 2, bytes = static_cast<size_t>(size_of(y.dtype));
    const int64_t rows = args.sizes[m], columns = args.sizes[m + 1];
    Dims sizes(args.sizes);
    sizes[m] = sizes[m + 1] = 1;
    Args outer = args;
    outer.sizes = sizes;
    const int64_t* strides[] = {y.strides, x.strides};
    Space s;
    if (int status = s.make(outer, strides, {0})) return status;
    if (s.empty()) return 0;
    Walk walk(s, s.dims);
    do
        for (int64_t i = 0; i < rows; ++i) {
            std::byte* to =
                y.data + (walk.offset[0] + i * y.strides[m]) * static_cast<int64_t>(bytes);
            const std::byte* from =
                x.data + (walk.offset[1] + i * x.strides[m]) * static_cast<int64_t>(bytes);
            const size_t end = static_cast<size_t>(low(i)) * bytes,
                         all = static_cast<size_t>(columns) * bytes;
            if (upper) {
                std::memset(to, 0, end);
                copy_run(to + end, from + end, all - end);
            } else {
                copy_run(to, from, end);
                std::memset(to + end, 0, all - end);
            }
        }
    while (walk.next());
    return 0;
}

}  // namespace

int triangle(const Args& args) {
    const size_t m = args.sizes.size() - 2;
    const int64_t rows = args.sizes[m], columns = args.sizes[m + 1];
    const bool upper = args.params[1].i;
    // A diagonal there is as one farther away
    const int64_t beyond = args.index_offset + rows + columns;
    const int64_t diagonal = std::clamp(args.params[0].i, -beyond, beyond);
    // In row i what is before this column is on the lower side.
    const auto end_of_lower = [&](int64_t i) {
        return std::clamp<int64_t>(args.index_offset + i + diagonal + !upper, 0, columns);
    };
    if (args.blocks[0].strides[m + 1] == 1 && args.blocks[1].strides[m + 1] == 1)
        return by_rows(args, upper, end_of_lower);
    // Rows of which the same columns are copied; then the corner gets its zeros
    constexpr int64_t strip = 32;
    for (int64_t i = 0; i < rows; i += strip) {
        const int64_t some = std::min(strip, rows - i), low = end_of_lower(i),
                      high = end_of_lower(i + some - 1);
        if (int status =
                Part{args, i, some, upper ? low : 0, upper ? columns - low : high}.run(false))
            return status;
        if (int status =
                Part{args, i, some, upper ? 0 : high, upper ? low : columns - high}.run(true))
            return status;
        for (int64_t j = i; j < i + some && low < high; ++j) {
            const int64_t end = end_of_lower(j), from = upper ? low : end, to = upper ? end : high;
            if (int status = Part{args, j, 1, from, to - from}.run(true)) return status;
        }
    }
    return 0;
}

}  // namespace nntile::kernels
