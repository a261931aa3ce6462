// SPDX-License-Identifier: BSD-3-Clause
// Sums, products, log-sum-exps and extremes of all elements up to each. The last dim is scanned,
// whole, in its order.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hh"
#include "kernels/convert.hh"
#include "kernels/functions.hh"
#include "kernels/space.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

enum { sum, product, logsumexp };

// All rows side by side along the dim that lies closest, in groups: memory is read as it lies,
// whichever dim is scanned. body(number in the group, first row's offsets, step t, rows).
constexpr int64_t group = 64;

struct Rows {
    Space space;
    int64_t d = 0;
    SmallVector<int64_t, 3> steps;  // of each operand along the scanned dim

    int make(const Args& args, size_t operands) {
        const size_t last = args.sizes.size() - 1;
        Dims sizes(args.sizes);
        d = sizes[last];
        sizes[last] = 1;
        Args rows = args;
        rows.sizes = sizes;
        const int64_t* strides[3];
        for (size_t k = 0; k < operands; ++k) {
            strides[k] = args.blocks[k].strides;
            steps.push_back(strides[k][last]);
        }
        return space.make(rows, {strides, operands}, {0});
    }
    // Whether n rows, this far from each other, are better read one by one: memory is read as it
    // lies, and a few rows whose elements take turns are in the same cache lines.
    bool along(const int64_t* strides, int64_t n) const {
        constexpr int64_t few = 8;
        return n == 1 || std::abs(steps[0]) < std::abs(strides[0]) ||
               (n <= few && std::abs(steps[0]) <= few * std::abs(strides[0]));
    }
    // begin(rows) for a group of rows, then step(t, offsets, strides from row to row) for each
    // place.
    template <class Body>
    void each(Body&& body) {
        if (space.empty()) return;
        const int inner = space.dims - 1;
        int64_t strides[3] = {}, offsets[3];
        for (int k = 0; k < space.operands; ++k) strides[k] = space.strides[k][inner];
        Walk walk(space, inner);
        do {
            for (int64_t first = 0; first < space.sizes[inner]; first += group) {
                for (int k = 0; k < space.operands; ++k)
                    offsets[k] = walk.offset[k] + first * strides[k];
                body(offsets, strides, std::min(group, space.sizes[inner] - first));
            }
        } while (walk.next());
    }
};

// A total of floats is a double, as on the CPU.
template <int op, class T>
T joined(T total, T x) {
    if (op == sum) return total + x;
    if (op == product) return total * x;
    if constexpr (std::is_floating_point_v<T>) {
        const T low = std::min(total, x), high = std::max(total, x);
        if (std::isnan(total) || std::isnan(x)) return total + x;
        if (low == high && std::isinf(high)) return high;
        return high + std::log1p(std::exp(low - high));
    }
    return x;
}

template <int op, class T>
int scan_of(const Args& args) {
    constexpr Compute compute = std::is_same_v<T, double> ? compute_f64 : compute_i64;
    const Block &x = args.blocks[0], &y = args.blocks[1];
    Rows rows;
    if (int status = rows.make(args, 2)) return status;
    const Convert load = loader(x.dtype, compute), store = storer(compute, y.dtype);
    const T first = op == product ? T(1) : op == sum ? T(0) : -std::numeric_limits<T>::infinity();
    rows.each([&](const int64_t* offsets, const int64_t* strides, int64_t n) {
        const std::byte* from = x.data + offsets[0] * size_of(x.dtype);
        std::byte* to = y.data + offsets[1] * size_of(y.dtype);
        T totals[group];
        std::fill_n(totals, n, first);
        if (rows.along(strides, n)) {  // pieces of a few rows: sums that do not wait for each other
            constexpr int64_t few = 4;
            T pieces[few][group];
            for (int64_t r = 0; r < n; r += few) {
                const int64_t count = std::min(few, n - r);
                for (int64_t t = 0; t < rows.d; t += group) {
                    const int64_t some = std::min(group, rows.d - t);
                    for (int64_t k = 0; k < count; ++k)
                        load(from + (t * rows.steps[0] + (r + k) * strides[0]) * size_of(x.dtype),
                             pieces[k], rows.steps[0], some);
                    T running[few];
                    std::copy_n(totals + r, count, running);
                    if (count == few)
                        for (int64_t j = 0; j < some; ++j)
                            for (int64_t k = 0; k < few; ++k)
                                pieces[k][j] = running[k] = joined<op>(running[k], pieces[k][j]);
                    else
                        for (int64_t k = 0; k < count; ++k)
                            for (int64_t j = 0; j < some; ++j)
                                pieces[k][j] = running[k] = joined<op>(running[k], pieces[k][j]);
                    std::copy_n(running, count, totals + r);
                    for (int64_t k = 0; k < count; ++k)
                        store(pieces[k],
                              to + (t * rows.steps[1] + (r + k) * strides[1]) * size_of(y.dtype),
                              rows.steps[1], some);
                }
            }
            return;
        }
        T values[group];
        // Results that lie the other way are turned a square at a time.
        const bool turn = rows.steps[1] == 1 && strides[1] != 1;
        const int64_t bytes = size_of(y.dtype), step = turn ? group : rows.steps[1],
                      next = turn ? 1 : strides[1];
        alignas(64) std::byte square[group * group * sizeof(double)];
        for (int64_t first_t = 0; first_t < rows.d; first_t += group) {
            const int64_t some = std::min(group, rows.d - first_t);
            std::byte* target = turn ? square : to + first_t * rows.steps[1] * bytes;
            for (int64_t t = 0; t < some; ++t) {
                load(from + (first_t + t) * rows.steps[0] * size_of(x.dtype), values, strides[0],
                     n);
                for (int64_t j = 0; j < n; ++j) totals[j] = joined<op>(totals[j], values[j]);
                store(totals, target + t * step * bytes, next, n);
            }
            if (turn) transpose_of(bytes)(square, group, to + first_t * bytes, strides[1], n, some);
        }
    });
    return 0;
}

