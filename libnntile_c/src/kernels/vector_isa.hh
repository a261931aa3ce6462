// SPDX-License-Identifier: BSD-3-Clause
// Vectors as the compiler has them, as wide as a register.
#pragma once

#include "kernels/element_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

#if defined(__AVX512F__)
constexpr int64_t vector_bytes = 64;
#elif defined(__AVX2__)
constexpr int64_t vector_bytes = 32;
#else
constexpr int64_t vector_bytes = 16;
#endif
template <class T>
struct Vector {
    typedef T type __attribute__((vector_size(vector_bytes), aligned(alignof(T)), may_alias));
};

// A vector of T of as many elements of another dtype.
template <DType D, class T>
[[gnu::always_inline]] inline typename Vector<T>::type vector_of(const Storage<D>* x) {
    using V = typename Vector<T>::type;
    constexpr int64_t lanes = vector_bytes / sizeof(T);
    if constexpr (std::is_same_v<Storage<D>, T>) return *reinterpret_cast<const V*>(x);
#if defined(__F16C__)
    if constexpr (D == DType::f16) {
        float f[lanes];
        for (int64_t i = 0; i < lanes; i += 8)
            _mm256_storeu_ps(
                f + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
        return *reinterpret_cast<const V*>(f);
    }
#endif
    V v;
    for (int64_t i = 0; i < lanes; ++i) v[i] = Element<D>::template get<T>(x[i]);
    return v;
}

}  // namespace nntile::kernels::NNTILE_ISA
