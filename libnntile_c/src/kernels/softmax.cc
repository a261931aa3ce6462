// SPDX-License-Identifier: BSD-3-Clause
// Softmax and log-softmax over the last dim, and their gradients. y may be x, dx may be dy. Where
// the rows lie beside each other, as the channels of pixels, a panel of them goes from element to
// element.
#include <cmath>
#include <limits>

#include "kernels/functions.hh"
#include "kernels/panels.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

// Rows that lie beside each other in all operands, which have the compute type.
template <class T, size_t count>
class Columns {
public:
    static constexpr int64_t most = 512;
    int64_t d = 0, n = 0;  // elements of a row; rows of the panel

    bool make(const Args& args) {
        constexpr int64_t few = 16;
        const size_t last = args.sizes.size() - 1;
        d = args.sizes[last];
        const int64_t* strides[count];
        for (size_t k = 0; k < count; ++k) {
            const Block& b = args.blocks[k];
            if (b.dtype != dtype_of(sizeof(T) == 4 ? compute_f32 : compute_f64)) return false;
            strides[k] = b.strides;
            data_[k] = reinterpret_cast<T*>(b.data);
            step_[k] = b.strides[last];
        }
        Args rows = args;
        rows.sizes = args.sizes.first(last);
        if (space_.make(rows, strides, {count - 1}) != 0) return false;
        const int inner = space_.dims - 1;
        for (size_t k = 0; k < count; ++k)
            if (space_.strides[k][inner] != 1) return false;
        return d > 1 && space_.sizes[inner] >= few;
    }
    template <class Body>  // body() for each panel
    void each(Body&& body) {
        constexpr int64_t bytes = 128 << 10, lanes = 64;  // of an operand: its passes find it
        if (space_.empty()) return;
        const int64_t room = bytes / static_cast<int64_t>(sizeof(T)) / d / lanes * lanes,
                      step = std::clamp(room, lanes, most), size = space_.sizes[space_.dims - 1];
        Walk walk(space_, space_.dims - 1);
        do {
            for (int64_t first = 0; first < size; first += step) {
                n = std::min(step, size - first);
                for (size_t k = 0; k < count; ++k) at_[k] = data_[k] + walk.offset[k] + first;
                body();
            }
        } while (walk.next());
    }
    T* at(size_t k, int64_t element) const { return at_[k] + element * step_[k]; }

private:
    Space space_;
    T *data_[count], *at_[count];
    int64_t step_[count];
};

// x -> y. False: the rows do not lie so.
template <class T>
bool forward_of_columns(const Args& args, bool log) {
    using All = Columns<T, 2>;
    All all;
    if (!all.make(args)) return false;
    const PanelLoops& loops = panel_tables().table[sizeof(T) == 4 ? compute_f32 : compute_f64];
    all.each([&] {
        alignas(64) T max[All::most], by[All::most];
        alignas(64) double sum[All::most] = {};
        std::fill_n(max, all.n, -std::numeric_limits<T>::infinity());
        for (int64_t i = 0; i < all.d; ++i) loops.max(all.at(0, i), all.n, max);
        for (int64_t i = 0; i < all.d; ++i)
            loops.exp_shift(all.at(0, i), all.n, max, log ? nullptr : all.at(1, i), sum);
        if (log) loops.log(all.n, sum);
        for (int64_t j = 0; j < all.n; ++j) by[j] = static_cast<T>(log ? sum[j] : 1 / sum[j]);
        for (int64_t i = 0; i < all.d; ++i)
            if (log) loops.shift(all.at(0, i), all.n, max, by, all.at(1, i));
            else loops.scale(all.n, by, all.at(1, i));
    });
    return true;
}

