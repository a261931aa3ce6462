// SPDX-License-Identifier: BSD-3-Clause
// Layer norm over the last dim, and its gradients.
#include <cmath>

#include "kernels/functions.hh"
#include "kernels/row.hh"

namespace nntile::kernels {

int layer_norm(const Args& args) {
    Rows rows;
    if (int status = rows.make(args, {4, 5})) return status;
    const RowLoops& loops = rows.loops();
    Line &x = rows.line[0], &w = rows.line[1], &b = rows.line[2], &y = rows.line[3];
    const double d = static_cast<double>(rows.d), eps = args.params[0].f;
    rows.each([&] {
        double sum = 0, squares = 0;
        rows.pieces([&](int64_t at, int64_t n) { sum += loops.sum(x.read(at, n), n); });
        const double mean = sum / d;
        rows.pieces(
            [&](int64_t at, int64_t n) { squares += loops.deviation(x.read(at, n), n, mean); });
        const double rstd = 1 / std::sqrt(squares / d + eps);
        rows.pieces([&](int64_t at, int64_t n) {
            loops.normalize(x.read(at, n), w.read(at, n), b.read(at, n), n, mean, rstd,
                            y.target(at));
            y.flush(at, n);
        });
        rows.line[4].set_scalar(mean);
        rows.line[5].set_scalar(rstd);
    });
    return 0;
}

int layer_norm_backward_input(const Args& args) {
    Rows rows;
    if (int status = rows.make(args, {2, 3})) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &x = rows.line[1], &w = rows.line[4], &dx = rows.line[5];
    const double d = static_cast<double>(rows.d);
    rows.each([&] {
        const double mean = rows.line[2].scalar(), rstd = rows.line[3].scalar();
        double sums[2] = {0, 0};
        rows.pieces([&](int64_t at, int64_t n) {
            loops.norm_sums(dy.read(at, n), x.read(at, n), w.read(at, n), n, mean, rstd, sums);
        });
        rows.pieces([&](int64_t at, int64_t n) {
            loops.norm_input(dy.read(at, n), x.read(at, n), w.read(at, n), n, mean, rstd,
                             sums[0] / d, sums[1] / d, dx.target(at));
            dx.flush(at, n);
        });
    });
    return 0;
}

int layer_norm_backward_affine(const Args& args) {
    Rows rows;
    if (int status = rows.make(args, {2, 3, 4, 5})) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &x = rows.line[1];
    const bool accumulate = args.params[0].i != 0;
    const size_t last = args.sizes.size() - 1;
    for (int64_t at = 0; at < rows.d; at += Line::piece) {
        const int64_t n = std::min(Line::piece, rows.d - at);
        double sums[2][Line::piece] = {};
        rows.each([&] {
            loops.norm_affine(dy.read(at, n), x.read(at, n), n, rows.line[2].scalar(),
                              rows.line[3].scalar(), sums[0], sums[1]);
        });
        for (int k = 0; k < 2; ++k) {
            const Block& out = args.blocks[4 + k];
            if (!out.data) continue;
            const int64_t stride = out.strides[last];
            std::byte* to = out.data + at * stride * size_of(out.dtype);
            double before[Line::piece] = {};
            if (accumulate) loader(out.dtype, compute_f64)(to, before, stride, n);
            for (int64_t j = 0; j < n; ++j) sums[k][j] += before[j];
            storer(compute_f64, out.dtype)(sums[k], to, stride, n);
        }
    }
    return 0;
}

}  // namespace nntile::kernels
