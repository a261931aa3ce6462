// SPDX-License-Identifier: BSD-3-Clause
// What attention and its gradient share: blocks of rows as BLAS reads them, and blocks of scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/gemm.hh"
#include "kernels/row.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {

// Operands of a head lie in blocks of so many queries and keys. Scores of one block are in a core's
// cache, and long enough for a product to be fast; wide heads have shorter blocks.
inline constexpr int64_t most_queries = 128, most_keys = 256, most_block = 1 << 16;
// Of a forward call without a triangle, which spends most of its time in packing keys and values.
inline constexpr int64_t most_queries_of_all = 256, most_keys_of_all = 512;

inline int64_t rows_of_block(int64_t most, int64_t size, int64_t length) {
    const int64_t fitting = std::max<int64_t>(most_block / std::max<int64_t>(size, 1), 16);
    return std::max<int64_t>(std::min({most, fitting, length}), 1);
}

// The thread's own, kept; as large as its largest call, which lengths do not make larger.
template <class T>
T* attention_room(size_t count) {
    thread_local Scratch scratch;
    scratch.begin(padded(count * sizeof(T)));
    return scratch.take<T>(count);
}

// dims of a task: heads.., queries, keys, size, value size.
struct AttentionSizes {
    int64_t queries, keys, size, value_size;

    explicit AttentionSizes(std::span<const int64_t> sizes)
        : queries(sizes[sizes.size() - 4]),
          keys(sizes[sizes.size() - 3]),
          size(sizes[sizes.size() - 2]),
          value_size(sizes[sizes.size() - 1]) {}
};

template <class T>
struct Attention {
    static constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;
    static constexpr DType dtype = dtype_of(compute);
    static constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

    const RowLoops& loops = row_tables().table[compute];
    bool causal;
    double scale;
    int64_t first;  // place of the task's first query among all

    // params is_causal, scale: nan stands for 1 / sqrt(size)
    Attention(const Args& args, int64_t size)
        : causal(args.params[0].i != 0), scale(args.params[1].f), first(args.index_offset) {
        if (std::isnan(scale)) scale = 1 / std::sqrt(static_cast<double>(size));
    }

    static Matrix dense(T* data, int64_t columns) {
        return {reinterpret_cast<std::byte*>(data), dtype, columns, 1};
    }
    static T* data(const Matrix& x) { return reinterpret_cast<T*>(x.data); }

    // Whether products can read rows of x where they lie.
    static bool readable(const Matrix& x, int64_t count, int64_t columns) {
        return (columns == 1 || x.column == 1) && (count == 1 || x.row >= columns);
    }
    // Rows first.. of x, where they lie if a product can read them there, else in `room`. `brief`:
    // a dtype whose products have instructions of their own.
    static Matrix rows(const Matrix& x, int64_t from, int64_t count, int64_t columns, T* room,
                       DType brief = DType::none) {
        const Matrix part = x.block(from, 0);
        if ((part.dtype == dtype || part.dtype == brief) && readable(part, count, columns))
            return {part.data, part.dtype, part.row, 1};
        const Convert load = loader(part.dtype, compute);
        for (int64_t i = 0; i < count; ++i)
            load(part.at(i, 0), room + i * columns, part.column, columns);
        return dense(room, columns);
    }
    static void store(const T* from, const Matrix& x, int64_t at, int64_t count, int64_t columns) {
        const Convert put = storer(compute, x.dtype);
        for (int64_t i = 0; i < count; ++i)
            put(from + i * columns, x.at(at + i, 0), x.column, columns);
    }

    // How many of the keys from `key` on a query sees.
    int64_t seen(int64_t query, int64_t key, int64_t count) const {
        return causal ? std::clamp<int64_t>(first + query + 1 - key, 0, count) : count;
    }

    // scores (m, n) = scale * q @ k^T + mask
    void make_scores(int64_t m, int64_t n, int64_t size, const Matrix& q, const Matrix& k,
                     const Matrix& mask, T* scores, T* room) const {
        const bool brief = is_short_float(q.dtype);  // whose products take no factor
        multiply(
            {m, n, size, q, k.transposed(), {}, dense(scores, n), brief ? 1 : scale, 0, false});
        if (brief) loops.scale(scores, m * n, scale);
        if (!mask.data) return;
        const bool choice = mask.dtype == DType::boolean;
        for (int64_t i = 0; i < m; ++i) {
            const Matrix row = rows(mask.block(i, 0), 0, 1, n, room);
            (choice ? loops.forbid : loops.add)(data(row), n, scores + i * n);
        }
    }
};

inline Matrix matrix_at(const Block& block, int64_t offset, int row, int column) {
    if (!block.data) return {nullptr, DType::none, 0, 0};
    return {block.data + offset * size_of(block.dtype), block.dtype, block.strides[row],
            column < 0 ? 0 : block.strides[column]};
}

// set(one, matrix, queries, keys, size, value_size) for each head, then one.head(): the numbers are
// dims, and matrix(operand, row, column; -1: none) an operand. `lead`: the one in whose order heads
// are walked.
template <class One, class Set>
int each_head(const Args& args, int lead, Set&& set) {
    const int rank = static_cast<int>(args.sizes.size()), queries = rank - 4;
    Args heads = args;
    heads.sizes = args.sizes.first(static_cast<size_t>(queries));
    const int64_t* strides[max_operands];
    for (size_t k = 0; k < args.blocks.size(); ++k)
        strides[k] = args.blocks[k].data ? args.blocks[k].strides : nullptr;
    Space space;
    if (int status = space.make(heads, std::span(strides, args.blocks.size()), {lead}))
        return status;
    if (space.empty()) return 0;
    One one(args);
    Walk walk(space, space.dims);
    do {
        const auto matrix = [&](int k, int row, int column) {
            return matrix_at(args.blocks[k], walk.offset[k], row, column);
        };
        set(one, matrix, queries, rank - 3, rank - 2, rank - 1);
        one.head();
    } while (walk.next());
    return 0;
}

}  // namespace nntile::kernels
