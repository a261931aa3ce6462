// SPDX-License-Identifier: BSD-3-Clause
// Cross entropy of logits and classes. A row of logits is read from memory once each way: its
// passes find it in the cache. What is kept of it is the logarithm of its sum of exponentials, from
// which the gradient is made anew. Where rows lie beside each other, as the pixels of images, a
// panel of them goes from class to class.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/functions.hh"
#include "kernels/panels.hh"
#include "kernels/refuse.hh"
#include "kernels/row.hh"
#include "kernels/scratch.hh"
#include "kernels/transpose.hh"

namespace nntile::kernels {
namespace {

int refuse_class(const Args& args, int64_t target, int64_t classes) {
    return refuse(args, {Refusal::target, target, classes});
}

// What both ways ask of a row: its class, and the weight of it and of all classes.
class Classes {
public:
    Classes(const Args& args, Rows& rows, Line& target, Line& weight, int64_t ignore_index,
            double smoothing)
        : args_(args),
          rows_(rows),
          target_(target),
          weight_(weight),
          ignore_index_(ignore_index),
          share(smoothing / static_cast<double>(rows.d)),
          own(1 - smoothing) {
        if (share == 0) return;
        if (!weight) {
            of_all = static_cast<double>(rows.d);
            return;
        }
        rows.pieces(
            [&](int64_t at, int64_t n) { of_all += rows.loops().sum(weight.read(at, n), n); });
    }

    // Of the row at which the lines are; -1: ignored.
    int64_t at() {
        const int64_t c = target_.integer();
        if (c == ignore_index_) return -1;
        if (c < 0 || c >= rows_.d) status = refuse_class(args_, c, rows_.d);
        return status ? -1 : c;
    }
    double weight_of(int64_t c) const { return weight_ ? weight_.element(c) : 1; }

private:
    const Args& args_;
    Rows& rows_;
    Line &target_, &weight_;
    const int64_t ignore_index_;

public:
    const double share;  // of label smoothing: what each class gets
    const double own;    // what is left to the target's
    double of_all = 0;   // sum of weights, where classes share
    int status = 0;
};

// ---- panels

bool has_short_rows(const Args& args) {
    constexpr int64_t short_row = 64;
    return args.sizes.back() <= short_row;
}

// Neighbouring rows are nearer than neighbouring classes of x, or rows are too short for loops of
// their own.
bool by_panels(const Args& args, size_t x) {
    if (has_short_rows(args)) return true;
    const Block& b = args.blocks[x];
    const size_t last = args.sizes.size() - 1;
    int64_t nearest = 0;
    for (size_t d = 0; d < last; ++d)
        if (args.sizes[d] > 1 && b.strides[d] > 0 && (nearest == 0 || b.strides[d] < nearest))
            nearest = b.strides[d];
    return nearest > 0 && args.sizes[last] > 1 && nearest < b.strides[last] &&
           args.sizes[last] <= std::numeric_limits<int32_t>::max();
}

// Some rows of the operands of a task, each operand with one element of each row, or with one of
// each row and class.
template <class T, size_t count>
struct RowPanel {
    static constexpr int64_t most = 256;
    static constexpr Compute compute = sizeof(T) == 4 ? compute_f32 : compute_f64;
    const Args& args;
    const int64_t ignore_index, classes;
    const double share, own;  // of label smoothing, as in Classes
    const Block *target, *weight;
    std::vector<double> weights;  // of the classes
    double of_all = 0;
    Space space;
    // Of the panel: first element and step of each operand, and rows. These are `runs` of `run`
    // rows each, so far apart in an operand of rows; those of rows and classes have them as one
    // run.
    int64_t at[count], across[count], apart[count], runs = 1, run = 0, n = 0;
    int64_t targets[most];
    int32_t own_class[most];
    alignas(64) T buffer[most];
    static constexpr int64_t row = most + 16;  // of what is turned; no power of two
    std::unique_ptr<T[]> turned[count];

