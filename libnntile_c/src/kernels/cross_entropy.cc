// SPDX-License-Identifier: BSD-3-Clause
// Cross entropy of logits and classes. A row of logits is read from memory once each way: its passes find it in the
// cache. What is kept of it is the logarithm of its sum of exponentials, from which the gradient is made anew.
#include <cinttypes>
#include <cmath>
#include <cstring>

#include "base/error.hh"
#include "kernels/functions.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

// What both ways ask of a row: its class, and the weight of it and of all classes.
class Classes {
public:
    Classes(const Args& args, Rows& rows, Line& target, Line& weight, int64_t ignore_index, double smoothing)
        : args_(args), rows_(rows), target_(target), weight_(weight), ignore_index_(ignore_index),
          share(smoothing / static_cast<double>(rows.d)), own(1 - smoothing) {
        if (share == 0) return;
        if (!weight) {
            of_all = static_cast<double>(rows.d);
            return;
        }
        rows.pieces([&](int64_t at, int64_t n) { of_all += rows.loops().sum(weight.read(at, n), n); });
    }

    // Of the row at which the lines are; -1: ignored.
    int64_t at() {
        const int64_t c = target_.integer();
        if (c == ignore_index_) return -1;
        if (c < 0 || c >= rows_.d)
            status = fail_task(args_, static_cast<int>(Status::index_error),
                               "cross_entropy: target %" PRId64 " is out of range [0, %" PRId64 ")", c, rows_.d);
        return status ? -1 : c;
    }
    double weight_of(int64_t c) const { return weight_ ? weight_.element(c) : 1; }

private:
    const Args& args_;
    Rows& rows_;
    Line &target_, &weight_;
    const int64_t ignore_index_;

public:
    const double share;     // of label smoothing: what each class gets
    const double own;       // what is left to the target's
    double of_all = 0;      // sum of weights, where classes share
    int status = 0;
};

}  // namespace

int cross_entropy(const Args& args) {
    Rows rows;
    if (int status = rows.make(args, {1, 3, 4, 5})) return status;
    const RowLoops& loops = rows.loops();
    Line &x = rows.line[0], &weight = rows.line[2], &total = rows.line[3];
    Classes classes(args, rows, rows.line[1], weight, args.params[0].i, args.params[1].f);
    const double divisor = total ? total.scalar() : 1;
    rows.each([&] {
        const int64_t c = classes.at();
        const double max = row_max(rows, x);
        double sum = 0, shared = 0;
        rows.pieces([&](int64_t at, int64_t n) {
            const void* values = x.read(at, n);
            sum += loops.exp_sum(values, n, max, nullptr);
            if (classes.share != 0) shared += loops.shifted_dot(values, weight.read(at, n), n, max);
        });
        const double log_sum = std::log(sum);
        double loss = 0;
        if (c >= 0) {
            loss = classes.own * classes.weight_of(c) * (log_sum - (x.element(c) - max));
            if (classes.share != 0) loss += classes.share * (log_sum * classes.of_all - shared);
        }
        rows.line[4].set_scalar(loss / divisor);
        rows.line[5].set_scalar(max + log_sum);
    });
    return classes.status;
}

int cross_entropy_backward(const Args& args) {
    Rows rows;
    if (int status = rows.make(args, {0, 2, 4, 5})) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &x = rows.line[1], &weight = rows.line[3], &dx = rows.line[6];
    Classes classes(args, rows, rows.line[2], weight, args.params[0].i, args.params[1].f);
    const double divisor = rows.line[5] ? rows.line[5].scalar() : 1;
    rows.each([&] {
        const int64_t c = classes.at();
        const double slope = c < 0 ? 0 : dy.scalar() / divisor;
        const double target = c < 0 ? 0 : slope * classes.own * classes.weight_of(c), share = slope * classes.share;
        const double all = target + share * classes.of_all, log_sum = rows.line[4].scalar();
        rows.pieces([&](int64_t at, int64_t n) {
            if (c < 0) {
                std::memset(dx.target(at), 0, n * size_of(dtype_of(rows.compute)));
            } else {
                loops.cross_entropy_backward(x.read(at, n), share == 0 ? nullptr : weight.read(at, n), n, log_sum, all,
                                             share, c - at, target, dx.target(at));
            }
            dx.flush(at, n);
        });
    });
    return classes.status;
}

}  // namespace nntile::kernels
