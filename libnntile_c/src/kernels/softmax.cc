// SPDX-License-Identifier: BSD-3-Clause
// Softmax and log-softmax over the last dim, and their gradients. y may be x, dx may be dy.
#include <cmath>

#include "kernels/functions.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
int softmax(const Args& args) {
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
