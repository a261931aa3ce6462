// SPDX-License-Identifier: BSD-3-Clause
// One step of an LSTM or GRU cell on a part of the batch, without its products. Kernel dims: n,
// gates, h, and of a GRU what it keeps (5 h).
#include "kernels/functions.hh"
#include "kernels/recurrent.hh"

namespace nntile::kernels {
namespace {

constexpr size_t gates_at = 1, state_at = 2, kept_at = 3;

// Rows of a block, in the compute type.
class Rows {
public:
    Rows(const Block& block, Compute compute, size_t last)
        : block_(block),
          last_(last),
          load_(loader(block.dtype, compute)),
          store_(storer(compute, block.dtype)) {}

    explicit operator bool() const { return block_.data; }
    template <class T>
    void read(int64_t row, int64_t n, T* to) const {
        load_(at(row), to, block_.strides[last_], n);
    }
    template <class T>
    void write(int64_t row, int64_t n, const T* from) const {
        if (block_.data) store_(from, at(row), block_.strides[last_], n);
    }

private:
    std::byte* at(int64_t row) const {
        return block_.data + row * block_.strides[0] * size_of(block_.dtype);
    }
    const Block& block_;
    size_t last_;
    Convert load_, store_;
};

// A row of gates with its bias.
template <class T>
void read_biased(const Rows& rows, int64_t row, int64_t n, const T* bias, T* to) {
    rows.read(row, n, to);
    if (bias)
        for (int64_t j = 0; j < n; ++j) to[j] += bias[j];
}

template <class T>
T* read_bias(const Rows& bias, int64_t n, T* to) {
    if (!bias) return nullptr;
    bias.read(0, n, to);
    return to;
}

// LSTM: x, added, cx, x_bias?, added_bias? -> hy, cy, gates; GRU: x, added, hx, x_bias?,
// added_bias? -> hy, kept
template <class T>
void forward(const Args& args, Compute compute, bool gru) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], gates = args.sizes[gates_at], h = args.sizes[state_at];
    const int64_t kept_size = gru ? args.sizes[kept_at] : 0;
    const auto of = [&](size_t k, size_t last) { return Rows(args.blocks[k], compute, last); };
    const Rows x = of(0, gates_at), added = of(1, gates_at), state = of(2, state_at),
               x_bias = of(3, gates_at), added_bias = of(4, gates_at), hy = of(5, state_at),
               second = of(6, gru ? kept_at : state_at);
    thread_local Scratch scratch;
    scratch.begin(4 * padded(gates * sizeof(T)) + 3 * padded(h * sizeof(T)) +
                  padded(kept_size * sizeof(T)));
    T *gate = scratch.take<T>(gates), *other = scratch.take<T>(gates), *before = scratch.take<T>(h),
      *cell = scratch.take<T>(h), *y = scratch.take<T>(h), *keep = scratch.take<T>(kept_size);
    const T* first = read_bias(x_bias, gates, scratch.take<T>(gates));
    const T* last = read_bias(added_bias, gates, scratch.take<T>(gates));
    for (int64_t r = 0; r < n; ++r) {
        read_biased(x, r, gates, first, gate);
        read_biased(added, r, gates, last, other);
        state.read(r, h, before);
        if (gru) {
            std::copy_n(before, h, y);
            std::copy_n(before, h, keep + 4 * h);
            loops.gru(gate, other, h, y, keep);
            second.write(r, kept_size, keep);
        } else {
            for (int64_t j = 0; j < gates; ++j) gate[j] += other[j];
            loops.lstm(gate, before, h, cell, y);
            second.write(r, h, cell);
            of(7, gates_at).write(r, gates, gate);
        }
        hy.write(r, h, y);
    }
}

// dhy?, dcy?, cx, cy, gates -> dgates, dcx
template <class T>
void lstm_backward(const Args& args, Compute compute) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], gates = args.sizes[gates_at], h = args.sizes[state_at];
    const auto of = [&](size_t k, size_t last) { return Rows(args.blocks[k], compute, last); };
    const Rows dhy = of(0, state_at), dcy = of(1, state_at), cx = of(2, state_at),
               cy = of(3, state_at), kept = of(4, gates_at), dgates = of(5, gates_at),
               dcx = of(6, state_at);
    thread_local Scratch scratch;
    scratch.begin(2 * padded(gates * sizeof(T)) + 4 * padded(h * sizeof(T)));
    T *gate = scratch.take<T>(gates), *dgate = scratch.take<T>(gates), *dy = scratch.take<T>(h),
      *dcell = scratch.take<T>(h), *before = scratch.take<T>(h), *cell = scratch.take<T>(h);
    std::fill_n(dy, h, T(0));
    for (int64_t r = 0; r < n; ++r) {
        if (dhy) dhy.read(r, h, dy);
        if (dcy) dcy.read(r, h, dcell);
        else std::fill_n(dcell, h, T(0));
        cx.read(r, h, before);
        cy.read(r, h, cell);
        kept.read(r, gates, gate);
        loops.lstm_backward(gate, before, cell, dy, h, dcell, dgate);
        dgates.write(r, gates, dgate);
        dcx.write(r, h, dcell);
    }
}

// dhy, kept -> dx, dadded, dhx
template <class T>
void gru_backward(const Args& args, Compute compute) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], gates = args.sizes[gates_at], h = args.sizes[state_at];
    const auto of = [&](size_t k, size_t last) { return Rows(args.blocks[k], compute, last); };
    const Rows dhy = of(0, state_at), kept = of(1, kept_at), dx = of(2, gates_at),
               dadded = of(3, gates_at), dhx = of(4, state_at);
    const int64_t kept_size = args.sizes[kept_at];
    thread_local Scratch scratch;
    scratch.begin(2 * padded(gates * sizeof(T)) + padded(h * sizeof(T)) +
                  padded(kept_size * sizeof(T)));
    T *first = scratch.take<T>(gates), *second = scratch.take<T>(gates),
      *dhidden = scratch.take<T>(h), *keep = scratch.take<T>(kept_size);
    for (int64_t r = 0; r < n; ++r) {
        dhy.read(r, h, dhidden);
        kept.read(r, kept_size, keep);
        loops.gru_backward(keep, keep + 4 * h, h, dhidden, first, second);
        dx.write(r, gates, first);
        dadded.write(r, gates, second);
        dhx.write(r, h, dhidden);
    }
}

}  // namespace

int lstm_cell(const Args& args) {
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? forward<double>(args, compute, false)
                           : forward<float>(args, compute, false);
    return 0;
}

int lstm_cell_backward(const Args& args) {
    const Compute compute = compute_of(args.blocks[2].dtype);
    compute == compute_f64 ? lstm_backward<double>(args, compute)
                           : lstm_backward<float>(args, compute);
    return 0;
}

int gru_cell(const Args& args) {
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? forward<double>(args, compute, true)
                           : forward<float>(args, compute, true);
    return 0;
}

int gru_cell_backward(const Args& args) {
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? gru_backward<double>(args, compute)
                           : gru_backward<float>(args, compute);
    return 0;
}

}  // namespace nntile::kernels
