// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/taps.hh"

#include <algorithm>
#include <type_traits>

#include "kernels/vector_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <class T>
struct Rows {
    // The first term is no sum: 0 + -0 would be 0. So many taps at a time, that what is summed
    // stays in registers.
    template <int64_t count>
    static void add(const T* x, int64_t step, const int64_t* inputs, const T* weights, int64_t n,
                    bool first, T* y) {
        const T* from[count];
        T weight[count];
        for (int64_t k = 0; k < count; ++k) {
            from[k] = x + inputs[k] * step;
            weight[k] = weights[k];
        }
        const auto sum = [&](int64_t j, T before, bool some) {
            T total = some ? before + weight[0] * from[0][j] : weight[0] * from[0][j];
            for (int64_t k = 1; k < count; ++k) total += weight[k] * from[k][j];
            return total;
        };
        if (first) {
#pragma GCC ivdep
            for (int64_t j = 0; j < n; ++j) y[j] = sum(j, T(0), false);
        } else {
#pragma GCC ivdep
            for (int64_t j = 0; j < n; ++j) y[j] = sum(j, y[j], true);
        }
    }
    static void of_rows(const void* from, int64_t step, const int64_t* inputs, const void* weights,
                        int64_t count, int64_t n, void* to) {
        const T *x = static_cast<const T*>(from), *w = static_cast<const T*>(weights);
        T* y = static_cast<T*>(to);
        if (count == 0)
            for (int64_t j = 0; j < n; ++j) y[j] = T(0);
        for (int64_t k = 0; k < count;) {
            const int64_t left = count - k;
            const auto part = [&](auto some) {
                constexpr int64_t taken = decltype(some)::value;
                add<taken>(x, step, inputs + k, w + k, n, k == 0, y);
                k += taken;
            };
            if (left >= 4) part(std::integral_constant<int64_t, 4>());
            else if (left == 3) part(std::integral_constant<int64_t, 3>());
            else if (left == 2) part(std::integral_constant<int64_t, 2>());
            else part(std::integral_constant<int64_t, 1>());
        }
    }

    // Pixels of few channels: loops over these would be too short to begin one for each.
    template <int64_t each>
    static void of_pixels_of(const T* x, int64_t step, const TapList& taps, int64_t n, T* y) {
        using P = typename Vector<T>::type;
        constexpr int64_t lanes = vector_bytes / sizeof(T);
        const T* w = static_cast<const T*>(taps.weights);
        const int64_t* inputs = taps.inputs;
        for (int64_t o = 0; o < taps.outputs; ++o, y += n, w += each, inputs += each) {
            const T* from[each];
            for (int64_t k = 0; k < each; ++k) from[k] = x + inputs[k] * step;
            int64_t j = 0;
            for (; j + lanes <= n; j += lanes) {
                P total = w[0] * *reinterpret_cast<const P*>(from[0] + j);
                for (int64_t k = 1; k < each; ++k)
                    total += w[k] * *reinterpret_cast<const P*>(from[k] + j);
                *reinterpret_cast<P*>(y + j) = total;
            }
            for (; j < n; ++j) {
                T total = w[0] * from[0][j];
                for (int64_t k = 1; k < each; ++k) total += w[k] * from[k][j];
                y[j] = total;
            }
        }
    }
    static void of_pixels(const void* from, int64_t step, const TapList& taps, int64_t n,
                          void* to) {
        const T* x = static_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        if (taps.each == 1) return of_pixels_of<1>(x, step, taps, n, y);
        if (taps.each == 2) return of_pixels_of<2>(x, step, taps, n, y);
        const T* w = static_cast<const T*>(taps.weights);
        for (int64_t o = 0, k = 0; o < taps.outputs; k = taps.ends[o++])
            of_rows(x, step, taps.inputs + k, w + k, taps.ends[o] - k, n, y + o * n);
    }

