// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/transpose.hh"

#include <utility>

namespace nntile::kernels::NNTILE_ISA {
namespace {

// N vectors of N elements. log2(N) times vector k is interleaved with vector k + N / 2: then row
// and column of each element have changed places.
template <class T, int N>
struct Square {
    using V [[gnu::vector_size(N * sizeof(T))]] = T;

    template <int first, int... I>
    [[gnu::always_inline]] static void interleave(const V& a, const V& b, V& y,
                                                  std::integer_sequence<int, I...>) {
        y = __builtin_shufflevector(a, b, first + I / 2 + I % 2 * N...);
    }
    [[gnu::always_inline]] static void run(const T* x, int64_t x_step, T* y, int64_t y_step) {
        constexpr auto lanes = std::make_integer_sequence<int, N>();
        V a[N], b[N];
#pragma GCC unroll 16
        for (int j = 0; j < N; ++j) __builtin_memcpy(&a[j], x + j * x_step, sizeof(V));
#pragma GCC unroll 4
        for (int times = 1; times < N; times *= 2) {
#pragma GCC unroll 16
            for (int j = 0; j < N / 2; ++j) {
                interleave<0>(a[j], a[j + N / 2], b[2 * j], lanes);
                interleave<N / 2>(a[j], a[j + N / 2], b[2 * j + 1], lanes);
            }
#pragma GCC unroll 16
            for (int j = 0; j < N; ++j) a[j] = b[j];
        }
#pragma GCC unroll 16
        for (int i = 0; i < N; ++i) __builtin_memcpy(y + i * y_step, &a[i], sizeof(V));
    }
};

// A few columns or rows beside each other: known, so that the loops are ones of vectors.
template <class T, int K>
void interleave(const T* x, int64_t x_step, T* y, int64_t m) {
#pragma GCC ivdep
    for (int64_t i = 0; i < m; ++i)
        for (int k = 0; k < K; ++k) y[i * K + k] = x[k * x_step + i];
}
template <class T, int K>
void separate(const T* x, T* y, int64_t y_step, int64_t n) {
#pragma GCC ivdep
    for (int64_t j = 0; j < n; ++j)
        for (int k = 0; k < K; ++k) y[k * y_step + j] = x[j * K + k];
}

template <class T, int N>
void transpose(const void* from, int64_t x_step, void* to, int64_t y_step, int64_t m, int64_t n) {
    const T* x = static_cast<const T*>(from);
    T* y = static_cast<T*>(to);
    if (n == 2 && y_step == 2) return interleave<T, 2>(x, x_step, y, m);
    if (n == 3 && y_step == 3) return interleave<T, 3>(x, x_step, y, m);
    if (n == 4 && y_step == 4) return interleave<T, 4>(x, x_step, y, m);
    if (m == 2 && x_step == 2) return separate<T, 2>(x, y, y_step, n);
    if (m == 3 && x_step == 3) return separate<T, 3>(x, y, y_step, n);
    if (m == 4 && x_step == 4) return separate<T, 4>(x, y, y_step, n);
    int64_t i = 0;
    for (; i + N <= m; i += N) {
        int64_t j = 0;
        for (; j + N <= n; j += N)
            Square<T, N>::run(x + j * x_step + i, x_step, y + i * y_step + j, y_step);
        for (; j < n; ++j)
            for (int64_t k = i; k < i + N; ++k) y[k * y_step + j] = x[j * x_step + k];
    }
    for (; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) y[i * y_step + j] = x[j * x_step + i];
}

#if defined(__AVX512BW__)
constexpr int widest = 64, wide = 32;
#elif defined(__AVX2__)
constexpr int widest = 32, wide = 32;
#else
constexpr int widest = 16, wide = 16;
#endif

}  // namespace

constinit const Transposes transposes{{transpose<uint8_t, 16>, transpose<uint16_t, wide / 2>,
                                       transpose<uint32_t, widest / 4>,
                                       transpose<uint64_t, wide / 8>}};

}  // namespace nntile::kernels::NNTILE_ISA
