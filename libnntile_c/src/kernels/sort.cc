// SPDX-License-Identifier: BSD-3-Clause
// Sorted rows, the first k of them, the k-th alone, and where a number would stand in one. nan is the largest.
#include <algorithm>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

template <class T>
struct Key {
    T value;
    int64_t place;
};

template <class T>
bool before(T a, T b) {                 // in ascending order
    return a < b || (b != b && a == a);
}

template <class T>
constexpr Compute compute = std::is_same_v<T, float>    ? compute_f32
                            : std::is_same_v<T, double> ? compute_f64
                                                        : compute_i64;

// The space of rows: all dims but the last `own`.
int rows_of(const Args& args, size_t own, std::span<const int64_t* const> strides, Space& space) {
    Args rows = args;
    rows.sizes = args.sizes.first(args.sizes.size() - own);
    return space.make(rows, strides, {0});
}

// The first k of each row: order(keys, k, d) puts them there. The last dims are k and d.
template <class T, class Order>
int first_of_rows(const Args& args, Order&& order) {
    const Block &x = args.blocks[0], &y = args.blocks[1], &places = args.blocks[2];
    const size_t rank = args.sizes.size();
    const int64_t k = args.sizes[rank - 2], d = args.sizes[rank - 1];
    const int64_t* strides[] = {x.strides, y.strides, places.strides};
    Space space;
    if (int status = rows_of(args, 2, strides, space)) return status;
    if (space.empty() || k == 0) return 0;

    static thread_local Scratch scratch;
    scratch.begin(padded(static_cast<size_t>(d) * sizeof(Key<T>)) + padded(static_cast<size_t>(d) * sizeof(T)) +
                  padded(static_cast<size_t>(d) * sizeof(int64_t)));
    auto* keys = scratch.take<Key<T>>(static_cast<size_t>(d));
    auto* values = scratch.take<T>(static_cast<size_t>(d));
    auto* found = scratch.take<int64_t>(static_cast<size_t>(d));
    Walk walk(space, space.dims);
    do {
        loader(x.dtype, compute<T>)(x.data + walk.offset[0] * size_of(x.dtype), values, x.strides[rank - 1], d);
        for (int64_t j = 0; j < d; ++j) keys[j] = {values[j], j};
        order(keys, k, d);
        for (int64_t j = 0; j < k; ++j) {
            values[j] = keys[j].value;
            found[j] = keys[j].place;
        }
        storer(compute<T>, y.dtype)(values, y.data + walk.offset[1] * size_of(y.dtype), y.strides[rank - 2], k);
        storer(compute_i64, places.dtype)(found, places.data + walk.offset[2] * size_of(places.dtype),
                                          places.strides[rank - 2], k);
    } while (walk.next());
    return 0;
}

template <class T>
int sort_of(const Args& args) {
    const bool descending = args.params[0].i;
    return first_of_rows<T>(args, [descending](Key<T>* keys, int64_t, int64_t d) {
        std::sort(keys, keys + d, [descending](const Key<T>& a, const Key<T>& b) {
            if (descending ? before(b.value, a.value) : before(a.value, b.value)) return true;
            if (descending ? before(a.value, b.value) : before(b.value, a.value)) return false;
            return a.place < b.place;
        });
    });
}

// Which of several equals are taken, and in what order, is left open by PyTorch. These are its CPU's steps, so that the
// answers are the same.
template <class T>
int topk_of(const Args& args) {
    const bool largest = args.params[0].i, sorted = args.params[1].i;
    const auto first = [largest](const Key<T>& a, const Key<T>& b) {
        return largest ? before(b.value, a.value) : before(a.value, b.value);
    };
    return first_of_rows<T>(args, [&](Key<T>* keys, int64_t k, int64_t d) {
        constexpr int64_t few = 64;
        if (k * few <= d) {
            std::partial_sort(keys, keys + k, keys + d, first);
            return;
        }
        std::nth_element(keys, keys + k - 1, keys + d, first);
        if (sorted) std::sort(keys, keys + k - 1, first);
    });
}

