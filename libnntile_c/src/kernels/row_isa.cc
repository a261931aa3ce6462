// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/row.hh"

#include "kernels/cells_isa.hh"
#include "kernels/math_isa.hh"
#include "kernels/vector_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

// By halves, and as vectors: of short rows this is a good part of the time. GCC takes vectors that
// are longer than the processor's apart through memory, so there are none.
template <class V>
double sum_of_eight(const V& x) {
    using Half [[gnu::vector_size(4 * sizeof(double))]] = double;
    const Half h = __builtin_convertvector(__builtin_shufflevector(x, x, 0, 1, 2, 3), Half) +
                   __builtin_convertvector(__builtin_shufflevector(x, x, 4, 5, 6, 7), Half);
    return (h[0] + h[2]) + (h[1] + h[3]);
}
template <class V>
double sum_of_lanes(const V& x) {
    constexpr size_t lanes = sizeof(V) / sizeof(double);
    if constexpr (lanes == 8) return sum_of_eight(x);
    else if constexpr (lanes == 4) return (x[0] + x[2]) + (x[1] + x[3]);
    else return x[0] + x[1];
}
template <class T>
double sum_of(const T (&lane)[64]) {
    using V [[gnu::vector_size(8 * sizeof(T))]] = T;
    V v[8];
    __builtin_memcpy(v, lane, sizeof(v));
    return sum_of_eight(V(((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))));
}

// Sum of term(i), in 64 lanes of T for 2048 terms at a time, then in double.
template <class T, class Term>
double lane_sum(int64_t n, Term&& term) {
    constexpr int64_t lanes = 64, piece = 32 * lanes;
    double total = 0;
    for (int64_t start = 0; start < n; start += piece) {
        const int64_t end = n - start < piece ? n : start + piece;
        alignas(64) T lane[lanes] = {};
        int64_t i = start;
        for (; i + lanes <= end; i += lanes)
#pragma GCC ivdep
            for (int64_t j = 0; j < lanes; ++j) lane[j] += term(i + j);
        const int64_t rest = end - i;
#pragma GCC ivdep
        for (int64_t j = 0; j < rest; ++j) lane[j] += term(i + j);
        total += sum_of(lane);
    }
    return total;
}

// The same of two terms, which read the same: sums[k] += sum of terms k.
template <class T, class Terms>
void lane_sums(int64_t n, double* sums, Terms&& terms) {
    constexpr int64_t lanes = 64, piece = 32 * lanes;
    for (int64_t start = 0; start < n; start += piece) {
        const int64_t end = n - start < piece ? n : start + piece;
        alignas(64) T first[lanes] = {}, second[lanes] = {};
        int64_t i = start;
        for (; i + lanes <= end; i += lanes)
#pragma GCC ivdep
            for (int64_t j = 0; j < lanes; ++j) terms(i + j, first[j], second[j]);
        const int64_t rest = end - i;
#pragma GCC ivdep
        for (int64_t j = 0; j < rest; ++j) terms(i + j, first[j], second[j]);
        sums[0] += sum_of(first);
        sums[1] += sum_of(second);
    }
}

template <class T>
struct Row {
    static const T* in(const void* x) { return static_cast<const T*>(x); }
    static T* out(void* y) { return static_cast<T*>(y); }
    template <class Formula>
    static void each(int64_t n, Formula&& formula) {
#pragma GCC ivdep
        for (int64_t i = 0; i < n; ++i) formula(i);
    }

