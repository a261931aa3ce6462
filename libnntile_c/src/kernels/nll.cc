// SPDX-License-Identifier: BSD-3-Clause
// Negative log-likelihood: rows of log-probabilities over classes, and a class index per row. A
// mean divides by the given total weight here, so that the losses of row tiles can be added.
#include <vector>

#include "kernels/functions.hh"
#include "kernels/refuse.hh"
#include "kernels/row.hh"

namespace nntile::kernels {
namespace {

enum Reduction : int64_t { none, mean, sum };

double element(const Block& b, int64_t offset) {
    if (b.dtype == DType::f32) return reinterpret_cast<const float*>(b.data)[offset];
    double value;
    loader(b.dtype, compute_f64)(b.data + offset * size_of(b.dtype), &value, 1, 1);
    return value;
}
void set_element(const Block& b, int64_t offset, double value) {
    if (b.dtype == DType::f32) {
        reinterpret_cast<float*>(b.data)[offset] = static_cast<float>(value);
        return;
    }
    storer(compute_f64, b.dtype)(&value, b.data + offset * size_of(b.dtype), 1, 1);
}

// The rows of a loss task with the target of each.
struct Targets {
    const Args& args;
    const Block &target, &weight;
    int64_t ignore_index, classes;
    size_t last;
    Space space;

    Targets(const Args& a, int first, int64_t ignore)
        : args(a),
          target(a.blocks[first]),
          weight(a.blocks[first + 1]),
          ignore_index(ignore),
          classes(a.sizes.back()),
          last(a.sizes.size() - 1) {}

    // body(offset(operand), class or -1 for an ignored row, weight)
    template <class Body>
    int each(Body&& body) {
        const int64_t* strides[Rows::max_lines];
        size_t t = 0;
        for (size_t k = 0; k < args.blocks.size(); ++k) {
            if (&args.blocks[k] == &target) t = k;
            strides[k] = args.blocks[k].data ? args.blocks[k].strides : nullptr;
        }
        Args rows = args;
        rows.sizes = args.sizes.first(last);
        if (int status =
                space.make(rows, std::span(strides, args.blocks.size()), {static_cast<int>(t)}))
            return status;
        if (space.empty()) return 0;
        const Convert load = loader(target.dtype, compute_i64);
        const int inner = space.dims - 1;
        std::vector<double> weights(weight.data ? static_cast<size_t>(classes) : 0);
        if (weight.data)
            loader(weight.dtype, compute_f64)(weight.data, weights.data(), weight.strides[last],
                                              classes);
        Walk walk(space, inner);
        do {
            int64_t own[some];
            for (int64_t first = 0; first < space.sizes[inner]; first += some) {
                const int64_t n = std::min(some, space.sizes[inner] - first),
                              step = space.strides[t][inner];
                load(target.data + (walk.offset[t] + first * step) * size_of(target.dtype), own,
                     step, n);
                for (int64_t j = 0; j < n; ++j) {
                    const int64_t c = own[j];
                    const auto offset = [&](int k) {
                        return walk.offset[k] + (first + j) * space.strides[k][inner];
                    };
                    if (c == ignore_index) body(offset, int64_t{-1}, 0.0);
                    else if (c < 0 || c >= classes)
                        return refuse(args, {Refusal::target, c, classes});
                    else body(offset, c, weight.data ? weights[static_cast<size_t>(c)] : 1.0);
                }
            }
        } while (walk.next());
        return 0;
    }

private:
    static constexpr int64_t some = 256;
};

}  // namespace

int nll_loss(const Args& args) {
    const Block &logp = args.blocks[0], &total = args.blocks[3], &y = args.blocks[4];
    const int64_t reduction = args.params[0].i;
    Targets targets(args, 1, args.params[1].i);
    double loss = 0;
    const int status = targets.each([&](auto&& offset, int64_t c, double weight) {
        const double value =
            c < 0 ? 0 : -weight * element(logp, offset(0) + c * logp.strides[targets.last]);
        if (reduction == none) set_element(y, offset(4), value);
        else loss += value;
    });
    if (status || reduction == none) return status;
    if (reduction == mean) loss /= element(total, 0);
    set_element(y, 0, args.params[2].i ? element(y, 0) + loss : loss);
    return 0;
}

int nll_total_weight(const Args& args) {
    Targets targets(args, 0, args.params[0].i);
    double total = 0;
    const int status = targets.each([&](auto&&, int64_t, double weight) { total += weight; });
    if (status) return status;
    const Block& y = args.blocks[2];
    set_element(y, 0, args.params[1].i ? element(y, 0) + total : total);
    return 0;
}

int nll_loss_backward(const Args& args) {
    const Block &dy = args.blocks[0], &total = args.blocks[3], &dx = args.blocks[4];
    Args zero = args;
    const Param value{.f = 0};
    zero.blocks = args.blocks.subspan(4, 1);
    zero.params = std::span(&value, 1);
    if (int status = fill(zero)) return status;
    Targets targets(args, 1, args.params[1].i);
    double divisor = 1;
    if (args.params[0].i == mean) divisor = element(total, 0);
    return targets.each([&](auto&& offset, int64_t c, double weight) {
        if (c < 0) return;
        set_element(dx, offset(4) + c * dx.strides[targets.last],
                    -weight * element(dy, offset(0)) / divisor);
    });
}

}  // namespace nntile::kernels
