// SPDX-License-Identifier: BSD-3-Clause
// Group norm and its gradients. Dims: images, groups, channels of a group, pixels; the last two are
// whole.
#include <cmath>

#include "kernels/functions.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

// An operand, channel by channel of the group at which it is.
struct Channels {
    Line line;
    int64_t step = 0, offset = 0;

    void make(const Args& args, size_t k, Compute compute) {
        const Block& b = args.blocks[k];
        line.make(b, compute, b.data && args.sizes[3] != 1 ? b.strides[3] : 1);
        step = b.data ? b.strides[2] : 0;
    }
    void move_to(int64_t c) { line.move_to(offset + c * step); }
};

template <size_t count>
struct Groups {
    Channels of[count];
    Compute compute;
    int64_t channels, pixels;
    Space space;

    int make(const Args& args, DType dtype) {
        compute = compute_of(dtype);
        channels = args.sizes[2];
        pixels = args.sizes[3];
        Dims sizes(args.sizes);
        sizes[2] = sizes[3] = 1;
        Args groups = args;
        groups.sizes = sizes;
        const int64_t* strides[count];
        for (size_t k = 0; k < count; ++k) {
            strides[k] = args.blocks[k].data ? args.blocks[k].strides : nullptr;
            of[k].make(args, k, compute);
        }
        return space.make(groups, strides, {0});
    }
    template <class Body>
    void each(Body&& body) {
        if (space.empty()) return;
        Walk walk(space, space.dims);
        do {
            for (size_t k = 0; k < count; ++k) {
                of[k].offset = walk.offset[k];
                of[k].line.move_to(walk.offset[k]);
            }
            body();
        } while (walk.next());
    }
    double number(size_t k, int64_t c, double absent) {
        if (!of[k].line) return absent;
        of[k].move_to(c);
        return of[k].line.scalar();
    }
    void set(size_t k, int64_t c, double value) {
        of[k].move_to(c);
        of[k].line.set_scalar(value);
    }
    template <class Body>  // body(at, n) for pieces of channel c of the operands below `used`
    void pieces(std::initializer_list<size_t> used, int64_t c, Body&& body) {
        bool whole = true;
        for (size_t k : used) {
            of[k].move_to(c);
            whole = whole && of[k].line.in_place();
        }
        const int64_t step = whole ? pixels : Line::piece;
        for (int64_t at = 0; at < pixels; at += step) body(at, std::min(step, pixels - at));
    }
};

}  // namespace

// x, weight?, bias? -> y, mean, rstd
int group_norm(const Args& args) {
    Groups<6> groups;
    if (int status = groups.make(args, args.blocks[0].dtype)) return status;
    const RowLoops& loops = row_tables().table[groups.compute];
    Line &x = groups.of[0].line, &y = groups.of[3].line;
    const double count = static_cast<double>(groups.channels * groups.pixels),
                 eps = args.params[0].f;
    groups.each([&] {
        double sum = 0, squares = 0;
        for (int64_t c = 0; c < groups.channels; ++c)
            groups.pieces({0}, c,
                          [&](int64_t at, int64_t n) { sum += loops.sum(x.read(at, n), n); });
        const double mean = sum / count;
        for (int64_t c = 0; c < groups.channels; ++c)
            groups.pieces({0}, c, [&](int64_t at, int64_t n) {
                squares += loops.deviation(x.read(at, n), n, mean);
            });
        const double rstd = 1 / std::sqrt(squares / count + eps);
        for (int64_t c = 0; c < groups.channels; ++c) {
            const double scale = rstd * groups.number(1, c, 1),
                         offset = groups.number(2, c, 0) - mean * scale;
            groups.pieces({0, 3}, c, [&](int64_t at, int64_t n) {
                loops.blend(x.read(at, n), nullptr, n, scale, 0, offset, y.target(at));
                y.flush(at, n);
            });
        }
        groups.set(4, 0, mean);
        groups.set(5, 0, rstd);
    });
    return 0;
}

// dy, x, mean, rstd, weight? -> dx, and of each image and channel the sums of dy * (x - mean) *
// rstd and of dy
int group_norm_backward(const Args& args) {
    Groups<8> groups;
    if (int status = groups.make(args, args.blocks[1].dtype)) return status;
    const RowLoops& loops = row_tables().table[groups.compute];
    Line &dy = groups.of[0].line, &x = groups.of[1].line, &dx = groups.of[5].line;
    const double count = static_cast<double>(groups.channels * groups.pixels);
    groups.each([&] {
        const double mean = groups.number(2, 0, 0), rstd = groups.number(3, 0, 0);
        double level = 0,
               bend = 0;  // sums of g and of g * z: g = dy * weight, z = (x - mean) * rstd
        for (int64_t c = 0; c < groups.channels; ++c) {
            double sums[2] = {0, 0};
            groups.pieces({0, 1}, c, [&](int64_t at, int64_t n) {
                loops.norm_sums(dy.read(at, n), x.read(at, n), nullptr, n, mean, rstd, sums);
            });
            const double weight = groups.number(4, c, 1);
            level += weight * sums[0];
            bend += weight * sums[1];
            groups.set(6, c, sums[1]);
            groups.set(7, c, sums[0]);
        }
        // dx = rstd * (g - mean of g - z * mean of g * z)
        const double slope = -rstd * rstd * bend / count,
                     offset = -rstd * level / count - slope * mean;
        for (int64_t c = 0; c < groups.channels; ++c) {
            const double factor = rstd * groups.number(4, c, 1);
            groups.pieces({0, 1, 5}, c, [&](int64_t at, int64_t n) {
                loops.blend(dy.read(at, n), x.read(at, n), n, factor, slope, offset, dx.target(at));
                dx.flush(at, n);
            });
        }
    });
    return 0;
}

}  // namespace nntile::kernels