    // ---- softmax
    static double exp_sum(const void* from, int64_t n, double highest, void* to) {
        const T *x = in(from), max = static_cast<T>(highest);
        T* y = out(to);
        if (!y) return lane_sum<T>(n, [=](int64_t i) { return exp_of(x[i] - max); });
        return lane_sum<T>(n, [=](int64_t i) { return y[i] = exp_of(x[i] - max); });
    }
    static void scale(void* to, int64_t n, double by) {
        T *y = out(to), factor = static_cast<T>(by);
        each(n, [=](int64_t i) { y[i] *= factor; });
    }
    static void exp_scale(const void* from, int64_t n, double highest, double by, void* to) {
        const T *x = in(from), max = static_cast<T>(highest), factor = static_cast<T>(by);
        T* y = out(to);
        each(n, [=](int64_t i) { y[i] = exp_of(x[i] - max) * factor; });
    }
    static void add(const void* from, int64_t n, void* to) {
        const T* x = in(from);
        T* y = out(to);
        each(n, [=](int64_t i) { y[i] += x[i]; });
    }
    static void forbid(const void* from, int64_t n, void* to) {
        const T* x = in(from);
        T* y = out(to);
        each(n, [=](int64_t i) { y[i] += x[i] != T(0) ? T(0) : -infinity<T>; });
    }
    static void shift(const void* from, int64_t n, double highest, double log, void* to) {
        const T *x = in(from), max = static_cast<T>(highest), log_sum = static_cast<T>(log);
        T* y = out(to);
        each(n, [=](int64_t i) { y[i] = (x[i] - max) - log_sum; });
    }
    static double sum(const void* from, int64_t n) {
        const T* x = in(from);
        return lane_sum<T>(n, [=](int64_t i) { return x[i]; });
    }
    static double dot(const void* left, const void* right, int64_t n) {
        const T *a = in(left), *b = in(right);
        return lane_sum<T>(n, [=](int64_t i) { return a[i] * b[i]; });
    }
    static void softmax_backward(const void* grad, const void* value, int64_t n, double d,
                                 void* to) {
        const T *dy = in(grad), *y = in(value), dot = static_cast<T>(d);
        T* dx = out(to);
        each(n, [=](int64_t i) { dx[i] = y[i] * (dy[i] - dot); });
    }
    static double shifted_dot(const void* from, const void* weight, int64_t n, double highest) {
        const T *x = in(from), *w = in(weight), max = static_cast<T>(highest);
        if (!w) return lane_sum<T>(n, [=](int64_t i) { return x[i] - max; });
        return lane_sum<T>(n, [=](int64_t i) { return w[i] * (x[i] - max); });
    }
    static void cross_entropy_backward(const void* from, const void* weight, int64_t n,
                                       double log_sum, double of_all, double of_each, int64_t place,
                                       double target, void* to) {
        const T *x = in(from), *w = in(weight), all = static_cast<T>(of_all),
                share = static_cast<T>(of_each);
        // In two parts: of large logits one would be a coarse number.
        const T log = static_cast<T>(log_sum),
                rest = static_cast<T>(log_sum - static_cast<double>(log));
        T* dx = out(to);
        if (w)
            each(n, [=](int64_t i) { dx[i] = exp_of((x[i] - log) - rest) * all - w[i] * share; });
        else each(n, [=](int64_t i) { dx[i] = exp_of((x[i] - log) - rest) * all - share; });
        if (place >= 0 && place < n) dx[place] -= static_cast<T>(target);
    }
    static void log_softmax_backward(const void* grad, const void* value, int64_t n, double s,
                                     void* to) {
        const T *dy = in(grad), *y = in(value), sum = static_cast<T>(s);
        T* dx = out(to);
        each(n, [=](int64_t i) { dx[i] = dy[i] - exp_of(y[i]) * sum; });
    }

