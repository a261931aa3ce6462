// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/panels.hh"

#include "kernels/math_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T>
struct Panel {
    static const T* in(const void* x) { return static_cast<const T*>(x); }

    static void max(const void* from, int64_t n, void* to) {
        const T* x = in(from);
        T* y = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) y[j] = nan_or_max(x[j], y[j]);
    }
    static void exp_sum(const void* from, int64_t n, const void* highest, const int32_t* own,
                        int32_t of_class, double* sum, double* picked) {
        const T *x = in(from), *max = in(highest);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
            const T shifted = x[j] - max[j];
            sum[j] += static_cast<double>(exp_of(shifted));
            picked[j] = own[j] == of_class ? static_cast<double>(shifted) : picked[j];
        }
    }
    static void shifted_sum(const void* from, int64_t n, const void* highest, double weight,
                            double* sum) {
        const T *x = in(from), *max = in(highest);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) sum[j] += weight * static_cast<double>(x[j] - max[j]);
    }
    static void log(int64_t n, double* x) {
        for (int64_t j = 0; j < n; ++j) x[j] = log_of(x[j]);
    }
    static void cross_entropy_backward(const void* from, int64_t n, const void* log_sum,
                                       const void* log_rest, const void* of_all,
                                       const void* of_each, double by, const int32_t* own,
                                       int32_t of_class, const void* of_target, void* to) {
        const T *x = in(from), *log = in(log_sum), *rest = in(log_rest), *all = in(of_all),
                *share = in(of_each), *target = in(of_target), weight = static_cast<T>(by);
        T* dx = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
            const T value = exp_of((x[j] - log[j]) - rest[j]) * all[j] - weight * share[j];
            const T less = own[j] == of_class ? target[j] : T(0);
            dx[j] = own[j] < 0 ? T(0) : value - less;
        }
    }

    // ---- softmax
    // sum[j] += the sum of term(i, j), for i < some <= panel_terms
    template <class Term>
    static void add_up(int64_t some, int64_t n, double* sum, Term&& term) {
        if (some == panel_terms) {
#pragma GCC ivdep
            for (int64_t j = 0; j < n; ++j) {
                T all = 0;
                for (int64_t i = 0; i < panel_terms; ++i) all += term(i, j);
                sum[j] += static_cast<double>(all);
            }
            return;
        }
        for (int64_t i = 0; i < some; ++i)
#pragma GCC ivdep
            for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<double>(term(i, j));
    }
    static void exp_shift(const void* from, int64_t x_step, int64_t some, int64_t n,
                          const void* highest, void* to, int64_t y_step, double* sum) {
        const T *x = in(from), *max = in(highest);
        T* y = static_cast<T*>(to);
        if (y)
            add_up(some, n, sum, [=](int64_t i, int64_t j) {
                return y[i * y_step + j] = exp_of(x[i * x_step + j] - max[j]);
            });
        else
            add_up(some, n, sum,
                   [=](int64_t i, int64_t j) { return exp_of(x[i * x_step + j] - max[j]); });
    }
    static void scale(int64_t n, const void* by, void* to) {
        const T* factor = in(by);
        T* y = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) y[j] *= factor[j];
    }
    static void shift(const void* from, int64_t n, const void* highest, const void* log, void* to) {
        const T *x = in(from), *max = in(highest), *log_sum = in(log);
        T* y = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - max[j]) - log_sum[j];
    }
    static void dot(const void* left, int64_t a_step, const void* right, int64_t b_step,
                    int64_t some, int64_t n, double* sum) {
        const T *a = in(left), *b = in(right);
        if (b)
            add_up(some, n, sum,
                   [=](int64_t i, int64_t j) { return a[i * a_step + j] * b[i * b_step + j]; });
        else add_up(some, n, sum, [=](int64_t i, int64_t j) { return a[i * a_step + j]; });
    }
    static void softmax_backward(const void* grad, const void* value, int64_t n, const void* of,
                                 void* to) {
        const T *dy = in(grad), *y = in(value), *dot = in(of);
        T* dx = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) dx[j] = y[j] * (dy[j] - dot[j]);
    }
    static void log_softmax_backward(const void* grad, const void* value, int64_t n, const void* of,
                                     void* to) {
        const T *dy = in(grad), *y = in(value), *sum = in(of);
        T* dx = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) dx[j] = dy[j] - exp_of(y[j]) * sum[j];
    }

    // In blocks, the last one filled up: see map_isa.cc.
    static constexpr int64_t block = 16;
    template <bool two, bool each>
    [[gnu::noinline]] static void blend_blocks(const T* a, const T* b, int64_t n, const T* p,
                                               const T* q, const T* s, const T* r, T* y) {
        for (int64_t i = 0; i < n; i += block) {
#pragma GCC ivdep
#pragma GCC unroll 1  // or, with AVX2, it is taken apart before it is seen to be one of vectors
            for (int64_t j = 0; j < block; ++j) {
                const int64_t k = each ? i + j : 0;
                if constexpr (two) y[i + j] = p[k] * a[i + j] + (q[k] * (b[i + j] - s[k]) + r[k]);
                else y[i + j] = p[k] * a[i + j] + r[k];
            }
        }
    }
    template <bool two, bool each>
    static void blend_of(const T* a, const T* b, int64_t n, const T* p, const T* q, const T* s,
                         const T* r, T* y) {
        const int64_t done = n / block * block, rest = n - done;
        blend_blocks<two, each>(a, b, done, p, q, s, r, y);
        if (rest == 0) return;
        alignas(64) T room[7][block] = {};
        const auto take = [&](int k, const T* x, bool needed) {
            if (!needed) return x;
            for (int64_t j = 0; j < rest; ++j) room[k][j] = x[done + j];
            return static_cast<const T*>(room[k]);
        };
        blend_blocks<two, each>(take(0, a, true), take(1, b, two), block, take(2, p, each),
                                take(3, q, two && each), take(4, s, two && each), take(5, r, each),
                                room[6]);
        for (int64_t j = 0; j < rest; ++j) y[done + j] = room[6][j];
    }
    static void blend(const void* first, const void* second, int64_t n, bool each, const void* by,
                      const void* by_second, const void* shift, const void* level, void* to) {
        const auto run = [&](auto loop) {
            loop(in(first), in(second), n, in(by), in(by_second), in(shift), in(level),
                 static_cast<T*>(to));
        };
        if (second) run(each ? blend_of<true, true> : blend_of<true, false>);
        else run(each ? blend_of<false, true> : blend_of<false, false>);
    }

    static constexpr PanelLoops loops = {max,
                                         exp_sum,
                                         shifted_sum,
                                         log,
                                         cross_entropy_backward,
                                         exp_shift,
                                         scale,
                                         shift,
                                         dot,
                                         softmax_backward,
                                         log_softmax_backward,
                                         blend};
};

}  // namespace

constinit const PanelTables panel_tables = {{Panel<float>::loops, Panel<double>::loops}};

}  // namespace nntile::kernels::NNTILE_ISA
