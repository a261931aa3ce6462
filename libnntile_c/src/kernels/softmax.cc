// SPDX-License-Identifier: BSD-3-Clause
// Softmax and log-softmax over the last dim, and their gradients. y may be x, dx may be dy. Where
// the rows lie beside each other, as the channels of pixels, a panel of them goes from element to
// element.
#include <cmath>
#include <limits>

#include "kernels/functions.hh"
#include "kernels/panels.hh"
#include "kernels/row.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {
namespace {

// Rows that lie beside each other in all operands. Those of short floats are widened, panel by
// panel, and the last operand, which is the result, narrowed.
template <class T, size_t count>
class Columns {
public:
    static constexpr int64_t most = 512;
    int64_t d = 0, n = 0;  // elements of a row; rows of the panel

    bool make(const Args& args) {
        constexpr int64_t few = 16, most_memory = 8 << 20;
        const size_t last = args.sizes.size() - 1;
        d = args.sizes[last];
        const int64_t* strides[count];
        int64_t held = 0;
        for (size_t k = 0; k < count; ++k) {
            const Block& b = args.blocks[k];
            if (compute_of(b.dtype) != compute) return false;
            strides[k] = b.strides;
            data_[k] = b.data;
            dtype_[k] = b.dtype;
            step_[k] = b.strides[last];
            held += is_held(k);
        }
        Args rows = args;
        rows.sizes = args.sizes.first(last);
        if (space_.make(rows, strides, {count - 1}) != 0) return false;
        const int inner = space_.dims - 1;
        for (size_t k = 0; k < count; ++k)
            if (space_.strides[k][inner] != 1) return false;
        constexpr int64_t bytes = 128 << 10;  // of an operand: its passes find it
        const int64_t room = bytes / static_cast<int64_t>(sizeof(T)) / std::max<int64_t>(d, 1);
        columns_ = std::clamp(room / lanes * lanes, lanes, most);
        held_bytes_ = padded(static_cast<size_t>(columns_ * d) * sizeof(T));
        if (held * static_cast<int64_t>(held_bytes_) > most_memory) return false;
        return d > 1 && space_.sizes[inner] >= few;
    }
    template <class Body>  // body() for each panel
    void each(Body&& body) {
        if (space_.empty()) return;
        static thread_local Scratch scratch;
        scratch.begin(count * held_bytes_);
        int64_t from[count];
        for (size_t k = 0; k < count; ++k) {
            from[k] = step_[k];
            if (!is_held(k)) continue;
            at_[k] = reinterpret_cast<T*>(scratch.take(held_bytes_));
            step_[k] = columns_;
        }
        const int64_t size = space_.sizes[space_.dims - 1];
        Walk walk(space_, space_.dims - 1);
        do {
            for (int64_t first = 0; first < size; first += columns_) {
                n = std::min(columns_, size - first);
                std::byte* own[count];
                for (size_t k = 0; k < count; ++k) {
                    own[k] = data_[k] + (walk.offset[k] + first) * size_of(dtype_[k]);
                    if (!is_held(k)) at_[k] = reinterpret_cast<T*>(own[k]);
                    else if (k < result) move(loader(dtype_[k], compute), k, own[k], from[k], true);
                }
                body();
                if (is_held(result))
                    move(storer(compute, dtype_[result]), result, own[result], from[result], false);
            }
        } while (walk.next());
    }
    template <class Body>  // body(first, count) for all elements of a row
    void some(Body&& body) const {
        for (int64_t i = 0; i < d; i += panel_terms) body(i, std::min(panel_terms, d - i));
    }
    T* at(size_t k, int64_t element) const { return at_[k] + element * step_[k]; }
    int64_t step(size_t k) const { return step_[k]; }

private:
    static constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;
    static constexpr int64_t lanes = 64;
    static constexpr size_t result = count - 1;

    bool is_held(size_t k) const { return dtype_[k] != dtype_of(compute); }
    void move(Convert convert, size_t k, std::byte* own, int64_t own_step, bool load) const {
        const int64_t bytes = own_step * size_of(dtype_[k]);
        for (int64_t i = 0; i < d; ++i)
            if (load) convert(own + i * bytes, at(k, i), 1, n);
            else convert(at(k, i), own + i * bytes, 1, n);
    }

    Space space_;
    std::byte* data_[count];
    DType dtype_[count];
    T* at_[count];
    int64_t step_[count];
    int64_t columns_ = 0;
    size_t held_bytes_ = 0;
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
        all.some([&](int64_t i, int64_t some) {
            loops.exp_shift(all.at(0, i), all.step(0), some, all.n, max,
                            log ? nullptr : all.at(1, i), all.step(1), sum);
        });
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
        all.some([&](int64_t i, int64_t some) {
            loops.dot(all.at(0, i), all.step(0), log ? nullptr : all.at(1, i), all.step(1), some,
                      all.n, sum);
        });
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