    // ---- layer norm
    static double deviation(const void* from, int64_t n, double m) {
        const T *x = in(from), mean = static_cast<T>(m);
        return lane_sum<T>(n, [=](int64_t i) { return (x[i] - mean) * (x[i] - mean); });
    }
    static void normalize(const void* from, const void* weight, const void* bias, int64_t n,
                          double m, double r, void* to) {
        const T *x = in(from), *w = in(weight), *b = in(bias), mean = static_cast<T>(m),
                rstd = static_cast<T>(r);
        T* y = out(to);
        if (w && b) each(n, [=](int64_t i) { y[i] = (x[i] - mean) * rstd * w[i] + b[i]; });
        else if (w) each(n, [=](int64_t i) { y[i] = (x[i] - mean) * rstd * w[i]; });
        else if (b) each(n, [=](int64_t i) { y[i] = (x[i] - mean) * rstd + b[i]; });
        else each(n, [=](int64_t i) { y[i] = (x[i] - mean) * rstd; });
    }
    static void norm_sums(const void* grad, const void* from, const void* weight, int64_t n,
                          double m, double r, double* sums) {
        const T *dy = in(grad), *x = in(from), *w = in(weight), mean = static_cast<T>(m),
                rstd = static_cast<T>(r);
        if (w)
            lane_sums<T>(n, sums, [=](int64_t i, T& level, T& bend) {
                const T g = dy[i] * w[i];
                level += g;
                bend += g * ((x[i] - mean) * rstd);
            });
        else
            lane_sums<T>(n, sums, [=](int64_t i, T& level, T& bend) {
                level += dy[i];
                bend += dy[i] * ((x[i] - mean) * rstd);
            });
    }
    static void norm_input(const void* grad, const void* from, const void* weight, int64_t n,
                           double m, double r, double g_mean, double gx_mean, void* to) {
        const T *dy = in(grad), *x = in(from), *w = in(weight), mean = static_cast<T>(m),
                rstd = static_cast<T>(r);
        const T a = static_cast<T>(g_mean), b = static_cast<T>(gx_mean);
        T* dx = out(to);
        if (w)
            each(n,
                 [=](int64_t i) { dx[i] = rstd * (dy[i] * w[i] - a - (x[i] - mean) * rstd * b); });
        else each(n, [=](int64_t i) { dx[i] = rstd * (dy[i] - a - (x[i] - mean) * rstd * b); });
    }
    template <int64_t rows>
    static void affine_of(const void* const* grads, const void* const* froms, const double* means,
                          const double* rstds, int64_t n, double* dw, double* db) {
        const T *dy[rows], *x[rows];
        T mean[rows], rstd[rows];
        for (int64_t r = 0; r < rows; ++r) {
            dy[r] = in(grads[r]);
            x[r] = in(froms[r]);
            mean[r] = static_cast<T>(means[r]);
            rstd[r] = static_cast<T>(rstds[r]);
        }
        each(n, [=](int64_t i) {
            T slope = 0, level = 0;
            for (int64_t r = 0; r < rows; ++r) {
                slope += dy[r][i] * ((x[r][i] - mean[r]) * rstd[r]);
                level += dy[r][i];
            }
            dw[i] += static_cast<double>(slope);
            db[i] += static_cast<double>(level);
        });
    }
    static void norm_affine(const void* const* dy, const void* const* x, const double* mean,
                            const double* rstd, int64_t rows, int64_t n, double* dw, double* db) {
        if (rows == affine_rows) return affine_of<affine_rows>(dy, x, mean, rstd, n, dw, db);
        for (int64_t r = 0; r < rows; ++r)
            affine_of<1>(dy + r, x + r, mean + r, rstd + r, n, dw, db);
    }

    // ---- recurrent cells
    static void lstm(void* all, const void* from, int64_t n, void* to, void* result) {
        T *i = out(all), *f = i + n, *g = f + n, *o = g + n, *cell = out(to), *y = out(result);
        const T* before = in(from);
        each(n, [=](int64_t j) { lstm_of(i[j], f[j], g[j], o[j], before[j], cell[j], y[j]); });
    }
    static void lstm_backward(const void* all, const void* from, const void* to, const void* grad,
                              int64_t n, void* through, void* result) {
        const T *i = in(all), *f = i + n, *g = f + n, *o = g + n, *before = in(from),
                *cell = in(to), *dy = in(grad);
        T *dcell = out(through), *di = out(result), *df = di + n, *dg = df + n, *dout = dg + n;
        each(n, [=](int64_t j) {
            lstm_backward_of(i[j], f[j], g[j], o[j], before[j], cell[j], dy[j], dcell[j], di[j],
                             df[j], dg[j], dout[j]);
        });
    }

