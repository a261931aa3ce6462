// SPDX-License-Identifier: BSD-3-Clause
// The rows of map.def that have a loop of their own on the CPU, for one element: name_loop of a row
// is name_loop_of here. in, out: its operands; what a loop shares with its neighbours there, such
// as the words of a block of Philox, is computed for each. And what rows refuse.
#pragma once

#include "kernels/cuda/thread.hh"
#include "kernels/loops_isa.hh"

namespace nntile::kernels::cuda {

template <class T>
__device__ Refusal refusal_of(MapCheck check, T x) {
    if (check == MapCheck::divisor) return x == 0 ? Refusal::zero_divisor : Refusal::none;
    return x >= 0 && x <= 1 ? Refusal::none : Refusal::no_probability;  // a nan is none
}

template <class T>
struct Element1 {
    const T* in;
    const Param* params;
    int64_t index;
    DType result;  // of the first output
    T* out;
};

template <class T>
__device__ T power_of_number(T a, T b, DType result, bool& done) {
    done = true;
    if (b == T(1)) return a;
    if (b == T(2)) return a * a;
    if (b == T(3)) return a * a * a;
    if constexpr (is_real<T>) {
        if (result != DType::f16 && b == T(0.5)) return std::sqrt(a);
        if (result != DType::f16 && b == T(-0.5)) return T(1) / std::sqrt(a);
        if (b == T(-1)) return T(1) / a;
        if (b == T(-2)) return T(1) / (a * a);
    }
    done = false;
    return a;
}
template <class T>
__device__ void pow_loop_of(const Element1<T>& e) {
    bool done = false;
    if (e.params[0].i) e.out[0] = power_of_number(e.in[0], e.in[1], e.result, done);
    if (!done) e.out[0] = pow_of(e.in[0], e.in[1]);
}

template <class T>
__device__ void arange_loop_of(const Element1<T>& e) {
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    e.out[0] = static_cast<T>(Wide(e.in[0]) + Wide(e.in[1]) * static_cast<Wide>(e.index));
}

// In [0, 1), as each_uniform() has it.
template <class T>
__device__ T uniform_at(const Param* seed, int64_t index) {
    constexpr int bits = uniform_bits<T>;
    const T unit = T(1) / static_cast<T>(int64_t{1} << bits);
    const auto key = static_cast<uint64_t>(seed[0].i), offset = static_cast<uint64_t>(seed[1].i);
    if constexpr (std::is_same_v<T, float>) {
        const Random block = philox(key, offset, static_cast<uint64_t>(index) / 4);
        const uint32_t word = block.word[index & 3];
        return static_cast<float>(static_cast<int32_t>(word >> (32 - bits))) * unit;
    } else {
        const uint64_t word = philox(key, offset, static_cast<uint64_t>(index)).low();
        return static_cast<T>(static_cast<int64_t>(word >> (64 - bits))) * unit;
    }
}
template <class T>
__device__ void uniform_loop_of(const Element1<T>& e) {
    e.out[0] = uniform_of(e.in[0], e.in[1], uniform_at<T>(e.params, e.index), e.result);
}
template <class T>
__device__ void normal_loop_of(const Element1<T>& e) {
    const Random r = philox(static_cast<uint64_t>(e.params[0].i),
                            static_cast<uint64_t>(e.params[1].i), static_cast<uint64_t>(e.index));
    const T u = T(1) - unit_uniform<T>(r.low()), v = unit_uniform<T>(r.high());
    e.out[0] = e.in[0] + e.in[1] * std::sqrt(T(-2) * log_of(u)) * cos_turns(v);
}
template <class T>
__device__ void bernoulli_loop_of(const Element1<T>& e) {
    using Real = std::conditional_t<is_real<T>, T, double>;
    const Real u = uniform_at<Real>(e.params, e.index);
    e.out[0] = u < static_cast<Real>(e.in[0]) ? T(1) : T(0);
}
template <class T>
__device__ void randint_loop_of(const Element1<T>& e) {
    const uint64_t bits =
        philox(static_cast<uint64_t>(e.params[0].i), static_cast<uint64_t>(e.params[1].i),
               static_cast<uint64_t>(e.index))
            .low();
    const auto first = static_cast<uint64_t>(static_cast<int64_t>(e.in[0]));
    const uint64_t count = static_cast<uint64_t>(static_cast<int64_t>(e.in[1])) - first;
    e.out[0] = static_cast<T>(static_cast<int64_t>(first + (count ? bits % count : bits)));
}
template <class T>
__device__ void dropout_loop_of(const Element1<T>& e) {
    const T p = static_cast<T>(e.params[0].f);
    const T scale = dropout_scale<T>(e.params[0].f);
    const T keep = uniform_at<T>(e.params + 1, e.index) >= p ? T(1) : T(0);
    e.out[0] = e.in[0] * (keep * scale);
    e.out[1] = keep;
}

template <class T>
__device__ void adam_loop_of(const Element1<T>& e) {
    const Adam<T> k(e.params, e.in[4]);
    const Out<T, 4> y = adam_of<T, false>(k, e.in[0], e.in[1], e.in[2], e.in[3], T{});
    for (int i = 0; i < 3; ++i) e.out[i] = y.value[i];
}
template <class T>
__device__ void adam_amsgrad_loop_of(const Element1<T>& e) {
    const Adam<T> k(e.params, e.in[5]);
    const Out<T, 4> y = adam_of<T, true>(k, e.in[0], e.in[1], e.in[2], e.in[3], e.in[4]);
    for (int i = 0; i < 4; ++i) e.out[i] = y.value[i];
}

}  // namespace nntile::kernels::cuda
