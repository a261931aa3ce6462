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

namespace nntile::kernels {
namespace {

constexpr int64_t totals = 2048;  // at once: rows of so many lie one behind the other in most matrices
constexpr int64_t short_run = 48, few_results = 16;

struct Reduction {
    const Folds::Op& op;
    Reader x;
    Space kept, reduced;  // kept: strides of x and y; reduced: of x

    // totals of `count` neighbours along the last kept dim; x at the first one
    void along_runs(const std::byte* at, int64_t count, Total* total) const {
        const int last = reduced.dims - 1;
        if (last == 0 && x.in_place(reduced.strides[0][0], reduced.sizes[0]))
            return op.rows(at, kept.strides[0][kept.dims - 1], count, reduced.sizes[0], total);
        for (int64_t j = 0; j < count; ++j) {
            Walk walk(reduced, last);
            do {
                x.pieces(at, walk.offset[0], reduced.strides[0][last], reduced.sizes[last],
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
            if (x.in_place(step, n)) return op.columns(at + offset * x.bytes(), apart, some, n, total);
            for (int64_t i = 0; i < some; ++i)
                x.pieces(at, offset + i * apart, step, n,
                         [&](const void* row, int64_t j, int64_t m) { op.columns(row, 0, 1, m, total + j); });
        };
        // Short rows that lie one behind the other are taken as longer ones, whose parts are joined.
        const int64_t group = std::min(totals / count, rows), apart = reduced.strides[0][last];
        const bool together = group > 1 && apart == step * count;
        if (together) std::fill_n(total, group * count, op.identity);
        Walk walk(reduced, last);
        do {
            const int64_t offset = walk.offset[0], n = together ? rows / group : 0;
            if (!together) add(offset, apart, rows, count);
            if (n > 0) add(offset, group * apart, n, group * count);
            if (together && rows % group) add(offset + n * group * apart, 0, 1, rows % group * count);
        } while (walk.next());
        if (!together) return;
        for (int64_t i = 1; i < group; ++i) op.join(total + i * count, count, total);
    }
    // Also where runs are short and results many: their elements are then read with a stride.
    bool rows_first() const {
        const int k = kept.dims - 1, r = reduced.dims - 1;
        if (kept.sizes[k] > few_results && reduced.sizes[r] < short_run) return true;
        return kept.sizes[k] > 1 && std::abs(kept.strides[0][k]) < std::abs(reduced.strides[0][r]);
    }
};

}  // namespace

int reduce(const Args& args) {
    const Block &x = args.blocks[0], &y = args.blocks[1];
    const Compute compute = compute_of(x.dtype), wide = total_compute(compute);
    Reduction r{folds().op[args.params[0].i][compute], Reader(x.dtype), {}, {}};
    Dims kept(args.sizes), reduced(args.sizes);
    for (size_t d = 0; d < args.sizes.size(); ++d) (y.strides[d] == 0 ? kept : reduced)[d] = 1;
    Args part = args;
    const int64_t* strides[] = {x.strides, y.strides};
    part.sizes = kept;
    if (int status = r.kept.make(part, strides, {0})) return status;
    part.sizes = reduced;
    if (int status = r.reduced.make(part, std::span(strides, 1), {0})) return status;
    if (r.kept.empty()) return 0;

    const bool accumulate = args.params[1].i != 0, rows = r.rows_first(),
               nothing = r.reduced.empty();
    const int last = r.kept.dims - 1;
    const int64_t x_step = r.kept.strides[0][last], y_step = r.kept.strides[1][last];
    const Convert load = loader(y.dtype, wide), store = storer(wide, y.dtype);
    Total total[totals], before[totals];
    Walk walk(r.kept, last);
    do {
        for (int64_t j = 0; j < r.kept.sizes[last]; j += totals) {
            const int64_t count = std::min(totals, r.kept.sizes[last] - j);
            const std::byte* from = x.data + (walk.offset[0] + j * x_step) * size_of(x.dtype);
            std::byte* to = y.data + (walk.offset[1] + j * y_step) * size_of(y.dtype);
            std::fill_n(total, count, r.op.identity);
            if (!nothing && rows) r.along_rows(from, count, total);
            if (!nothing && !rows) r.along_runs(from, count, total);
            if (accumulate) {
                load(to, before, y_step, count);
                r.op.join(before, count, total);
            }
            store(total, to, y_step, count);
        }
    } while (walk.next());
    return 0;
}

}  // namespace nntile::kernels