    template <int64_t each>
    static void of_row_of(const T* x, const TapList& taps, T* y) {
        const T* w = static_cast<const T*>(taps.place_weights);
        const int32_t* places = taps.places;
        const int64_t n = taps.outputs;
#pragma GCC ivdep
        for (int64_t o = 0; o < n; ++o) {
            T total = w[o] * x[places[o]];
            for (int64_t k = 1; k < each; ++k) total += w[k * n + o] * x[places[k * n + o]];
            y[o] = total;
        }
    }
#if defined(__AVX512F__)
    // Inputs are picked out of two registers.
    template <int64_t each>
    static void of_row_in_registers(const T* x, const TapList& taps, T* y) {
        constexpr int64_t lanes = 64 / sizeof(T);
        using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
        typedef T V __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
        typedef Int I __attribute__((vector_size(64)));
        typedef int32_t Narrow __attribute__((vector_size(lanes * 4), aligned(4), may_alias));
        T padded[lanes];
        if (taps.inputs_in_row < lanes) {
            std::fill(std::copy_n(x, taps.inputs_in_row, padded), padded + lanes, T(0));
            x = padded;
        }
        const T* w = static_cast<const T*>(taps.place_weights);
        const int64_t n = taps.outputs, blocks = (n + lanes - 1) / lanes;
        for (int64_t b = 0; b < blocks; ++b) {
            const int64_t o = std::min(b * lanes, n - lanes);
            V total{};
            for (int64_t k = 0; k < each; ++k) {
                const TapList::Pick& pick = taps.picks[k * blocks + b];
                const I from =
                    __builtin_convertvector(*reinterpret_cast<const Narrow*>(pick.from), I);
                const V picked =
                    __builtin_shuffle(*reinterpret_cast<const V*>(x + pick.first),
                                      *reinterpret_cast<const V*>(x + pick.second), from);
                const V weight = *reinterpret_cast<const V*>(w + k * n + o);
                total = k == 0 ? weight * picked : total + weight * picked;
            }
            *reinterpret_cast<V*>(y + o) = total;
        }
    }
#else
    template <int64_t each>
    static void of_row_in_registers(const T* x, const TapList& taps, T* y) {
        of_row_of<each>(x, taps, y);
    }
#endif
    static void of_row(const void* from, const TapList& taps, void* to) {
        const T* x = static_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        const auto same = [&](auto each) {
            if (taps.picks) of_row_in_registers<decltype(each)::value>(x, taps, y);
            else of_row_of<decltype(each)::value>(x, taps, y);
        };
        if (taps.each == 1) return same(std::integral_constant<int64_t, 1>());
        if (taps.each == 2) return same(std::integral_constant<int64_t, 2>());
        if (taps.each == 4) return same(std::integral_constant<int64_t, 4>());
        const T* w = static_cast<const T*>(taps.weights);
        for (int64_t o = 0, k = 0; o < taps.outputs; ++o) {
            T total = k < taps.ends[o] ? w[k] * x[taps.inputs[k]] : T(0);
            for (++k; k < taps.ends[o]; ++k) total += w[k] * x[taps.inputs[k]];
            k = taps.ends[o];
            y[o] = total;
        }
    }

    static constexpr TapLoops loops = {of_rows, of_pixels, of_row};
};

// Each output is one input.
struct Shorts {
    using T = int16_t;
    static void of_rows(const void* from, int64_t step, const int64_t* inputs, const void*, int64_t,
                        int64_t n, void* to) {
        std::copy_n(static_cast<const T*>(from) + *inputs * step, n, static_cast<T*>(to));
    }
    static void of_pixels(const void* from, int64_t step, const TapList& taps, int64_t n,
                          void* to) {
        for (int64_t o = 0; o < taps.outputs; ++o)
            of_rows(from, step, taps.inputs + o, nullptr, 1, n, static_cast<T*>(to) + o * n);
    }
    static void of_row(const void* from, const TapList& taps, void* to) {
        const T* x = static_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        for (int64_t o = 0; o < taps.outputs; ++o) y[o] = x[taps.inputs[o]];
    }

    static constexpr TapLoops loops = {of_rows, of_pixels, of_row};
};

}  // namespace

constinit const TapTables tap_tables = {
    {Rows<float>::loops, Rows<double>::loops, Rows<int64_t>::loops}, Shorts::loops};

}  // namespace nntile::kernels::NNTILE_ISA
