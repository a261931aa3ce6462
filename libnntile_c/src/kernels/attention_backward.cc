// SPDX-License-Identifier: BSD-3-Clause
// The gradient of attention: scores are made again, block by block, from the logarithms of the sums
// that the forward kept. Gradients of keys and values are summed over queries for each block of
// keys; that of queries waits in a room for a part of them.
#include "kernels/attention.hh"
#include "kernels/functions.hh"

namespace nntile::kernels {
namespace {

constexpr int64_t most_part = 1 << 18;  // elements of the gradient of queries that wait

template <class T>
struct Backward : Attention<T> {
    using Base = Attention<T>;
    using Base::compute;

    const AttentionSizes n;
    const int64_t queries, keys;  // of a block
    const int64_t part;           // queries of a part
    Matrix dy, q, k, v, mask, y, logsumexp, dq, dk, dv;
    T *weights, *slopes, *mask_room, *dy_room, *q_room, *k_room, *v_room, *dq_sum, *dk_sum, *dv_sum;
    T *logs, *dots;  // of each query of a part: logsumexp, and dy . y

    explicit Backward(const Args& args)
        : Base(args, AttentionSizes(args.sizes).size),
          n(args.sizes),
          queries(rows_of_block(most_queries, std::max(n.size, n.value_size), n.queries)),
          keys(rows_of_block(most_keys, std::max(n.size, n.value_size), n.keys)),
          part(queries * std::max<int64_t>(1, most_part / std::max<int64_t>(n.size, 1) / queries)) {
        const int64_t waiting = std::min(part, n.queries);
        const int64_t counts[] = {queries * keys,         queries * keys,   keys,
                                  queries * n.value_size, queries * n.size, keys * n.size,
                                  keys * n.value_size,    waiting * n.size, keys * n.size,
                                  keys * n.value_size,    waiting,          waiting};
        int64_t total = 0;
        for (int64_t c : counts) total += c;
        T* at = attention_room<T>(static_cast<size_t>(total));
        int i = 0;
        for (T** room : {&weights, &slopes, &mask_room, &dy_room, &q_room, &k_room, &v_room,
                         &dq_sum, &dk_sum, &dv_sum, &logs, &dots}) {
            *room = at;
            at += counts[i++];
        }
    }

    void head() {
        int64_t from = 0;
        do {
            part_of_queries(from, std::min(part, n.queries - from));
            from += part;
        } while (from < n.queries);
    }

    void part_of_queries(int64_t from, int64_t count) {
        read_rows(from, count);
        std::fill_n(dq_sum, count * n.size, T{});
        for (int64_t at = 0; at < n.keys; at += keys)
            block_of_keys(from, count, at, std::min(keys, n.keys - at));
        Base::store(dq_sum, dq, from, count, n.size);
    }

    // y's rows are read through the room of v, which is as wide, a few at a time.
    void read_rows(int64_t from, int64_t count) {
        const int64_t step = std::min(queries, keys);
        const Convert load = loader(logsumexp.dtype, compute);
        load(logsumexp.at(from, 0), logs, logsumexp.row, count);
        for (int64_t m = 0; m < count; m += step) {
            const int64_t rows = std::min(step, count - m);
            const Matrix slope = Base::rows(dy, from + m, rows, n.value_size, dy_room),
                         value = Base::rows(y, from + m, rows, n.value_size, v_room);
            for (int64_t i = 0; i < rows; ++i)
                dots[m + i] =
                    static_cast<T>(this->loops.dot(slope.at(i, 0), value.at(i, 0), n.value_size));
        }
    }

    void block_of_keys(int64_t from, int64_t count, int64_t at, int64_t columns) {
        int64_t m = 0;
        if (this->causal)  // the first block with a query that sees the first key
            m = std::max<int64_t>(at - this->first - from, 0) / queries * queries;
        if (from > 0 && m >= count) return;
        start(dk, from, at, columns, n.size, dk_sum);
        start(dv, from, at, columns, n.value_size, dv_sum);
        const Matrix key = Base::rows(k, at, columns, n.size, k_room),
                     value = Base::rows(v, at, columns, n.value_size, v_room);
        for (; m < count; m += queries)
            block(from, m, std::min(queries, count - m), at, columns, key, value);
        Base::store(dk_sum, dk, at, columns, n.size);
        Base::store(dv_sum, dv, at, columns, n.value_size);
    }

    // Sums over earlier parts of the queries stand in the results.
    static void start(const Matrix& sum, int64_t from, int64_t at, int64_t columns, int64_t size,
                      T* room) {
        if (from == 0) {
            std::fill_n(room, columns * size, T{});
            return;
        }
        const Convert load = loader(sum.dtype, compute);
        for (int64_t i = 0; i < columns; ++i)
            load(sum.at(at + i, 0), room + i * size, sum.column, size);
    }

    void block(int64_t from, int64_t m, int64_t rows, int64_t at, int64_t all, const Matrix& key,
               const Matrix& value) {
        const int64_t first = from + m, columns = this->seen(first + rows - 1, at, all);
        const Matrix query = Base::rows(q, first, rows, n.size, q_room),
                     slope = Base::rows(dy, first, rows, n.value_size, dy_room),
                     weight = Base::dense(weights, columns), change = Base::dense(slopes, columns);
        this->make_scores(rows, columns, n.size, query, key, mask.block(first, at), weights,
                          mask_room);
        for (int64_t i = 0; i < rows; ++i) {
            const int64_t seen = this->seen(first + i, at, columns);
            T* row = weights + i * columns;
            this->loops.exp_scale(row, seen, logs[m + i], 1, row);
            std::fill(row + seen, row + columns, T{});
        }
        multiply({columns,
                  n.value_size,
                  rows,
                  weight.transposed(),
                  slope,
                  {},
                  Base::dense(dv_sum, n.value_size),
                  1,
                  0,
                  true});
        multiply({rows, columns, n.value_size, slope, value.transposed(), {}, change, 1, 0, false});
        for (int64_t i = 0; i < rows; ++i) {
            T* row = slopes + i * columns;
            this->loops.softmax_backward(row, weights + i * columns, columns, dots[m + i], row);
        }
        multiply({rows,
                  n.size,
                  columns,
                  change,
                  key,
                  {},
                  Base::dense(dq_sum + m * n.size, n.size),
                  this->scale,
                  0,
                  true});
        multiply({columns,
                  n.size,
                  rows,
                  change.transposed(),
                  query,
                  {},
                  Base::dense(dk_sum, n.size),
                  this->scale,
                  0,
                  true});
    }
};

template <class T>
int run(const Args& args) {
    const auto set = [](auto& one, auto&& matrix, int queries, int keys, int size, int value_size) {
        one.dy = matrix(0, queries, value_size);
        one.q = matrix(1, queries, size);
        one.k = matrix(2, keys, size);
        one.v = matrix(3, keys, value_size);
        one.mask = matrix(4, queries, keys);
        one.y = matrix(5, queries, value_size);
        one.logsumexp = matrix(6, queries, -1);
        one.dq = matrix(7, queries, size);
        one.dk = matrix(8, keys, size);
        one.dv = matrix(9, keys, value_size);
    };
    return each_head<Backward<T>>(args, 1, set);
}

}  // namespace

int attention_backward(const Args& args) {
    return compute_of(args.blocks[0].dtype) == compute_f64 ? run<double>(args) : run<float>(args);
}

}  // namespace nntile::kernels