// Of equals the last one; nan stays.
template <bool largest, class T>
void keep_extreme(T x, int64_t at, T& best, int64_t& place) {
    if ((largest ? x < best : x > best) || (best != best && x == x)) return;
    best = x;
    place = at;
}

template <bool largest, class T>
int extreme_of(const Args& args) {
    constexpr Compute compute = std::is_same_v<T, float>    ? compute_f32
                                : std::is_same_v<T, double> ? compute_f64
                                                            : compute_i64;
    using Limits = std::numeric_limits<T>;
    constexpr T high = Limits::has_infinity ? Limits::infinity() : Limits::max(),
                low = Limits::has_infinity ? -Limits::infinity() : Limits::min();
    const Block &x = args.blocks[0], &y = args.blocks[1], &indices = args.blocks[2];
    Rows rows;
    if (int status = rows.make(args, 3)) return status;
    const Convert load = loader(x.dtype, compute), store = storer(compute, y.dtype),
                  store_place = storer(compute_i64, indices.dtype);
    rows.each([&](const int64_t* offsets, const int64_t* strides, int64_t n) {
        T values[group];
        int64_t places[group] = {};
        // What is at step t of row r, and some more of the row or of the step.
        const auto read = [&](int64_t r, int64_t t, int64_t stride, int64_t some) {
            load(x.data + (offsets[0] + r * strides[0] + t * rows.steps[0]) * size_of(x.dtype),
                 values, stride, some);
        };
        const auto write = [&](const T* best, int64_t r, int64_t t, const int64_t* by,
                               int64_t some) {
            store(best,
                  y.data + (offsets[1] + r * strides[1] + t * rows.steps[1]) * size_of(y.dtype),
                  by[1], some);
            const int64_t at = offsets[2] + r * strides[2] + t * rows.steps[2];
            store_place(places, indices.data + at * size_of(indices.dtype), by[2], some);
        };
        if (rows.along(strides, n)) {
            for (int64_t r = 0; r < n; ++r) {
                T best = largest ? low : high;
                int64_t place = 0;
                for (int64_t t = 0; t < rows.d; t += group) {
                    const int64_t some = std::min(group, rows.d - t);
                    read(r, t, rows.steps[0], some);
                    for (int64_t j = 0; j < some; ++j) {
                        keep_extreme<largest>(values[j], t + j, best, place);
                        values[j] = best;
                        places[j] = place;
                    }
                    write(values, r, t, rows.steps.data(), some);
                }
            }
            return;
        }
        T best[group];
        std::fill_n(best, n, largest ? low : high);
        for (int64_t t = 0; t < rows.d; ++t) {
            read(0, t, strides[0], n);
            for (int64_t j = 0; j < n; ++j) keep_extreme<largest>(values[j], t, best[j], places[j]);
            write(best, 0, t, strides, n);
        }
    });
    return 0;
}
template <class T>
int extreme_of(const Args& args) {
    return args.params[0].i ? extreme_of<true, T>(args) : extreme_of<false, T>(args);
}

}  // namespace

int scan(const Args& args) {
    const bool floats = is_floating(args.blocks[1].dtype);
    switch (args.params[0].i) {
        case sum: return floats ? scan_of<sum, double>(args) : scan_of<sum, int64_t>(args);
        case product:
            return floats ? scan_of<product, double>(args) : scan_of<product, int64_t>(args);
        default: return scan_of<logsumexp, double>(args);
    }
}
int cumulative_extreme(const Args& args) {
    switch (compute_of(args.blocks[1].dtype)) {
        case compute_f32: return extreme_of<float>(args);
        case compute_f64: return extreme_of<double>(args);
        default: return extreme_of<int64_t>(args);
    }
}

}  // namespace nntile::kernels
