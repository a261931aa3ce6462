// SPDX-License-Identifier: BSD-3-Clause
// The steps of an LSTM layer on a part of the batch. The weight is brought into the order of the
// product once for all steps: their products have few rows, and for those that costs as much as the
// product itself.
#include "kernels/recurrent.hh"

#include "kernels/functions.hh"

namespace nntile::kernels {
namespace {

template <class T>
void forward(const Args& args, Compute compute) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[2],
                  h = args.sizes[3];
    const auto of = [&](size_t k, size_t last) { return Steps(args.blocks[k], compute, last); };
    const Steps x = of(0, gate_dim), hx = of(2, hidden_dim), cx = of(3, hidden_dim),
                y = of(4, hidden_dim), cy = of(5, hidden_dim), cells = of(6, hidden_dim),
                kept = of(7, gate_dim);
    thread_local Scratch weights, scratch;
    weights.begin(padded(gates * h * sizeof(T)));
    T* w = weights.take<T>(gates * h);
    read_weight(args.blocks[1], compute, gates, h, w);
    RepeatedProduct<T> product(n, gates, h, w, 1, h, true);
    scratch.begin(product.bytes() + padded(n * gates * sizeof(T)) + 3 * padded(n * h * sizeof(T)));
    product.begin(scratch);
    T *gate = scratch.take<T>(n * gates), *hidden = scratch.take<T>(n * h),
      *before = scratch.take<T>(n * h), *cell = scratch.take<T>(n * h);
    hx.read(0, n, h, hidden);
    cx.read(0, n, h, cell);
    for (int64_t s = 0; s < steps; ++s) {
        const int64_t step = args.params[0].i ? steps - 1 - s : s;
        std::swap(before, cell);
        x.read(step, n, gates, gate);
        product(hidden, gate);
        for (int64_t r = 0; r < n; ++r)
            loops.lstm(gate + r * gates, before + r * h, h, cell + r * h, hidden + r * h);
        y.write(step, n, h, hidden);
        cells.write(step, n, h, cell);
        kept.write(step, n, gates, gate);
        // What the next step reads is what was stored, in a short float too.
        y.read(step, n, h, hidden);
        cells.read(step, n, h, cell);
    }
    cy.write(0, n, h, cell);
}

template <class T>
void backward(const Args& args, Compute compute) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[2],
                  h = args.sizes[3];
    const auto of = [&](size_t k, size_t last) { return Steps(args.blocks[k], compute, last); };
    const Steps dy = of(0, hidden_dim), dcy = of(1, hidden_dim), cx = of(3, hidden_dim),
                cells = of(4, hidden_dim), kept = of(5, gate_dim), dx = of(6, gate_dim),
                dhx = of(7, hidden_dim), dcx = of(8, hidden_dim);
    thread_local Scratch weights, scratch;
    weights.begin(padded(gates * h * sizeof(T)));
    T* w = weights.take<T>(gates * h);
    read_weight(args.blocks[2], compute, gates, h, w);
    RepeatedProduct<T> product(n, h, gates, w, h, 1, false);
    scratch.begin(product.bytes() + 2 * padded(n * gates * sizeof(T)) +
                  5 * padded(n * h * sizeof(T)));
    product.begin(scratch);
    T *gate = scratch.take<T>(n * gates), *dgate = scratch.take<T>(n * gates),
      *dhidden = scratch.take<T>(n * h), *grad = scratch.take<T>(n * h),
      *dcell = scratch.take<T>(n * h), *cell = scratch.take<T>(n * h),
      *before = scratch.take<T>(n * h);
    std::fill_n(dhidden, n * h, T(0));
    std::fill_n(grad, n * h, T(0));
    std::fill_n(dcell, n * h, T(0));
    if (dcy) dcy.read(0, n, h, dcell);
    const auto step_of = [&](int64_t s) { return args.params[0].i ? steps - 1 - s : s; };
    cells.read(step_of(steps - 1), n, h, before);
    for (int64_t s = steps; s-- > 0;) {
        std::swap(before, cell);
        if (s > 0) cells.read(step_of(s - 1), n, h, before);
        else cx.read(0, n, h, before);
        if (dy) dy.read(step_of(s), n, h, grad);
        for (int64_t j = 0; j < n * h; ++j) dhidden[j] += grad[j];
        kept.read(step_of(s), n, gates, gate);
        for (int64_t r = 0; r < n; ++r)
            loops.lstm_backward(gate + r * gates, before + r * h, cell + r * h, dhidden + r * h, h,
                                dcell + r * h, dgate + r * gates);
        dx.write(step_of(s), n, gates, dgate);
        product(dgate, dhidden);
    }
    dhx.write(0, n, h, dhidden);
    dcx.write(0, n, h, dcell);
}

}  // namespace

int lstm_sequence(const Args& args) {
    if (args.sizes[0] == 0) return 0;
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? forward<double>(args, compute) : forward<float>(args, compute);
    return 0;
}

int lstm_sequence_backward(const Args& args) {
    if (args.sizes[0] == 0) return 0;
    const Compute compute = compute_of(args.blocks[2].dtype);
    compute == compute_f64 ? backward<double>(args, compute) : backward<float>(args, compute);
    return 0;
}

}  // namespace nntile::kernels
