// SPDX-License-Identifier: BSD-3-Clause
// Reductions over any dims. Two ways through x: along runs of a reduced dim, or, where the
// innermost dim is kept, row by row into many totals at once.
#include <algorithm>
#include <cstdlib>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/fold.hh"
#include "kernels/functions.hh"
#include "kernels/reader.hh"
#include "kernels/space.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

// At once: rows of so many lie one behind the other in most matrices
constexpr int64_t totals = 2048;
// Of short rows that are taken as one: their totals are joined at the end
constexpr int64_t together_columns = 256;
constexpr int64_t short_run = 48, few_results = 16, short_row = 16;
// Runs that are folded many at once, if they lie in place
constexpr int64_t vector_run = 16, most_plane_run = 512;

struct Reduction {
    const Folds::Op& op;
    Reader x;
    Space kept, reduced;  // kept: strides of x and y; reduced: of x

    // Runs that lie in place, of a length that is no loop of its own, and others beside them.
    bool is_planes() const {
        const int last = reduced.dims - 1;
        const int64_t n = reduced.sizes[last];
        return last > 0 && n >= vector_run && n <= most_plane_run &&
               x.in_place(reduced.strides[0][last], n);
    }
    // Rows of the last two reduced dims, many at once.
    void along_planes(const std::byte* at, Total* total) const {
        const int last = reduced.dims - 1;
        const int64_t step = reduced.strides[0][last - 1], rows = reduced.sizes[last - 1];
        Walk walk(reduced, last - 1);
        do op.plane(at + walk.offset[0] * x.bytes(), step, rows, reduced.sizes[last], total);
        while (walk.next());
    }
    // Joins `parts` of `count` totals each to the first.
    void halve(Total* total, int64_t parts, int64_t count) const {
        for (int64_t half; parts > 1; parts = half) {
            half = (parts + 1) / 2;
            op.join(total + half * count, (parts - half) * count, total);
        }
    }
    // totals of `count` neighbours along the last kept dim; x at the first one
    void along_runs(const std::byte* at, int64_t count, Total* total) const {
        const int last = reduced.dims - 1;
        if (last == 0 && x.in_place(reduced.strides[0][0], reduced.sizes[0]))
            return op.rows(at, kept.strides[0][kept.dims - 1], count, reduced.sizes[0], total);
        const bool planes = is_planes();
        for (int64_t j = 0; j < count; ++j) {
            Walk walk(reduced, last);
            if (planes) along_planes(at, &total[j]);
            else do {
                    x.pieces(
                        at, walk.offset[0], reduced.strides[0][last], reduced.sizes[last],
                        [&](const void* run, int64_t, int64_t n) { op.run(run, n, &total[j]); });
                } while (walk.next());
            at += x.bytes() * kept.strides[0][kept.dims - 1];
        }
    }
    void along_rows(const std::byte* at, int64_t count, Total* total) const {
        const int last = reduced.dims - 1;
        const int64_t step = kept.strides[0][kept.dims - 1], rows = reduced.sizes[last];
        // Some rows of n elements `step` apart, and the rows `apart`.
        const auto add = [&](int64_t offset, int64_t apart, int64_t some, int64_t n) {
            if (x.in_place(step, n))
                return op.columns(at + offset * x.bytes(), apart, some, n, total);
            for (int64_t i = 0; i < some; ++i)
                x.pieces(at, offset + i * apart, step, n,
                         [&](const void* row, int64_t j, int64_t m) {
                             op.columns(row, 0, 1, m, total + j);
                         });
        };
        // Short rows that lie one behind the other are taken as longer ones, whose parts are
        // joined.
        const int64_t group = std::min(std::max<int64_t>(together_columns / count, 1), rows);
        const int64_t apart = reduced.strides[0][last];
        const bool together = group > 1 && apart == step * count;
        if (together) std::fill_n(total, group * count, op.identity);
        Walk walk(reduced, last);
        do {
            const int64_t offset = walk.offset[0], n = together ? rows / group : 0;
            if (!together) add(offset, apart, rows, count);
            if (n > 0) add(offset, group * apart, n, group * count);
            if (together && rows % group)
                add(offset + n * group * apart, 0, 1, rows % group * count);
        } while (walk.next());
        if (together) halve(total, group, count);
    }
    // The last kept dim is short, and in x the one before goes on where it ends: both are as one
    // there.
    bool is_pair() const {
        const int k = kept.dims - 1;
        return k > 0 && kept.sizes[k] <= short_row &&
               kept.strides[0][k - 1] == kept.sizes[k] * kept.strides[0][k];
    }
    // So few rows in place that totals of them need not be wide.
    bool is_few() const {
        constexpr int64_t few = 8;
        const int k = kept.dims - 1;
        return !is_pair() && reduced.dims == 1 && reduced.sizes[0] <= few && reduced.sizes[0] > 0 &&
               x.in_place(kept.strides[0][k], kept.sizes[k]);
    }
    // Also where runs are short and results many: their elements are then read with a stride.
    bool rows_first() const {
        const int k = kept.dims - 1, r = reduced.dims - 1;
        const int64_t results = kept.sizes[k] * (is_pair() ? kept.sizes[k - 1] : 1);
        const int64_t n = reduced.sizes[r];
        const bool vectors = n >= vector_run && x.in_place(reduced.strides[0][r], n);
        if (results > few_results && n < short_run && !vectors) return true;
        return results > 1 && std::abs(kept.strides[0][k]) < std::abs(reduced.strides[0][r]);
    }
};

