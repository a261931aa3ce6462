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
    static void exp_sum(const void* from, int64_t n, const void* highest, const int32_t* own, int32_t of_class,
                        double* sum, double* picked) {
        const T *x = in(from), *max = in(highest);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
            const T shifted = x[j] - max[j];
            sum[j] += static_cast<double>(exp_of(shifted));
            picked[j] = own[j] == of_class ? static_cast<double>(shifted) : picked[j];
        }
    }
    static void shifted_sum(const void* from, int64_t n, const void* highest, double weight, double* sum) {
        const T *x = in(from), *max = in(highest);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) sum[j] += weight * static_cast<double>(x[j] - max[j]);
    }
    static void log(int64_t n, double* x) {
        for (int64_t j = 0; j < n; ++j) x[j] = log_of(x[j]);
    }
    static void cross_entropy_backward(const void* from, int64_t n, const void* log_sum, const void* log_rest,
                                       const void* of_all, const void* of_each, double by, const int32_t* own,
                                       int32_t of_class, const void* of_target, void* to) {
        const T *x = in(from), *log = in(log_sum), *rest = in(log_rest), *all = in(of_all), *share = in(of_each),
                *target = in(of_target), weight = static_cast<T>(by);
        T* dx = static_cast<T*>(to);
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
            const T value = exp_of((x[j] - log[j]) - rest[j]) * all[j] - weight * share[j];
            const T less = own[j] == of_class ? target[j] : T(0);
            dx[j] = own[j] < 0 ? T(0) : value - less;
        }
    }

    static constexpr PanelLoops loops = {max, exp_sum, shifted_sum, log, cross_entropy_backward};
};

}  // namespace

constinit const PanelTables panel_tables = {{Panel<float>::loops, Panel<double>::loops}};

}  // namespace nntile::kernels::NNTILE_ISA