    static void gru(const void* from, const void* state, int64_t n, void* to, void* keep) {
        const T *x = in(from), *added = in(state);
        T *hidden = out(to), *kept = out(keep);
        each(n, [=](int64_t j) {
            const T of_state = added[2 * n + j];
            kept[j] = x[j] + added[j];
            kept[n + j] = x[n + j] + added[n + j];
            kept[3 * n + j] = of_state;
            gru_of(kept[j], kept[n + j], x[2 * n + j], of_state, kept[2 * n + j], hidden[j]);
        });
    }
    static void gru_backward(const void* keep, const void* from, int64_t n, void* through,
                             void* result, void* state) {
        const T *r = in(keep), *z = r + n, *fresh = z + n, *of_state = fresh + n,
                *before = in(from);
        T *dhidden = out(through), *dx = out(result), *dadded = out(state);
        each(n, [=](int64_t j) {
            T dr, dz, dfresh;
            gru_backward_of(r[j], z[j], fresh[j], of_state[j], before[j], dhidden[j], dr, dz,
                            dfresh);
            dx[j] = dadded[j] = dr;
            dx[n + j] = dadded[n + j] = dz;
            dx[2 * n + j] = dfresh;
            dadded[2 * n + j] = dfresh * r[j];
        });
    }
    static void rnn(const void* from, int64_t n, bool relu, void* to) {
        const T* x = in(from);
        T* y = out(to);
        if (relu) each(n, [=](int64_t j) { y[j] = rnn_of(x[j], true); });
        else each(n, [=](int64_t j) { y[j] = rnn_of(x[j], false); });
    }
    static void rnn_backward(const void* value, const void* grad, int64_t n, bool relu, void* to) {
        const T *y = in(value), *dy = in(grad);
        T* dx = out(to);
        if (relu) each(n, [=](int64_t j) { dx[j] = rnn_backward_of(y[j], dy[j], true); });
        else each(n, [=](int64_t j) { dx[j] = rnn_backward_of(y[j], dy[j], false); });
    }