// Copies the first of `kept` results along the other dims of y, which are equal to it.
int spread(const Args& args, Dims& kept) {
    const Block& y = args.blocks[1];
    for (size_t d = 0; d < kept.size(); ++d) {
        if (y.strides[d] == 0 || kept[d] == args.sizes[d]) continue;
        Dims from(std::span(y.strides, kept.size()));
        from[d] = 0;
        kept[d] = args.sizes[d] - 1;
        const Block blocks[] = {{y.data, y.dtype, from.data()},
                                {y.data + y.strides[d] * size_of(y.dtype), y.dtype, y.strides}};
        Args part = args;
        part.sizes = kept;
        part.blocks = blocks;
        if (int status = copy(part)) return status;
        kept[d] = args.sizes[d];
    }
    return 0;
}

}  // namespace

int reduce(const Args& args) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const bool accumulate = args.params[1].i != 0;
    const Compute compute = compute_of(x.dtype), wide = total_compute(compute);
    Reduction r{folds().op[args.params[0].i][compute], Reader(x.dtype), {}, {}};
    Dims kept(args.sizes), reduced(args.sizes);
    int64_t repeats = 1;  // of equal elements of x, which are folded once
    for (size_t d = 0; d < args.sizes.size(); ++d) {
        (y.strides[d] == 0 ? kept : reduced)[d] = 1;
        if (x.strides[d]) continue;
        if (!accumulate && kept[d] > 1) kept[d] = 1;  // and copied at the end
        if (reduced[d] < 2) continue;
        repeats *= reduced[d];
        reduced[d] = 1;
    }
    Args part = args;
    const int64_t* strides[] = {x.strides, y.strides};
    part.sizes = kept;
    if (int status = r.kept.make(part, strides, {0})) return status;
    part.sizes = reduced;
    if (int status = r.reduced.make(part, std::span(strides, 1), {0})) return status;
    if (r.kept.empty()) return 0;

    const bool rows = r.rows_first(), nothing = r.reduced.empty();
    const bool pair = r.is_pair();
    const int inner = r.kept.dims - 1, last = pair ? inner - 1 : inner;
    const int64_t width = pair ? r.kept.sizes[inner] : 1,
                  y_width = pair ? r.kept.strides[1][inner] : 0;
    const int64_t x_step = r.kept.strides[0][last], y_step = r.kept.strides[1][last];
    if (rows && !accumulate && repeats == 1 && r.is_few() && y_step == 1 &&
        y.dtype == dtype_of(compute)) {
        Walk walk(r.kept, last);
        do
            r.op.few(x.data + walk.offset[0] * size_of(x.dtype), r.reduced.strides[0][0],
                     r.reduced.sizes[0], r.kept.sizes[last],
                     y.data + walk.offset[1] * size_of(y.dtype));
        while (walk.next());
        return spread(args, kept);
    }
    const Convert load = loader(y.dtype, wide), store = storer(wide, y.dtype);
    const Transpose transpose = transpose_of(sizeof(Total));
    Total total[totals], before[totals], turned[totals];
    Walk walk(r.kept, last);
    do {
        for (int64_t j = 0; j < r.kept.sizes[last]; j += totals / width) {
            const int64_t rows_now = std::min(totals / width, r.kept.sizes[last] - j),
                          count = rows_now * width;
            const std::byte* from = x.data + (walk.offset[0] + j * x_step) * size_of(x.dtype);
            std::byte* to = y.data + (walk.offset[1] + j * y_step) * size_of(y.dtype);
            const auto place = [&](int64_t k) { return to + k * y_width * size_of(y.dtype); };
            std::fill_n(total, count, r.op.identity);
            if (!nothing && rows) r.along_rows(from, count, total);
            if (!nothing && !rows) r.along_runs(from, count, total);
            if (repeats > 1) r.op.repeat(repeats, count, total);
            if (accumulate) {
                Total* own = pair ? turned : before;
                for (int64_t k = 0; k < width; ++k)
                    load(place(k), own + k * rows_now, y_step, rows_now);
                if (pair) transpose(turned, rows_now, before, width, rows_now, width);
                r.op.join(before, count, total);
            }
            if (pair) transpose(total, width, turned, rows_now, width, rows_now);
            const Total* own = pair ? turned : total;
            for (int64_t k = 0; k < width; ++k)
                store(own + k * rows_now, place(k), y_step, rows_now);
        }
    } while (walk.next());
    return spread(args, kept);
}

}  // namespace nntile::kernels