// dy, y -> dx
template <class T>
bool backward_of_columns(const Args& args, bool log) {
    using All = Columns<T, 3>;
    All all;
    if (!all.make(args)) return false;
    const PanelLoops& loops = panel_tables().table[sizeof(T) == 4 ? compute_f32 : compute_f64];
    all.each([&] {
        alignas(64) T of[All::most];
        alignas(64) double sum[All::most] = {};
        for (int64_t i = 0; i < all.d; ++i)
            loops.dot(all.at(0, i), log ? nullptr : all.at(1, i), all.n, sum);
        for (int64_t j = 0; j < all.n; ++j) of[j] = static_cast<T>(sum[j]);
        const auto run = log ? loops.log_softmax_backward : loops.softmax_backward;
        for (int64_t i = 0; i < all.d; ++i)
            run(all.at(0, i), all.at(1, i), all.n, of, all.at(2, i));
    });
    return true;
}

bool by_columns(const Args& args, bool backward, bool log) {
    const bool wide = args.blocks[0].dtype == DType::f64;
    if (backward)
        return wide ? backward_of_columns<double>(args, log)
                    : backward_of_columns<float>(args, log);
    return wide ? forward_of_columns<double>(args, log) : forward_of_columns<float>(args, log);
}

}  // namespace

int softmax(const Args& args) {
    if (by_columns(args, false, false)) return 0;
    Rows rows;
    if (int status = rows.make(args)) return status;
    const RowLoops& loops = rows.loops();
    Line &x = rows.line[0], &y = rows.line[1];
    rows.each([&] {
        const double max = row_max(rows, x);
        double sum = 0;
        const bool keep = y.in_place();  // then the exponentials wait in y for their sum
        rows.pieces([&](int64_t at, int64_t n) {
            sum += loops.exp_sum(x.read(at, n), n, max, keep ? y.target(at) : nullptr);
        });
        rows.pieces([&](int64_t at, int64_t n) {
            if (keep) loops.scale(y.target(at), n, 1 / sum);
            else loops.exp_scale(x.read(at, n), n, max, 1 / sum, y.target(at));
            y.flush(at, n);
        });
    });
    return 0;
}

int log_softmax(const Args& args) {
    if (by_columns(args, false, true)) return 0;
    Rows rows;
    if (int status = rows.make(args)) return status;
    const RowLoops& loops = rows.loops();
    Line &x = rows.line[0], &y = rows.line[1];
    rows.each([&] {
        const double max = row_max(rows, x);
        double sum = 0;
        rows.pieces(
            [&](int64_t at, int64_t n) { sum += loops.exp_sum(x.read(at, n), n, max, nullptr); });
        rows.pieces([&](int64_t at, int64_t n) {
            loops.shift(x.read(at, n), n, max, std::log(sum), y.target(at));
            y.flush(at, n);
        });
    });
    return 0;
}

int softmax_backward(const Args& args) {
    if (by_columns(args, true, false)) return 0;
    Rows rows;
    if (int status = rows.make(args)) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &y = rows.line[1], &dx = rows.line[2];
    rows.each([&] {
        double dot = 0;
        rows.pieces(
            [&](int64_t at, int64_t n) { dot += loops.dot(dy.read(at, n), y.read(at, n), n); });
        rows.pieces([&](int64_t at, int64_t n) {
            loops.softmax_backward(dy.read(at, n), y.read(at, n), n, dot, dx.target(at));
            dx.flush(at, n);
        });
    });
    return 0;
}

int log_softmax_backward(const Args& args) {
    if (by_columns(args, true, true)) return 0;
    Rows rows;
    if (int status = rows.make(args)) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &y = rows.line[1], &dx = rows.line[2];
    rows.each([&] {
        double sum = 0;
        rows.pieces([&](int64_t at, int64_t n) { sum += loops.sum(dy.read(at, n), n); });
        rows.pieces([&](int64_t at, int64_t n) {
            loops.log_softmax_backward(dy.read(at, n), y.read(at, n), n, sum, dx.target(at));
            dx.flush(at, n);
        });
    });
    return 0;
}

}  // namespace nntile::kernels