    RowPanel(const Args& a, size_t target_at)
        : args(a),
          ignore_index(a.params[0].i),
          classes(a.sizes.back()),
          share(a.params[1].f / static_cast<double>(classes)),
          own(1 - a.params[1].f),
          target(&a.blocks[target_at]),
          weight(&a.blocks[target_at + 1]),
          weights(static_cast<size_t>(classes), 1.0) {
        if (weight->data)
            loader(weight->dtype, compute_f64)(weight->data, weights.data(),
                                               weight->strides[a.sizes.size() - 1], classes);
        for (double w : weights) of_all += w;
        if (share == 0) of_all = 0;
    }
    // x and, if there is one, the operand that gets its gradient have an element of each class.
    template <class Body>
    int each(size_t x, size_t dx, Body&& body) {
        const int64_t* strides[count];
        for (size_t k = 0; k < count; ++k)
            strides[k] = args.blocks[k].data ? args.blocks[k].strides : nullptr;
        Args rows = args;
        rows.sizes = args.sizes.first(args.sizes.size() - 1);
        if (int status = space.make(rows, strides, {static_cast<int>(x)})) return status;
        if (space.empty()) return 0;
        const int inner = space.dims - 1;
        const bool two = short_runs(inner, x) && short_runs(inner, dx);
        turn(x, inner);
        turn(dx, inner);
        const int outer = two ? inner - 1 : inner;
        const int64_t length = two ? space.sizes[inner] : 1, step = most / length;
        Walk walk(space, outer);
        do {
            for (int64_t first = 0; first < space.sizes[outer]; first += step) {
                const int64_t taken = std::min(step, space.sizes[outer] - first);
                runs = two ? taken : 1;
                run = two ? length : taken;
                n = runs * run;
                for (size_t k = 0; k < count; ++k) {
                    across[k] = space.strides[k][inner];
                    apart[k] = space.strides[k][outer];
                    at[k] = walk.offset[k] + first * apart[k];
                }
                if (int status = read_classes(static_cast<size_t>(target - args.blocks.data())))
                    return status;
                if (turned[x])
                    transpose_of(sizeof(T))(place(x, 0), across[x], turned[x].get(), row, classes,
                                            n);
                body();
                if (dx != x && turned[dx])
                    transpose_of(sizeof(T))(turned[dx].get(), row, place(dx, 0), across[dx], n,
                                            classes);
            }
        } while (walk.next());
        return 0;
    }
    const void* read(size_t k, int64_t c) {  // of class c
        if (is_there(k)) return target_of(k, c);
        loader(args.blocks[k].dtype, compute)(place(k, c), buffer, across[k], n);
        return buffer;
    }
    void* target_of(size_t k, int64_t c) {
        if (turned[k]) return turned[k].get() + c * row;
        return is_there(k) ? static_cast<void*>(place(k, c)) : buffer;
    }
    void flush(size_t k, int64_t c) {
        if (!is_there(k)) storer(compute, args.blocks[k].dtype)(buffer, place(k, c), across[k], n);
    }
    void numbers(size_t k, double* to) const { load(k, compute_f64, to); }  // one of each row
    void set_numbers(size_t k, const double* from) const {
        const Block& b = args.blocks[k];
        const Convert store = storer(compute_f64, b.dtype);
        std::byte* to = b.data + at[k] * size_of(b.dtype);
        double column[most];
        if (runs == 1) return store(from, to, across[k], n);
        for (int64_t i = 0; i < run; ++i) {
            for (int64_t r = 0; r < runs; ++r) column[r] = from[r * run + i];
            store(column, to + i * across[k] * size_of(b.dtype), apart[k], runs);
        }
    }
    double weight_of(int64_t j) const {
        return own_class[j] < 0 ? 0 : weights[static_cast<size_t>(own_class[j])];
    }

private:
    // The nearest rows are few, as those of a batch that lies innermost, and with the next dim they
    // are one run.
    bool short_runs(int inner, size_t k) const {
        constexpr int64_t few = 32;
        return inner > 0 && space.sizes[inner] <= few &&
               space.strides[k][inner - 1] == space.sizes[inner] * space.strides[k][inner];
    }
    // Classes beside each other: a panel of them is transposed at once.
    void turn(size_t k, int inner) {
        if (classes < 2 || args.blocks[k].strides[args.sizes.size() - 1] != 1 ||
            space.strides[k][inner] < classes || args.blocks[k].dtype != dtype_of(compute))
            return;
        turned[k].reset(new T[static_cast<size_t>(classes * row)]);
    }
    bool is_there(size_t k) const {
        return turned[k] || (across[k] == 1 && args.blocks[k].dtype == dtype_of(compute));
    }
    std::byte* place(size_t k, int64_t c) const {
        const Block& b = args.blocks[k];
        return b.data + (at[k] + c * b.strides[args.sizes.size() - 1]) * size_of(b.dtype);
    }
    template <class U>
    void load(size_t k, Compute as, U* to) const {
        const Block& b = args.blocks[k];
        const Convert load = loader(b.dtype, as);
        const std::byte* from = b.data + at[k] * size_of(b.dtype);
        U column[most];
        if (runs == 1) return load(from, to, across[k], n);
        for (int64_t i = 0; i < run; ++i) {
            load(from + i * across[k] * size_of(b.dtype), column, apart[k], runs);
            for (int64_t r = 0; r < runs; ++r) to[r * run + i] = column[r];
        }
    }
    int read_classes(size_t k) {
        load(k, compute_i64, targets);
        for (int64_t j = 0; j < n; ++j) {
            const int64_t c = targets[j];
            if (c != ignore_index && (c < 0 || c >= classes)) return refuse_class(args, c, classes);
            own_class[j] = c == ignore_index ? -1 : static_cast<int32_t>(c);
        }
        return 0;
    }
};

double number(const Block& b, double absent) {
    double value = absent;
    if (b.data) loader(b.dtype, compute_f64)(b.data, &value, 1, 1);
    return value;
}

template <class T>
int forward_of_panels(const Args& args) {
    using Rows = RowPanel<T, 6>;
    Rows p(args, 1);
    const PanelLoops& loops = panel_tables().table[Rows::compute];
    const double divisor = number(args.blocks[3], 1);
    return p.each(0, 0, [&] {
        alignas(64) T max[Rows::most];
        alignas(64) double sum[Rows::most] = {}, picked[Rows::most] = {}, shared[Rows::most] = {};
        std::fill_n(max, p.n, -std::numeric_limits<T>::infinity());
        for (int64_t c = 0; c < p.classes; ++c) loops.max(p.read(0, c), p.n, max);
        for (int64_t c = 0; c < p.classes; ++c) {
            const void* x = p.read(0, c);
            loops.exp_sum(x, p.n, max, p.own_class, static_cast<int32_t>(c), sum, picked);
            if (p.share != 0)
                loops.shifted_sum(x, p.n, max, p.weights[static_cast<size_t>(c)], shared);
        }
        loops.log(p.n, sum);
        double log_sums[Rows::most];
        for (int64_t j = 0; j < p.n; ++j) {
            double loss = 0;
            if (p.own_class[j] >= 0) {
                loss = p.own * p.weight_of(j) * (sum[j] - picked[j]);
                if (p.share != 0) loss += p.share * (sum[j] * p.of_all - shared[j]);
            }
            log_sums[j] = static_cast<double>(max[j]) + sum[j];
            sum[j] = loss / divisor;
        }
        p.set_numbers(4, sum);
        p.set_numbers(5, log_sums);
    });
}

template <class T>
int backward_of_panels(const Args& args) {
    using Rows = RowPanel<T, 7>;
    Rows p(args, 2);
    const PanelLoops& loops = panel_tables().table[Rows::compute];
    const double divisor = number(args.blocks[5], 1);
    return p.each(1, 6, [&] {
        double log_sums[Rows::most], slopes[Rows::most];
        alignas(64) T log[Rows::most], rest[Rows::most], all[Rows::most], share[Rows::most],
            target[Rows::most];
        p.numbers(0, slopes);
        p.numbers(4, log_sums);
        for (int64_t j = 0; j < p.n; ++j) {
            const double slope = slopes[j] / divisor, of_target = slope * p.own * p.weight_of(j);
            log[j] = static_cast<T>(log_sums[j]);
            rest[j] = static_cast<T>(log_sums[j] - static_cast<double>(log[j]));
            target[j] = static_cast<T>(of_target);
            share[j] = static_cast<T>(slope * p.share);
            all[j] = static_cast<T>(of_target + slope * p.share * p.of_all);
        }
        for (int64_t c = 0; c < p.classes; ++c) {
            loops.cross_entropy_backward(p.read(1, c), p.n, log, rest, all, share,
                                         p.share == 0 ? 0 : p.weights[static_cast<size_t>(c)],
                                         p.own_class, static_cast<int32_t>(c), target,
                                         p.target_of(6, c));
            p.flush(6, c);
        }
    });
}

constexpr size_t most_reordered = 8 << 20;  // bytes

// Rows that are neighbours in x are none in dx: one of them would be walked by long strides, class
// after class.
bool lies_across(const Args& args, const Block& x, const Block& dx) {
    const auto nearest = [&](const Block& b) {
        size_t best = args.sizes.size();
        for (size_t d = 0; d + 1 < args.sizes.size(); ++d)
            if (args.sizes[d] > 1 && b.strides[d] > 0 &&
                (best == args.sizes.size() || b.strides[d] < b.strides[best]))
                best = d;
        return best;
    };
    size_t bytes = size_of(x.dtype);
    for (int64_t n : args.sizes) bytes *= static_cast<size_t>(n);
    return nearest(x) != nearest(dx) && bytes > 0 && bytes <= most_reordered;
}
int backward_in_order(const Args& args, size_t x, size_t dx) {
    SmallVector<int64_t, 6> strides(args.sizes), order;  // dims, the nearest in dx first
    for (size_t d = 0; d < strides.size(); ++d) order.push_back(static_cast<int64_t>(d));
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return args.blocks[dx].strides[a] < args.blocks[dx].strides[b];
    });
    int64_t count = 1;
    for (int64_t d : order) {
        strides[static_cast<size_t>(d)] = count;
        count *= args.sizes[static_cast<size_t>(d)];
    }
    std::vector<Block> blocks(args.blocks.begin(), args.blocks.end());
    thread_local Scratch scratch;
    const auto bytes = static_cast<size_t>(count * size_of(blocks[x].dtype));
    scratch.begin(padded(bytes));
    const Block moved[] = {blocks[x], {scratch.take(bytes), blocks[x].dtype, strides.data()}};
    Args part = args;
    part.blocks = moved;
    if (int status = copy(part)) return status;
    blocks[x] = moved[1];
    part.blocks = blocks;
    return cross_entropy_backward(part);
}

}  // namespace

