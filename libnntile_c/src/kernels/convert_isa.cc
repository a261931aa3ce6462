// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/convert.hh"

#include <algorithm>

#include "kernels/element_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

#if defined(__F16C__)
constexpr bool has_vectors_of_halves = true;
#if defined(__AVX512F__)
constexpr __mmask16 all = 0xffff;  // without a mask GCC 12 warns of its own header
#endif
// The compiler makes no vectors of these conversions.
[[gnu::always_inline]] inline int64_t halves_of(const float* x, uint16_t* y, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                            _mm512_maskz_cvtps_ph(all, _mm512_loadu_ps(x + i), 0));
#endif
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
    return i;
}
[[gnu::always_inline]] inline int64_t halves_of(const double* x, uint16_t* y, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
#if defined(__AVX512F__)
        const __m256 f = _mm512_maskz_cvtpd_ps(0xff, _mm512_loadu_pd(x + i));
#else
        const __m256 f = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(x + i + 4)),
                                         _mm256_cvtpd_ps(_mm256_loadu_pd(x + i)));
#endif
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), _mm256_cvtps_ph(f, 0));
    }
    return i;
}
[[gnu::always_inline]] inline int64_t floats_of(const uint16_t* x, float* y, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(y + i,
                         _mm512_maskz_cvtph_ps(
                             all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i))));
#endif
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
    return i;
}
#else
constexpr bool has_vectors_of_halves = false;
template <class T>
inline int64_t halves_of(const T*, uint16_t*, int64_t) {
    return 0;
}
inline int64_t floats_of(const uint16_t*, float*, int64_t) { return 0; }
#endif

// Elements that lie beside each other. n of a block is known: a loop of vectors alone.
template <DType D, class T>
[[gnu::always_inline]] inline void load_run(const Storage<D>* x, T* y, int64_t n, bool is_block) {
    constexpr bool halves = has_vectors_of_halves && D == DType::f16 && std::is_same_v<T, float>;
    int64_t i = 0;
    if constexpr (halves) {
        i = floats_of(x, y, n);
        if (is_block) return;
    }
    for (; i < n; ++i) y[i] = Element<D>::template get<T>(x[i]);
}
template <class T, DType D>
[[gnu::always_inline]] inline void store_run(const T* x, Storage<D>* y, int64_t n, bool is_block) {
    constexpr bool halves = has_vectors_of_halves && D == DType::f16 && std::is_floating_point_v<T>;
    int64_t i = 0;
    if constexpr (halves) {
        i = halves_of(x, y, n);
        if (is_block) return;
    }
    for (; i < n; ++i) y[i] = Element<D>::put(x[i]);
}
template <DType D, class T>
[[gnu::always_inline]] inline void load_apart(const Storage<D>* x, T* y, int64_t stride,
                                              int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = Element<D>::template get<T>(x[i * stride]);
}
template <class T, DType D>
[[gnu::always_inline]] inline void store_apart(const T* x, Storage<D>* y, int64_t stride,
                                               int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i * stride] = Element<D>::put(x[i]);
}

template <DType D, class T>
void load(const void* from, void* to, int64_t stride, int64_t n) {
    const auto* x = static_cast<const Storage<D>*>(from);
    T* y = static_cast<T*>(to);
    if (stride == 1) {
        if (n == convert_block) load_run<D>(x, y, convert_block, true);
        else load_run<D>(x, y, n, false);
    } else if (stride == 0) {
        const T value = n ? Element<D>::template get<T>(x[0]) : T{};
        for (int64_t i = 0; i < n; ++i) y[i] = value;
    } else if (stride == 2) {  // known, so that the loop is one of vectors
        if (n == convert_block) load_apart<D>(x, y, 2, convert_block);
        else load_apart<D>(x, y, 2, n);
    } else {
        load_apart<D>(x, y, stride, n);
    }
}

template <class T, DType D>
void store(const void* from, void* to, int64_t stride, int64_t n) {
    const T* x = static_cast<const T*>(from);
    auto* y = static_cast<Storage<D>*>(to);
    if (stride == 1) {
        if (n == convert_block) store_run<T, D>(x, y, convert_block, true);
        else store_run<T, D>(x, y, n, false);
    } else {
        store_apart<T, D>(x, y, stride, n);
    }
}

template <class T, DType D>
[[gnu::always_inline]] inline void narrow_run(const T* x, T* y, int64_t n) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) y[i] = Element<D>::template get<T>(Element<D>::put(x[i]));
}
template <class T, DType D>
void narrow(const void* from, void* to, int64_t, int64_t n) {
    const T* x = static_cast<const T*>(from);
    T* y = static_cast<T*>(to);
    if constexpr (D == DType::f16) {  // which vectors convert only as they are stored
        alignas(64) Storage<D> kept[convert_block];
        for (int64_t i = 0; i < n; i += convert_block) {
            const int64_t size = std::min(convert_block, n - i);
            store<T, D>(x + i, kept, 1, size);
            load<D, T>(kept, y + i, 1, size);
        }
    } else if (n == convert_block) {
        narrow_run<T, D>(x, y, convert_block);
    } else {
        narrow_run<T, D>(x, y, n);
    }
}

template <DType D, class T, Compute compute>
constexpr void add_type(Conversions& table) {
    constexpr int d = static_cast<int>(D);
    table.load[d][compute] = load<D, T>;
    table.store[compute][d] = store<T, D>;
    table.narrow[compute][d] = narrow<T, D>;
}
template <DType D>
constexpr void add(Conversions& table) {
    add_type<D, float, compute_f32>(table);
    add_type<D, double, compute_f64>(table);
    add_type<D, int64_t, compute_i64>(table);
}

template <DType... D>
constexpr Conversions make() {
    Conversions table{};
    (add<D>(table), ...);
    return table;
}

}  // namespace

constinit const Conversions conversions =
    make<DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16,
         DType::i8, DType::u8, DType::boolean>();

}  // namespace nntile::kernels::NNTILE_ISA
