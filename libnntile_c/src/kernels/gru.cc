// SPDX-License-Identifier: BSD-3-Clause
// The steps of a GRU layer, or of a plain one, on a part of the batch; see recurrent.cc.
#include "kernels/functions.hh"
#include "kernels/recurrent.hh"

namespace nntile::kernels {
namespace {

constexpr size_t kept_dim = 4;

// GRU: x, w, bias?, hx -> y, kept; else: x, w, hx -> y
template <class T>
void forward(const Args& args, Compute compute, bool gru) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[2],
                  h = args.sizes[3];
    const auto of = [&](size_t k, size_t last) { return Steps(args.blocks[k], compute, last); };
    const Block none;
    const Steps x = of(0, gate_dim), hx = of(gru ? 3 : 2, hidden_dim),
                y = of(gru ? 4 : 3, hidden_dim);
    const Steps bias(gru ? args.blocks[2] : none, compute, gate_dim);
    const Steps kept(gru ? args.blocks[5] : none, compute, kept_dim);
    const int64_t kept_size = gru ? args.sizes[kept_dim] : 0, hidden_size = gru ? gates : 0;
    thread_local Scratch weights, scratch;
    weights.begin(padded(gates * h * sizeof(T)));
    T* w = weights.take<T>(gates * h);
    read_weight(args.blocks[1], compute, gates, h, w);
    RepeatedProduct<T> product(n, gates, h, w, 1, h, true);
    scratch.begin(product.bytes() + padded(n * gates * sizeof(T)) + padded(n * h * sizeof(T)) +
                  padded(n * hidden_size * sizeof(T)) + padded(hidden_size * sizeof(T)) +
                  padded(n * kept_size * sizeof(T)));
    product.begin(scratch);
    T *gate = scratch.take<T>(n * gates), *hidden = scratch.take<T>(n * h),
      *added = scratch.take<T>(n * hidden_size), *first = scratch.take<T>(hidden_size),
      *keep = scratch.take<T>(n * kept_size);
    std::fill_n(first, hidden_size, T(0));
    if (bias) bias.read(0, 1, gates, first);
    hx.read(0, n, h, hidden);
    for (int64_t s = 0; s < steps; ++s) {
        const int64_t step = args.params[0].i ? steps - 1 - s : s;
        x.read(step, n, gates, gate);
        if (gru) {
            for (int64_t r = 0; r < n; ++r) std::copy_n(first, gates, added + r * gates);
            product(hidden, added);
            for (int64_t r = 0; r < n; ++r)
                loops.gru(gate + r * gates, added + r * gates, h, hidden + r * h,
                          keep + r * kept_size);
            kept.write(step, n, kept_size, keep);
        } else {
            product(hidden, gate);
            loops.rnn(gate, n * h, args.params[1].i != 0, hidden);
        }
        y.write(step, n, h, hidden);
        y.read(step, n, h, hidden);  // the next step reads what was stored, in a short float too
    }
}

// GRU: dy, w, hx, y, kept -> dx, dadded, dhx; else: dy, w, y -> dx, dhx
template <class T>
void backward(const Args& args, Compute compute, bool gru) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[2],
                  h = args.sizes[3];
    const auto of = [&](size_t k, size_t last) { return Steps(args.blocks[k], compute, last); };
    const Block none;
    const Steps dy = of(0, hidden_dim), hx(gru ? args.blocks[2] : none, compute, hidden_dim),
                y = of(gru ? 3 : 2, hidden_dim),
                kept(gru ? args.blocks[4] : none, compute, kept_dim),
                dx = of(gru ? 5 : 3, gate_dim),
                dadded(gru ? args.blocks[6] : none, compute, gate_dim),
                dhx = of(gru ? 7 : 4, hidden_dim);
    const int64_t kept_size = gru ? args.sizes[kept_dim] : 0, hidden_size = gru ? gates : 0;
    thread_local Scratch weights, scratch;
    weights.begin(padded(gates * h * sizeof(T)));
    T* w = weights.take<T>(gates * h);
    read_weight(args.blocks[1], compute, gates, h, w);
    RepeatedProduct<T> product(n, h, gates, w, h, 1, true);
    scratch.begin(product.bytes() + padded(n * gates * sizeof(T)) + 3 * padded(n * h * sizeof(T)) +
                  padded(n * hidden_size * sizeof(T)) + padded(n * kept_size * sizeof(T)));
    product.begin(scratch);
    T *dgate = scratch.take<T>(n * gates), *dhidden = scratch.take<T>(n * h),
      *grad = scratch.take<T>(n * h), *hidden = scratch.take<T>(n * h),
      *dadd = scratch.take<T>(n * hidden_size), *keep = scratch.take<T>(n * kept_size);
    std::fill_n(dhidden, n * h, T(0));
    const auto step_of = [&](int64_t s) { return args.params[0].i ? steps - 1 - s : s; };
    for (int64_t s = steps; s-- > 0;) {
        const int64_t step = step_of(s);
        dy.read(step, n, h, grad);
        for (int64_t j = 0; j < n * h; ++j) dhidden[j] += grad[j];
        if (gru) {
            if (s > 0) y.read(step_of(s - 1), n, h, hidden);
            else hx.read(0, n, h, hidden);
            kept.read(step, n, kept_size, keep);
            for (int64_t r = 0; r < n; ++r)
                loops.gru_backward(keep + r * kept_size, hidden + r * h, h, dhidden + r * h,
                                   dgate + r * gates, dadd + r * gates);
            dadded.write(step, n, gates, dadd);
            product(dadd, dhidden);
        } else {
            y.read(step, n, h, hidden);
            loops.rnn_backward(hidden, dhidden, n * h, args.params[1].i != 0, dgate);
            std::fill_n(dhidden, n * h, T(0));
            product(dgate, dhidden);
        }
        dx.write(step, n, gates, dgate);
    }
    dhx.write(0, n, h, dhidden);
}

template <bool gru>
int run_forward(const Args& args) {
    if (args.sizes[0] == 0) return 0;
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? forward<double>(args, compute, gru)
                           : forward<float>(args, compute, gru);
    return 0;
}
template <bool gru>
int run_backward(const Args& args) {
    if (args.sizes[0] == 0) return 0;
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? backward<double>(args, compute, gru)
                           : backward<float>(args, compute, gru);
    return 0;
}

}  // namespace

int gru_sequence(const Args& args) { return run_forward<true>(args); }
int gru_sequence_backward(const Args& args) { return run_backward<true>(args); }
int rnn_sequence(const Args& args) { return run_forward<false>(args); }
int rnn_sequence_backward(const Args& args) { return run_backward<false>(args); }

}  // namespace nntile::kernels