// Quickselect with the median of three as its pivot; the k-th is put to the front.
template <class T>
int kthvalue_of(const Args& args) {
    const int64_t kth = args.params[0].i - 1;
    return first_of_rows<T>(args, [kth](Key<T>* keys, int64_t, int64_t d) {
        const auto greater = [keys](int64_t a, int64_t b) { return before(keys[b].value, keys[a].value); };
        const auto swap = [keys](int64_t a, int64_t b) { std::swap(keys[a], keys[b]); };
        int64_t left = 0, right = d - 1;
        while (right > left) {
            if (right == left + 1) {
                if (greater(left, right)) swap(left, right);
                break;
            }
            swap(left + (right - left) / 2, left + 1);
            if (greater(left + 1, right)) swap(left + 1, right);
            if (greater(left, right)) swap(left, right);
            if (greater(left + 1, left)) swap(left + 1, left);
            int64_t i = left + 1, j = right;
            const T pivot = keys[left].value;
            for (;;) {
                do ++i;
                while (before(keys[i].value, pivot));
                do --j;
                while (before(pivot, keys[j].value));
                if (j < i) break;
                swap(i, j);
            }
            swap(left, j);
            if (j <= kth) left = i;
            if (j >= kth) right = j - 1;
        }
        swap(0, kth);
    });
}

template <class T>
int search_of(const Args& args) {
    const Block &sequence = args.blocks[0], &x = args.blocks[1], &sorter = args.blocks[2], &y = args.blocks[3];
    const size_t n_dim = args.sizes.size() - 1;
    const int64_t n = args.sizes[n_dim];
    const bool right = args.params[0].i;
    const int64_t* strides[] = {x.strides, sequence.strides, sorter.data ? sorter.strides : nullptr, y.strides};
    Space space;
    if (int status = rows_of(args, 1, strides, space)) return status;
    if (space.empty()) return 0;
    const Convert read = loader(sequence.dtype, compute<T>), load = loader(x.dtype, compute<T>);
    Walk walk(space, space.dims);
    do {
        T value, other;
        load(x.data + walk.offset[0] * size_of(x.dtype), &value, 1, 1);
        int64_t low = 0, high = n;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            int64_t at = middle;
            if (sorter.data) {
                at = reinterpret_cast<const int64_t*>(sorter.data)[walk.offset[2] + middle * sorter.strides[n_dim]];
                if (at < 0 || at >= n)
                    return fail_task(args, static_cast<int>(Status::index_error),
                                     "searchsorted: sorter has an index out of range [0, %lld)",
                                     static_cast<long long>(n));
            }
            read(sequence.data + (walk.offset[1] + at * sequence.strides[n_dim]) * size_of(sequence.dtype), &other, 1,
                 1);
            const bool beyond = right ? !before(value, other) : before(other, value);
            if (beyond) low = middle + 1;
            else high = middle;
        }
        storer(compute_i64, y.dtype)(&low, y.data + walk.offset[3] * size_of(y.dtype), 1, 1);
    } while (walk.next());
    return 0;
}

int by_type(const Args& args, Function f32, Function f64, Function i64) {
    const Compute compute = compute_of(args.blocks[0].dtype);
    return (compute == compute_f32 ? f32 : compute == compute_f64 ? f64 : i64)(args);
}

}  // namespace

int sort(const Args& args) { return by_type(args, sort_of<float>, sort_of<double>, sort_of<int64_t>); }
int topk(const Args& args) { return by_type(args, topk_of<float>, topk_of<double>, topk_of<int64_t>); }
int kthvalue(const Args& args) {
    return by_type(args, kthvalue_of<float>, kthvalue_of<double>, kthvalue_of<int64_t>);
}
int searchsorted(const Args& args) {
    return by_type(args, search_of<float>, search_of<double>, search_of<int64_t>);
}

// A copy that begins at the end of the turned dims.
int flip(const Args& args) {
    Block blocks[] = {args.blocks[0], args.blocks[1]};
    Dims strides(std::span(blocks[0].strides, args.sizes.size()));
    for (size_t d = args.sizes.size() - static_cast<size_t>(args.params[0].i); d < args.sizes.size(); ++d) {
        if (args.sizes[d] == 0) return 0;
        blocks[0].data += (args.sizes[d] - 1) * strides[d] * size_of(blocks[0].dtype);
        strides[d] = -strides[d];
    }
    blocks[0].strides = strides.data();
    Args turned = args;
    turned.blocks = blocks;
    return copy(turned);
}

}  // namespace nntile::kernels
