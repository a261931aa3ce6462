// SPDX-License-Identifier: BSD-3-Clause
// Attention that never holds its scores: blocks of keys pass by a block of queries, with a running
// maximum and sum for each query.
#include "kernels/attention.hh"
#include "kernels/fold.hh"
#include "kernels/functions.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

template <class T>
struct Forward : Attention<T> {
    using Base = Attention<T>;
    using Base::compute;

    const AttentionSizes n;
    const int64_t queries, keys;  // of a block
    const int64_t sum_size = (n.size + 63) / 64 * 64;
    // A short float whose products have instructions of their own: weights are then rounded to it,
    // as those of PyTorch are. none: all is widened.
    DType brief = DType::none;
    Matrix q, k, v, mask, y, logsumexp;
    T *scores, *brief_room, *weighted, *mask_room, *q_room, *k_room, *v_room;
    double max[most_queries_of_all], sum[most_queries_of_all];

    explicit Forward(const Args& args)
        : Base(args, AttentionSizes(args.sizes).size),
          n(args.sizes),
          queries(rows_of_block(this->causal ? most_queries : most_queries_of_all,
                                std::max(n.size, n.value_size), n.queries)),
          keys(rows_of_block(this->causal ? most_keys : most_keys_of_all,
                             std::max(n.size, n.value_size), n.keys)) {
        const int64_t counts[] = {
            queries * keys,     (queries * keys + 1) / 2, queries * n.value_size, keys,
            queries * sum_size, keys * sum_size,          keys * n.value_size};
        int64_t total = 0;
        for (int64_t c : counts) total += c;
        T* at = attention_room<T>(static_cast<size_t>(total));
        int i = 0;
        for (T** room : {&scores, &brief_room, &weighted, &mask_room, &q_room, &k_room, &v_room}) {
            *room = at;
            at += counts[i++];
        }
    }

    void head() {
        // Less would be filled up with more zeros, or cost less than calls of the library.
        constexpr int64_t least_size = 32, least_queries = 16, small = 4096;
        const bool brief_ones =
            n.size >= least_size && n.queries >= least_queries && n.queries * n.keys > small &&
            q.dtype == k.dtype && q.dtype == v.dtype && Base::readable(q, n.queries, n.size) &&
            Base::readable(k, n.keys, n.size) && Base::readable(v, n.keys, n.value_size);
        brief = brief_ones && has_short_products(q.dtype) ? q.dtype : DType::none;
        for (int64_t m = 0; m < n.queries; m += queries)
            block_of_queries(m, std::min(queries, n.queries - m));
    }

    void block_of_queries(int64_t m, int64_t rows) {
        const int64_t seen = this->seen(m + rows - 1, 0, n.keys);
        std::fill_n(max, rows, -std::numeric_limits<double>::infinity());
        std::fill_n(sum, rows, 0.0);
        if (seen == 0) std::fill_n(weighted, rows * n.value_size, T{});
        const Matrix query = queries_of(m, rows);
        for (int64_t at = 0; at < seen; at += keys) {
            const int64_t columns = std::min(keys, seen - at);
            this->make_scores(rows, columns, brief == DType::none ? n.size : sum_size, query,
                              keys_of(at, columns), mask.block(m, at), scores, mask_room);
            for (int64_t i = 0; i < rows; ++i)
                weigh(i, scores + i * columns, columns, this->seen(m + i, at, columns), at > 0);
            multiply({rows,
                      n.value_size,
                      columns,
                      weights_of(rows, columns),
                      Base::rows(v, at, columns, n.value_size, v_room, brief),
                      {},
                      Base::dense(weighted, n.value_size),
                      1,
                      0,
                      at > 0});
        }
        finish(m, rows);
    }

    // Keys of short floats are turned here, and sums filled up with zeros: of others oneDNN takes
    // code that needs three times as long.
    Matrix keys_of(int64_t at, int64_t columns) const {
        if (brief == DType::none) return Base::rows(k, at, columns, n.size, k_room);
        transpose_of(size_of(brief))(k.at(at, 0), k.row, k_room, columns, n.size, columns);
        auto* const turned = reinterpret_cast<uint16_t*>(k_room);
        std::fill(turned + n.size * columns, turned + sum_size * columns, uint16_t{0});
        return {reinterpret_cast<std::byte*>(k_room), brief, 1, columns};
    }
    Matrix queries_of(int64_t m, int64_t rows) const {
        if (brief == DType::none || sum_size == n.size)
            return Base::rows(q, m, rows, n.size, q_room, brief);
        auto* to = reinterpret_cast<uint16_t*>(q_room);
        for (int64_t i = 0; i < rows; ++i, to += sum_size) {
            std::copy_n(reinterpret_cast<const uint16_t*>(q.at(m + i, 0)), n.size, to);
            std::fill(to + n.size, to + sum_size, uint16_t{0});
        }
        return {reinterpret_cast<std::byte*>(q_room), brief, sum_size, 1};
    }
    // Of scores that are exponentials.
    Matrix weights_of(int64_t rows, int64_t columns) const {
        if (brief == DType::none) return Base::dense(scores, columns);
        storer(compute, brief)(scores, brief_room, 1, rows * columns);
        return {reinterpret_cast<std::byte*>(brief_room), brief, columns, 1};
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
