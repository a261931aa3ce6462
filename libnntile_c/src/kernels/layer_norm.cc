// SPDX-License-Identifier: BSD-3-Clause
// Layer norm and RMS norm over the last dim, and their gradients. RMS norm takes no mean off, and
// has no bias.
#include <cmath>

#include "kernels/functions.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

// x, weight?, bias? -> y, mean, rstd; not centred: x, weight? -> y, rstd
int forward(const Args& args, bool centred) {
    const int out = centred ? 3 : 2, rstd_at = centred ? 5 : 3;
    Rows rows;
    if (int status = rows.make(args, {out + 1, rstd_at})) return status;
    const RowLoops& loops = rows.loops();
    Line none;
    Line &x = rows.line[0], &w = rows.line[1], &b = centred ? rows.line[2] : none,
         &y = rows.line[out];
    const double d = static_cast<double>(rows.d), eps = args.params[0].f;
    rows.each([&] {
        double sum = 0, squares = 0;
        if (centred)
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
        if (centred) rows.line[out + 1].set_scalar(mean);
        rows.line[rstd_at].set_scalar(rstd);
    });
    return 0;
}

// dy, x, mean (if centred), rstd, weight? -> dx
int backward_input(const Args& args, bool centred) {
    const int rstd_at = centred ? 3 : 2;
    Rows rows;
    if (int status = rows.make(args, {2, rstd_at})) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &x = rows.line[1], &w = rows.line[rstd_at + 1],
         &dx = rows.line[rstd_at + 2];
    const double d = static_cast<double>(rows.d);
    rows.each([&] {
        const double mean = centred ? rows.line[2].scalar() : 0, rstd = rows.line[rstd_at].scalar();
        double sums[2] = {0, 0};
        rows.pieces([&](int64_t at, int64_t n) {
            loops.norm_sums(dy.read(at, n), x.read(at, n), w.read(at, n), n, mean, rstd, sums);
        });
        rows.pieces([&](int64_t at, int64_t n) {
            loops.norm_input(dy.read(at, n), x.read(at, n), w.read(at, n), n, mean, rstd,
                             centred ? sums[0] / d : 0, sums[1] / d, dx.target(at));
            dx.flush(at, n);
        });
    });
    return 0;
}

// dy, x, mean (if centred), rstd -> dw, db (if centred)
int backward_affine(const Args& args, bool centred) {
    const int rstd_at = centred ? 3 : 2, outputs = centred ? 2 : 1;
    Rows rows;
    if (int status = rows.make(args, {2, rstd_at, rstd_at + 1, rstd_at + outputs})) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &x = rows.line[1];
    const bool accumulate = args.params[0].i != 0;
    const size_t last = args.sizes.size() - 1;
    // Panels are read once; rows that lie in place are cheap to come back to, and sums of a piece
    // stay in the cache.
    const int64_t piece = rows.is_packed() ? rows.d : Line::piece;
    // What a line has read from elsewhere is gone when it reads the next row.
    const bool stay = !rows.is_packed() && dy.in_place() && x.in_place();
    const int64_t most = stay ? affine_rows : 1;
    const void *some_dy[affine_rows], *some_x[affine_rows];
    double mean[affine_rows], rstd[affine_rows];
    std::vector<double> sums[3];
    for (auto& s : sums) s.resize(static_cast<size_t>(std::min(piece, rows.d)));
    for (int64_t at = 0; at < rows.d; at += piece) {
        const int64_t n = std::min(piece, rows.d - at);
        for (auto& s : sums) std::fill(s.begin(), s.end(), 0);
        int64_t count = 0;
        const auto add = [&] {
            loops.norm_affine(some_dy, some_x, mean, rstd, count, n, sums[0].data(),
                              sums[1].data());
            count = 0;
        };
        rows.each([&] {
            some_dy[count] = dy.read(at, n);
            some_x[count] = x.read(at, n);
            mean[count] = centred ? rows.line[2].scalar() : 0;
            rstd[count] = rows.line[rstd_at].scalar();
            if (++count == most) add();
        });
        add();
        for (int k = 0; k < outputs; ++k) {
            const Block& out = args.blocks[rstd_at + 1 + k];
            if (!out.data) continue;
            const int64_t stride = out.strides[last];
            std::byte* to = out.data + at * stride * size_of(out.dtype);
            if (accumulate) {
                loader(out.dtype, compute_f64)(to, sums[2].data(), stride, n);
                for (int64_t j = 0; j < n; ++j) sums[k][j] += sums[2][j];
            }
            storer(compute_f64, out.dtype)(sums[k].data(), to, stride, n);
        }
    }
    return 0;
}

}  // namespace

int layer_norm(const Args& args) { return forward(args, true); }
int layer_norm_backward_input(const Args& args) { return backward_input(args, true); }
int layer_norm_backward_affine(const Args& args) { return backward_affine(args, true); }
int rms_norm(const Args& args) { return forward(args, false); }
int rms_norm_backward_input(const Args& args) { return backward_input(args, false); }
int rms_norm_backward_affine(const Args& args) { return backward_affine(args, false); }

}  // namespace nntile::kernels