    // ---- sums of channels: in double, for a variance is a small difference of large sums
    template <bool squares>
    static void moments_of(const T* x, const T* y, int64_t n, double shift, double* sums) {
        constexpr int64_t lanes = vector_bytes / sizeof(double), vectors = 4;
        typedef T Narrow
            __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
        using Wide = typename Vector<double>::type;
        Wide first[vectors] = {}, second[vectors] = {};
        int64_t i = 0;
        for (; i + vectors * lanes <= n; i += vectors * lanes)
#pragma GCC unroll 4
            for (int64_t v = 0; v < vectors; ++v) {
                const T *a = x + i + v * lanes, *b = y + i + v * lanes;
                const Wide value =
                    __builtin_convertvector(*reinterpret_cast<const Narrow*>(a), Wide);
                first[v] += value;
                Wide other = value;
                if constexpr (!squares)
                    other = __builtin_convertvector(*reinterpret_cast<const Narrow*>(b), Wide);
                second[v] += value * (other - shift);
            }
        sums[0] += sum_of_lanes((first[0] + first[2]) + (first[1] + first[3]));
        sums[1] += sum_of_lanes((second[0] + second[2]) + (second[1] + second[3]));
        for (; i < n; ++i) {
            const auto value = static_cast<double>(x[i]);
            sums[0] += value;
            sums[1] += value * (static_cast<double>(y[i]) - shift);
        }
    }
    static void moments(const void* left, const void* right, int64_t n, double shift,
                        double* sums) {
        const T *x = in(left), *y = in(right);
        (x == y ? moments_of<true> : moments_of<false>)(x, y, n, shift, sums);
    }
    // Of so many vectors of channels, which stay in registers.
    template <int vectors, bool squares>
    static void add_moments(const T* x, const T* y, int64_t rows, int64_t x_step, int64_t y_step,
                            const double* shift, double* first, double* second) {
        constexpr int64_t lanes = vector_bytes / sizeof(double);
        typedef T Narrow
            __attribute__((vector_size(lanes * sizeof(T)), aligned(alignof(T)), may_alias));
        using Wide = typename Vector<double>::type;
        Wide sums[vectors], products[vectors], by[vectors];
        for (int v = 0; v < vectors; ++v) {
            sums[v] = products[v] = Wide{};
            by[v] = shift ? *reinterpret_cast<const Wide*>(shift + v * lanes) : Wide{};
        }
        for (int64_t r = 0; r < rows; ++r, x += x_step, y += y_step)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; ++v) {
                const Wide value =
                    __builtin_convertvector(*reinterpret_cast<const Narrow*>(x + v * lanes), Wide);
                Wide other = value;
                if constexpr (!squares)
                    other = __builtin_convertvector(*reinterpret_cast<const Narrow*>(y + v * lanes),
                                                    Wide);
                sums[v] += value;
                products[v] += value * (other - by[v]);
            }
        for (int v = 0; v < vectors; ++v) {
            *reinterpret_cast<Wide*>(first + v * lanes) += sums[v];
            *reinterpret_cast<Wide*>(second + v * lanes) += products[v];
        }
    }
    static void moments_of_each(const void* left, const void* right, int64_t n, int64_t rows,
                                int64_t x_step, int64_t y_step, const double* shift, double* first,
                                double* second) {
        const T *x = in(left), *y = in(right);
        constexpr int64_t lanes = vector_bytes / sizeof(double);
        int64_t j = 0;
        const auto by = [&] { return shift ? shift + j : nullptr; };
        // Of squares each element is converted once.
        const bool squares = x == y && x_step == y_step;
        for (; j + 4 * lanes <= n; j += 4 * lanes)
            (squares ? add_moments<4, true> : add_moments<4, false>)(x + j, y + j, rows, x_step,
                                                                     y_step, by(), first + j,
                                                                     second + j);
        for (; j + lanes <= n; j += lanes)
            (squares ? add_moments<1, true> : add_moments<1, false>)(x + j, y + j, rows, x_step,
                                                                     y_step, by(), first + j,
                                                                     second + j);
        for (; j < n; ++j) {
            double sum = 0, product = 0;
            for (int64_t r = 0; r < rows; ++r) {
                const auto value = static_cast<double>(x[r * x_step + j]);
                sum += value;
                product +=
                    value * (static_cast<double>(y[r * y_step + j]) - (shift ? shift[j] : 0));
            }
            first[j] += sum;
            second[j] += product;
        }
    }

    static void blend(const void* left, const void* right, int64_t n, double p, double q, double r,
                      void* to) {
        const T *a = in(left), *b = in(right);
        T* y = out(to);
        const T f = static_cast<T>(p), g = static_cast<T>(q), h = static_cast<T>(r);
        if (b) each(n, [=](int64_t j) { y[j] = f * a[j] + g * b[j] + h; });
        else each(n, [=](int64_t j) { y[j] = f * a[j] + h; });
    }

    static constexpr RowLoops loops = {exp_sum,
                                       scale,
                                       exp_scale,
                                       add,
                                       forbid,
                                       shift,
                                       sum,
                                       dot,
                                       softmax_backward,
                                       shifted_dot,
                                       cross_entropy_backward,
                                       log_softmax_backward,
                                       deviation,
                                       normalize,
                                       norm_sums,
                                       norm_input,
                                       norm_affine,
                                       lstm,
                                       lstm_backward,
                                       gru,
                                       gru_backward,
                                       rnn,
                                       rnn_backward,
                                       moments,
                                       moments_of_each,
                                       blend};
};

}  // namespace

constinit const RowTables row_tables = {{Row<float>::loops, Row<double>::loops}};

}  // namespace nntile::kernels::NNTILE_ISA
