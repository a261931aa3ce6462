// SPDX-License-Identifier: BSD-3-Clause
// How one element of each dtype is read and written. Branch-free, so that loops over it vectorise.
#pragma once

#include <type_traits>

#include "kernels/bfloat16.hh"
#include "kernels/float16.hh"
#include "kernels/isa.hh"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace nntile::kernels::NNTILE_ISA {

NNTILE_FN inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
NNTILE_FN inline float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

#if defined(__F16C__)
NNTILE_FN inline float f32_of_f16(uint16_t h) { return _cvtsh_ss(h); }
// To nearest even
NNTILE_FN inline uint16_t f16_of_f32(float x) { return static_cast<uint16_t>(_cvtss_sh(x, 0)); }
#else
NNTILE_FN inline float f32_of_f16(uint16_t h) { return plain_f32_of_f16(h); }
NNTILE_FN inline uint16_t f16_of_f32(float x) { return plain_f16_of_f32(x); }
#endif

template <DType D>
struct Element;

// Integers: through int64 where PyTorch does so, which makes negative floats wrap in unsigned
// types.
template <class S, class Through>
struct Number {
    using Storage = S;
    template <class T>
    NNTILE_FN static T get(S x) {
        return static_cast<T>(x);
    }
    template <class T>
    NNTILE_FN static S put(T x) {
        return static_cast<S>(static_cast<Through>(x));
    }
};
template <>
struct Element<DType::f32> : Number<float, float> {};
template <>
struct Element<DType::f64> : Number<double, double> {};
template <>
struct Element<DType::i64> : Number<int64_t, int64_t> {};
template <>
struct Element<DType::i32> : Number<int32_t, int32_t> {};
template <>
struct Element<DType::i16> : Number<int16_t, int64_t> {};
template <>
struct Element<DType::i8> : Number<int8_t, int64_t> {};
template <>
struct Element<DType::u8> : Number<uint8_t, int64_t> {};

template <>
struct Element<DType::f16> {
    using Storage = uint16_t;
    template <class T>
    NNTILE_FN static T get(uint16_t x) {
        return static_cast<T>(f32_of_f16(x));
    }
    template <class T>
    NNTILE_FN static uint16_t put(T x) {
        return f16_of_f32(static_cast<float>(x));
    }
};
template <>
struct Element<DType::bf16> {
    using Storage = uint16_t;
    template <class T>
    NNTILE_FN static T get(uint16_t x) {
        return static_cast<T>(f32_of_bf16(x));
    }
    template <class T>
    NNTILE_FN static uint16_t put(T x) {
        return bf16_of_f32(static_cast<float>(x));
    }
};
template <>
struct Element<DType::boolean> {
    using Storage = uint8_t;
    template <class T>
    NNTILE_FN static T get(uint8_t x) {
        return static_cast<T>(x != 0);
    }
    template <class T>
    NNTILE_FN static uint8_t put(T x) {
        return x != T{};  // nan is true
    }
};

template <DType D>
using Storage = typename Element<D>::Storage;

}  // namespace nntile::kernels::NNTILE_ISA
