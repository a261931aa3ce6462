// SPDX-License-Identifier: BSD-3-Clause
// Sorted rows, the first k of them, the k-th alone, and where a number would stand in one. nan is
// the largest.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/order.hh"
#include "kernels/scratch.hh"
#include "kernels/space.hh"

namespace nntile::kernels {
namespace {

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

// The first k of each row. order(values, places, room, k, d) gets the d values and room for two
// numbers of each; it writes the places of the first k, and says where their values are. The last
// dims are k and d.
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
    const auto n = static_cast<size_t>(d);
    scratch.begin(padded(n * sizeof(Key<T>)) + padded(n * sizeof(T)) + padded(n * sizeof(int64_t)));
    auto* room = scratch.take<Key<T>>(n);
    auto* values = scratch.take<T>(n);
    auto* found = scratch.take<int64_t>(n);
    Walk walk(space, space.dims);
    do {
        loader(x.dtype, compute<T>)(x.data + walk.offset[0] * size_of(x.dtype), values,
                                    x.strides[rank - 1], d);
        const T* first = order(values, found, room, k, d);
        storer(compute<T>, y.dtype)(first, y.data + walk.offset[1] * size_of(y.dtype),
                                    y.strides[rank - 2], k);
        storer(compute_i64, places.dtype)(found,
                                          places.data + walk.offset[2] * size_of(places.dtype),
                                          places.strides[rank - 2], k);
    } while (walk.next());
    return 0;
}

// The same by values that have their places with them: order(keys, k, d) puts the first k there.
template <class T, class Order>
auto by_keys(Order&& order) {
    return [order](T* values, int64_t* places, Key<T>* keys, int64_t k, int64_t d) {
        for (int64_t j = 0; j < d; ++j) keys[j] = {values[j], j};
        order(keys, k, d);
        for (int64_t j = 0; j < k; ++j) {
            values[j] = keys[j].value;
            places[j] = keys[j].place;
        }
        return values;
    };
}

// Values and their places as numbers that are compared in one step: the upper half is of the value,
// and equals, as 0 and -0, and nan have one. Returns whether it is all of the value: else those
// with equal halves are still to be sorted.
template <class T>
bool pack(const T* values, uint64_t* keys, int64_t n, bool descending) {
    const auto put = [=](int64_t j, uint32_t upper) {
        keys[j] =
            static_cast<uint64_t>(descending ? ~upper : upper) << 32 | static_cast<uint64_t>(j);
    };
    if constexpr (std::is_floating_point_v<T>) {
        using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
        constexpr int bits_of_type = sizeof(T) * 8;
        constexpr Bits sign = Bits{1} << (bits_of_type - 1);
        for (int64_t j = 0; j < n; ++j) {
            const Bits bits = std::bit_cast<Bits>(values[j] + T(0));
            const Bits ascending = values[j] != values[j] ? ~Bits{0}
                                   : bits & sign          ? ~bits
                                                          : bits | sign;
            put(j, static_cast<uint32_t>(ascending >> (bits_of_type - 32)));
        }
        return sizeof(T) == 4;
    } else {  // from the least one on: mostly they are a few, as numbers of classes or places
        const auto [least, most] = std::minmax_element(values, values + n);
        const uint64_t first = static_cast<uint64_t>(*least),
                       range = static_cast<uint64_t>(*most) - first;
        const int shift = std::max(static_cast<int>(std::bit_width(range)) - 32, 0);
        for (int64_t j = 0; j < n; ++j)
            put(j, static_cast<uint32_t>((static_cast<uint64_t>(values[j]) - first) >> shift));
        return shift == 0;
    }
}
// Sorts numbers of which the lower halves are sorted, byte by byte. Returns which of the two arrays
// they are in then.
uint64_t* sort_packed(uint64_t* from, uint64_t* to, int64_t n) {
    constexpr int64_t few = 128;
    if (n < few) {
        std::sort(from, from + n);
        return from;
    }
    uint32_t starts[4][256] = {};
    const auto digit = [](uint64_t x, int byte) { return x >> (32 + 8 * byte) & 255; };
    for (int64_t i = 0; i < n; ++i)
        for (int byte = 0; byte < 4; ++byte) ++starts[byte][digit(from[i], byte)];
    for (int byte = 0; byte < 4; ++byte) {
        uint32_t* start = starts[byte];
        if (start[digit(from[0], byte)] == n) continue;  // all have the same
        uint32_t before = 0;
        for (int k = 0; k < 256; ++k) before += std::exchange(start[k], before);
        for (int64_t i = 0; i < n; ++i) to[start[digit(from[i], byte)]++] = from[i];
        std::swap(from, to);
    }
    return from;
}

// Numbers with equal upper halves, which are sorted by these: by the values at their places, then
// by place.
template <class T>
void sort_equal_halves(uint64_t* keys, const T* values, int64_t n, bool descending) {
    const auto first = [=](uint64_t a, uint64_t b) {
        const auto i = static_cast<uint32_t>(a), j = static_cast<uint32_t>(b);
        return Earlier{descending}(Key<T>{values[i], i}, Key<T>{values[j], j});
    };
    for (int64_t at = 0, end; at < n; at = end) {
        for (end = at + 1; end < n && keys[end] >> 32 == keys[at] >> 32;) ++end;
        if (end > at + 1) std::sort(keys + at, keys + end, first);
    }
}

template <class T>
int sort_of(const Args& args) {
    const bool descending = args.params[0].i;
    const auto by_digits = [=](T* values, int64_t* places, Key<T>* room, int64_t, int64_t d) {
        auto* keys = reinterpret_cast<uint64_t*>(room);
        const bool whole = pack(values, keys, d, descending);
        uint64_t* sorted = sort_packed(keys, keys + d, d);
        if (!whole) sort_equal_halves(sorted, values, d, descending);
        for (int64_t j = 0; j < d; ++j) places[j] = static_cast<uint32_t>(sorted[j]);
        // As bytes: numbers of another type were there
        auto* result = reinterpret_cast<T*>(room);
        for (int64_t j = 0; j < d; ++j) std::memcpy(result + j, values + places[j], sizeof(T));
        return result;
    };
    if (args.sizes.back() <= UINT32_MAX) return first_of_rows<T>(args, by_digits);
    return first_of_rows<T>(args, by_keys<T>([descending](Key<T>* keys, int64_t, int64_t d) {
                                std::sort(keys, keys + d, Earlier{descending});
                            }));
}

// Which of several equals are taken, and in what order, is left open by PyTorch. These are its
// CPU's steps, so that the answers are the same.
template <class T>
int topk_of(const Args& args) {
    const bool largest = args.params[0].i, sorted = args.params[1].i;
    const Sooner first{largest};
    const auto select = by_keys<T>([=](Key<T>* keys, int64_t k, int64_t d) {
        std::nth_element(keys, keys + k - 1, keys + d, first);
        if (sorted) std::sort(keys, keys + k - 1, first);
    });
    // What std::partial_sort does (its heap loses the last of the first ones as pop_heap() would
    // with a new one behind it), but that most values are seen not to be among the first by many at
    // once.
    const auto keep_first = [=](T* values, int64_t* places, Key<T>* heap, int64_t k, int64_t d) {
        constexpr int64_t many = 32;
        for (int64_t j = 0; j < k; ++j) heap[j] = {values[j], j};
        std::make_heap(heap, heap + k, first);
        for (int64_t at = k; at < d; at += many) {
            const int64_t end = std::min(at + many, d);
            const T worst = heap[0].value;
            int32_t some = 0;
            for (int64_t j = at; j < end; ++j) some |= first(values[j], worst) ? 1 : 0;
            if (!some) continue;
            for (int64_t j = at; j < end; ++j) {
                if (!first(values[j], heap[0].value)) continue;
                heap[k] = {values[j], j};
                std::pop_heap(heap, heap + k + 1, first);
            }
        }
        std::sort_heap(heap, heap + k, first);
        for (int64_t j = 0; j < k; ++j) {
            values[j] = heap[j].value;
            places[j] = heap[j].place;
        }
        return values;
    };
    const size_t rank = args.sizes.size();
    if (keeps_heap(args.sizes[rank - 2], args.sizes[rank - 1]))
        return first_of_rows<T>(args, keep_first);
    return first_of_rows<T>(args, select);
}

template <class T>
int kthvalue_of(const Args& args) {
    const int64_t kth = args.params[0].i - 1;
    return first_of_rows<T>(args, by_keys<T>([kth](Key<T>* keys, int64_t, int64_t d) {
                                select_kth(keys, kth, d);
                                swap_keys(keys[0], keys[kth]);
                            }));
}

// How many of n elements lie before a value. No branch depends on them: which one is taken nobody
// can foresee.
template <class T, class At>
int64_t count_before(T value, bool right, int64_t n, At&& at) {
    const auto beyond = [=](T other) {
        return right ? !before(value, other) : before(other, value);
    };
    int64_t low = 0;
    for (; n > 1; n -= n / 2) low += beyond(at(low + n / 2 - 1)) ? n / 2 : 0;
    return low + (n == 1 && beyond(at(low)) ? 1 : 0);
}

template <class T>
int search_of(const Args& args) {
    const Block &sequence = args.blocks[0], &x = args.blocks[1], &sorter = args.blocks[2],
                &y = args.blocks[3];
    const size_t n_dim = args.sizes.size() - 1;
    const int64_t n = args.sizes[n_dim], step = sequence.strides[n_dim];
    const bool right = args.params[0].i, plain = sequence.dtype == dtype_of(compute<T>);
    const int64_t* strides[] = {x.strides, sequence.strides, sorter.data ? sorter.strides : nullptr,
                                y.strides};
    Space space;
    if (int status = rows_of(args, 1, strides, space)) return status;
    if (space.empty()) return 0;
    const Convert read = loader(sequence.dtype, compute<T>), load = loader(x.dtype, compute<T>);
    Walk walk(space, space.dims);
    do {
        T value;
        load(x.data + walk.offset[0] * size_of(x.dtype), &value, 1, 1);
        bool wrong = false;
        const auto element = [&](int64_t at) {
            if (plain) return reinterpret_cast<const T*>(sequence.data)[walk.offset[1] + at * step];
            T other;
            read(sequence.data + (walk.offset[1] + at * step) * size_of(sequence.dtype), &other, 1,
                 1);
            return other;
        };
        int64_t place;
        if (sorter.data) {
            const auto* order = reinterpret_cast<const int64_t*>(sorter.data) + walk.offset[2];
            place = count_before(value, right, n, [&](int64_t middle) {
                const int64_t at = order[middle * sorter.strides[n_dim]];
                const bool inside = at >= 0 && at < n;
                wrong = wrong || !inside;
                return element(inside ? at : 0);
            });
        } else {
            place = count_before(value, right, n, element);
        }
        if (wrong)
            return fail_task(args, static_cast<int>(Status::index_error),
                             "searchsorted: sorter has an index out of range [0, %lld)",
                             static_cast<long long>(n));
        storer(compute_i64, y.dtype)(&place, y.data + walk.offset[3] * size_of(y.dtype), 1, 1);
    } while (walk.next());
    return 0;
}

int by_type(const Args& args, Function f32, Function f64, Function i64) {
    const Compute compute = compute_of(args.blocks[0].dtype);
    return (compute == compute_f32 ? f32 : compute == compute_f64 ? f64 : i64)(args);
}

}  // namespace

int sort(const Args& args) {
    return by_type(args, sort_of<float>, sort_of<double>, sort_of<int64_t>);
}
int topk(const Args& args) {
    return by_type(args, topk_of<float>, topk_of<double>, topk_of<int64_t>);
}
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
    for (size_t d = args.sizes.size() - static_cast<size_t>(args.params[0].i);
         d < args.sizes.size(); ++d) {
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
