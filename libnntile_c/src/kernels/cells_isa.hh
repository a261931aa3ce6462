// SPDX-License-Identifier: BSD-3-Clause
// The formulas of recurrent cells, for one element of the hidden state.
#pragma once

#include "kernels/elementary_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

// The gates become what their functions give.
template <class T>
NNTILE_FN void lstm_of(T& i, T& f, T& g, T& o, T before, T& cell, T& y) {
    i = sigmoid_of(i);
    f = sigmoid_of(f);
    g = tanh_of(g);
    o = sigmoid_of(o);
    cell = f * before + i * g;
    y = o * tanh_of(cell);
}
// dcell: of this step, then of the step before.
template <class T>
NNTILE_FN void lstm_backward_of(T i, T f, T g, T o, T before, T cell, T dy, T& dcell, T& di, T& df,
                                T& dg, T& dout) {
    const T squashed = tanh_of(cell);
    const T dc = dcell + dy * o * (T(1) - squashed * squashed);
    dout = dy * squashed * o * (T(1) - o);
    di = dc * g * i * (T(1) - i);
    df = dc * before * f * (T(1) - f);
    dg = dc * i * (T(1) - g * g);
    dcell = dc * f;
}

// r and z: what the gates get from inputs and state together, then what their functions give.
// hidden: the state before, then after.
template <class T>
NNTILE_FN void gru_of(T& r, T& z, T x, T of_state, T& fresh, T& hidden) {
    r = sigmoid_of(r);
    z = sigmoid_of(z);
    fresh = tanh_of(x + r * of_state);
    hidden = fresh + z * (hidden - fresh);
}
// dhidden: of the state after, then what of it goes to the one before past the gates. The state
// adds dfresh * r to the third gate.
template <class T>
NNTILE_FN void gru_backward_of(T r, T z, T fresh, T of_state, T before, T& dhidden, T& dr, T& dz,
                               T& dfresh) {
    dfresh = dhidden * (T(1) - z) * (T(1) - fresh * fresh);
    dr = dfresh * of_state * r * (T(1) - r);
    dz = dhidden * (before - fresh) * z * (T(1) - z);
    dhidden *= z;
}

template <class T>
NNTILE_FN T rnn_of(T x, bool relu) {
    return relu ? (x < T(0) ? T(0) : x) : tanh_of(x);  // nan stays
}
template <class T>
NNTILE_FN T rnn_backward_of(T y, T dy, bool relu) {
    return relu ? (y <= T(0) ? T(0) : dy) : dy * (T(1) - y * y);
}

}  // namespace nntile::kernels::NNTILE_ISA
