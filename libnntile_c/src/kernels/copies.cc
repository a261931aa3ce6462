// SPDX-License-Identifier: BSD-3-Clause
// Several copies into parts of one block, row by row, so that its memory is written from the begin
// to the end: one copy after the other would fetch each of its lines more than once.
#include <algorithm>
#include <cstdlib>

#include "kernels/copy_run.hh"
#include "kernels/functions.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

constexpr int64_t most_rows = 32, most_columns = 512;  // that wait in scratch where x lies across y

template <class T>
struct Copies {
    struct Part {
        const T* x;
        int64_t step, columns, to;  // of a row of x; where its first element goes
        T* held;                    // nullptr: rows are read where they are
        int64_t held_step;          // from row to row of what is read
        const T* row;
    };
    T* y;
    int64_t y_step;   // from column to column
    int64_t at_once;  // columns: all, where rows are runs
    SmallVector<Part, 8> parts;

    // Element by element into y, which takes one of each part in turn.
    void in_turn(T* row, int64_t n) const {
        if (parts.size() == 2 && y_step == 2 && parts[1].to == parts[0].to + 1) {
            const T *a = parts[0].row, *b = parts[1].row;
            T* out = row + parts[0].to;
            for (int64_t j = 0; j < n; ++j) {
                out[2 * j] = a[j];
                out[2 * j + 1] = b[j];
            }
            return;
        }
        for (const Part& p : parts)
            for (int64_t j = 0; j < n; ++j) row[p.to + j * y_step] = p.row[j];
    }

    // Rows of some columns; x_rows: from row to row of each part's x.
    void block(T* out, const int64_t* offsets, const int64_t* x_rows, int64_t y_row, int64_t rows,
               int64_t column) {
        int64_t widest = 0;
        for (size_t k = 0; k < parts.size(); ++k) {
            Part& p = parts[k];
            const int64_t n = std::min(p.columns - column, at_once);
            if (n <= 0) continue;
            widest = std::max(widest, n);
            const T* from = p.x + offsets[k] + column * p.step;
            p.row = p.held ? p.held : from;
            p.held_step = p.held ? most_columns : x_rows[k];
            if (!p.held) continue;
            if (x_rows[k] == 1)
                transpose_of(sizeof(T))(from, p.step, p.held, most_columns, rows, n);
            else
                for (int64_t i = 0; i < rows; ++i)
                    for (int64_t j = 0; j < n; ++j)
                        p.held[i * most_columns + j] = from[i * x_rows[k] + j * p.step];
        }
        for (int64_t i = 0; i < rows; ++i) {
            T* row = out + i * y_row + column * y_step;
            if (y_step != 1) in_turn(row, widest);
            for (Part& p : parts) {
                const int64_t n = std::min(p.columns - column, at_once);
                if (n <= 0) continue;
                if (y_step == 1) copy_run(row + p.to, p.row, static_cast<size_t>(n) * sizeof(T));
                p.row += p.held_step;
            }
        }
    }
};

template <class T>
int copies_of(const Args& args) {
    static thread_local Scratch scratch;
    const size_t count = args.blocks.size() - 1, last = args.sizes.size() - 1;
    const Block& y = args.blocks[count];
    Dims sizes(args.sizes);
    sizes[last] = 1;
    Args rows = args;
    rows.sizes = sizes;
    SmallVector<const int64_t*, 8> strides{y.strides};
    Copies<T> all{reinterpret_cast<T*>(y.data), y.strides[last], most_columns, {}};
    int64_t columns = 0;
    for (size_t k = 0; k < count; ++k) {
        const Block& x = args.blocks[k];
        strides.push_back(x.strides);
        all.parts.push_back({reinterpret_cast<const T*>(x.data), x.strides[last],
                             args.params[2 * k].i, args.params[2 * k + 1].i, nullptr, 0, nullptr});
        columns = std::max(columns, args.params[2 * k].i);
    }
    Space s;
    if (int status = s.make(rows, strides, {0})) return status;
    if (s.empty() || columns == 0) return 0;
    const auto across = [](const auto& p) { return p.step != 1 && p.columns > 1; };
    scratch.begin(padded(most_rows * most_columns * sizeof(T)) *
                  static_cast<size_t>(std::count_if(all.parts.begin(), all.parts.end(), across)));
    if (all.y_step == 1 && std::none_of(all.parts.begin(), all.parts.end(), across))
        all.at_once = columns;
    for (auto& p : all.parts)
        if (across(p)) p.held = scratch.take<T>(most_rows * most_columns);
    const int d = s.dims - 1;
    int64_t x_rows[max_operands], offsets[max_operands];
    for (size_t k = 0; k < count; ++k) x_rows[k] = s.strides[1 + k][d];
    Walk walk(s, d);
    do
        for (int64_t i = 0; i < s.sizes[d]; i += most_rows) {
            const int64_t some = std::min(most_rows, s.sizes[d] - i);
            for (size_t k = 0; k < count; ++k) offsets[k] = walk.offset[1 + k] + i * x_rows[k];
            T* out = all.y + walk.offset[0] + i * s.strides[0][d];
            for (int64_t column = 0; column < columns; column += all.at_once)
                all.block(out, offsets, x_rows, s.strides[0][d], some, column);
        }
    while (walk.next());
    return 0;
}

}  // namespace

int copies(const Args& args) {
    switch (size_of(args.blocks[0].dtype)) {
        case 1: return copies_of<uint8_t>(args);
        case 2: return copies_of<uint16_t>(args);
        case 4: return copies_of<uint32_t>(args);
        default: return copies_of<uint64_t>(args);
    }
}

}  // namespace nntile::kernels