int cross_entropy(const Args& args) {
    if (by_panels(args, 0))
        return args.blocks[0].dtype == DType::f64 ? forward_of_panels<double>(args)
                                                  : forward_of_panels<float>(args);
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
    // Rows of x are packed where the gradient lies by rows, which a panel would write an element of
    // each at a time.
    const bool panels = by_panels(args, 1) && by_panels(args, 6);
    if (panels && lies_across(args, args.blocks[1], args.blocks[6]))
        return backward_in_order(args, 1, 6);
    if (panels)
        return args.blocks[1].dtype == DType::f64 ? backward_of_panels<double>(args)
                                                  : backward_of_panels<float>(args);
    Rows rows;
    if (int status = rows.make(args, {0, 2, 4, 5})) return status;
    const RowLoops& loops = rows.loops();
    Line &dy = rows.line[0], &x = rows.line[1], &weight = rows.line[3], &dx = rows.line[6];
    Classes classes(args, rows, rows.line[2], weight, args.params[0].i, args.params[1].f);
    const double divisor = rows.line[5] ? rows.line[5].scalar() : 1;
    rows.each([&] {
        const int64_t c = classes.at();
        const double slope = c < 0 ? 0 : dy.scalar() / divisor;
        const double target = c < 0 ? 0 : slope * classes.own * classes.weight_of(c),
                     share = slope * classes.share;
        const double all = target + share * classes.of_all, log_sum = rows.line[4].scalar();
        rows.pieces([&](int64_t at, int64_t n) {
            if (c < 0) {
                std::memset(dx.target(at), 0, n * size_of(dtype_of(rows.compute)));
            } else {
                loops.cross_entropy_backward(x.read(at, n),
                                             share == 0 ? nullptr : weight.read(at, n), n, log_sum,
                                             all, share, c - at, target, dx.target(at));
            }
            dx.flush(at, n);
        });
    });
    return classes.status;
}

}  // namespace nntile::kernels
