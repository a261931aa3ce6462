// SPDX-License-Identifier: BSD-3-Clause
// Attention that never holds its scores: blocks of keys pass by a block of queries, with a running
// maximum and sum for each query.
#include "kernels/attention.hh"
#include "kernels/fold.hh"
#include "kernels/functions.hh"

namespace nntile::kernels {
namespace {

template <class T>
struct Forward : Attention<T> {
    using Base = Attention<T>;
    using Base::compute;

    const AttentionSizes n;
    const int64_t queries, keys;  // of a block
    Matrix q, k, v, mask, y, logsumexp;
    T *scores, *weighted, *mask_room, *q_room, *k_room, *v_room;
    double max[most_queries_of_all], sum[most_queries_of_all];

    explicit Forward(const Args& args)
        : Base(args, AttentionSizes(args.sizes).size),
          n(args.sizes),
          queries(rows_of_block(this->causal ? most_queries : most_queries_of_all,
                                std::max(n.size, n.value_size), n.queries)),
          keys(rows_of_block(this->causal ? most_keys : most_keys_of_all,
                             std::max(n.size, n.value_size), n.keys)) {
        const int64_t counts[] = {queries * keys,   queries * n.value_size, keys,
                                  queries * n.size, keys * n.size,          keys * n.value_size};
        int64_t total = 0;
        for (int64_t c : counts) total += c;
        T* at = attention_room<T>(static_cast<size_t>(total));
        int i = 0;
        for (T** room : {&scores, &weighted, &mask_room, &q_room, &k_room, &v_room}) {
            *room = at;
            at += counts[i++];
        }
    }

    void head() {
        for (int64_t m = 0; m < n.queries; m += queries)
            block_of_queries(m, std::min(queries, n.queries - m));
    }

    void block_of_queries(int64_t m, int64_t rows) {
        const int64_t seen = this->seen(m + rows - 1, 0, n.keys);
        std::fill_n(max, rows, -std::numeric_limits<double>::infinity());
        std::fill_n(sum, rows, 0.0);
        if (seen == 0) std::fill_n(weighted, rows * n.value_size, T{});
        const Matrix query = Base::rows(q, m, rows, n.size, q_room);
        for (int64_t at = 0; at < seen; at += keys) {
            const int64_t columns = std::min(keys, seen - at);
            this->make_scores(rows, columns, n.size, query,
                              Base::rows(k, at, columns, n.size, k_room), mask.block(m, at), scores,
                              mask_room);
            for (int64_t i = 0; i < rows; ++i)
                weigh(i, scores + i * columns, columns, this->seen(m + i, at, columns), at > 0);
            multiply({rows,
                      n.value_size,
                      columns,
                      Base::dense(scores, columns),
                      Base::rows(v, at, columns, n.value_size, v_room),
                      {},
                      Base::dense(weighted, n.value_size),
                      1,
                      0,
                      at > 0});
        }
        finish(m, rows);
    }

    // Scores of a row become exponentials; what was summed before is scaled to the new maximum.
    void weigh(int64_t i, T* row, int64_t columns, int64_t seen, bool later) {
        const Folds::Op& amax = folds().op[static_cast<int>(Fold::amax)][compute];
        Total highest = amax.identity;
        amax.run(row, seen, &highest);
        const double now = max[i] > highest.f ? max[i] : highest.f;
        std::fill(row + seen, row + columns, T{});
        if (now == -std::numeric_limits<double>::infinity()) {
            std::fill_n(row, seen, T{});
            return;
        }
        const double more = this->loops.exp_sum(row, seen, now, row);
        if (now != max[i] && later) {
            const double factor = std::exp(max[i] - now);
            sum[i] *= factor;
            this->loops.scale(weighted + i * n.value_size, n.value_size, factor);
        }
        sum[i] += more;
        max[i] = now;
    }

    // A query without any key gets zeros, and 0 as the logarithm of its sum, as of PyTorch's
    // kernel.
    void finish(int64_t m, int64_t rows) {
        for (int64_t i = 0; i < rows; ++i) {
            const bool none = max[i] == -std::numeric_limits<double>::infinity();
            if (!none) this->loops.scale(weighted + i * n.value_size, n.value_size, 1 / sum[i]);
            const double log = none ? 0 : max[i] + std::log(sum[i]);
            storer(compute_f64, logsumexp.dtype)(&log, logsumexp.at(m + i, 0), 1, 1);
        }
        Base::store(weighted, y, m, rows, n.value_size);
    }
};

template <class T>
int run(const Args& args) {
    const auto set = [](auto& one, auto&& matrix, int queries, int keys, int size, int value_size) {
        one.q = matrix(0, queries, size);
        one.k = matrix(1, keys, size);
        one.v = matrix(2, keys, value_size);
        one.mask = matrix(3, queries, keys);
        one.y = matrix(4, queries, value_size);
        one.logsumexp = matrix(5, queries, -1);
    };
    return each_head<Forward<T>>(args, 0, set);
}

}  // namespace

int attention(const Args& args) {
    return compute_of(args.blocks[0].dtype) == compute_f64 ? run<double>(args) : run<float>(args);
}

}  // namespace nntile::kernels
