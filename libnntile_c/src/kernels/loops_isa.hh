// SPDX-License-Identifier: BSD-3-Clause
// The primitives of map.def that are loops of their own, and what several outputs need.
#pragma once

#include <algorithm>

#include "kernels/map_loop.hh"
#include "kernels/random_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class T, size_t n>
struct Out {
    T value[n];
};

template <class T>
const T* input(const Loop& loop, int i) {
    return static_cast<const T*>(loop.in[i]);
}
template <class T>
T* output(const Loop& loop, int i) {
    return static_cast<T*>(loop.out[i]);
}

// A number as exponent is the usual case: small powers need no logarithm, and roots are PyTorch's
// (the power of -inf to 0.5 is nan then, but inf in float16). The elements of a tensor get the same
// bits whatever their neighbours are.
template <class T>
void pow_loop(const Loop& loop) {
    const T *a = input<T>(loop, 0), *b = input<T>(loop, 1);
    T* y = output<T>(loop, 0);
    const auto each = [&](auto&& power) {
        for (int64_t i = 0; i < loop.n; ++i) y[i] = power(a[i]);
    };
    const bool number = loop.params[0].i && loop.n;
    if (number && b[0] == T(1)) return each([](T x) { return x; });
    if (number && b[0] == T(2)) return each([](T x) { return x * x; });
    if (number && b[0] == T(3)) return each([](T x) { return x * x * x; });
    if constexpr (is_real<T>) {
        const bool roots = number && loop.result != DType::f16;
        if (roots && b[0] == T(0.5)) return each([](T x) { return std::sqrt(x); });
        if (roots && b[0] == T(-0.5)) return each([](T x) { return T(1) / std::sqrt(x); });
        if (number && b[0] == T(-1)) return each([](T x) { return T(1) / x; });
        if (number && b[0] == T(-2)) return each([](T x) { return T(1) / (x * x); });
    }
    constexpr int64_t block = 64;  // whole ones: see pow_of
    const auto run = [](const T* base, const T* exponent, T* power) {
#pragma GCC ivdep
        for (int64_t i = 0; i < block; ++i) power[i] = pow_of(base[i], exponent[i]);
    };
    int64_t at = 0;
    for (; at + block <= loop.n; at += block) run(a + at, b + at, y + at);
    if (at == loop.n) return;
    T base[block] = {}, exponent[block] = {}, power[block];
    std::copy(a + at, a + loop.n, base);
    std::copy(b + at, b + loop.n, exponent);
    run(base, exponent, power);
    std::copy_n(power, loop.n - at, y + at);
}

template <class T>
void arange_loop(const Loop& loop) {  // in double for f32, as PyTorch does
    using Wide = std::conditional_t<std::is_same_v<T, float>, double, T>;
    const T *start = input<T>(loop, 0), *step = input<T>(loop, 1);
    T* y = output<T>(loop, 0);
#pragma GCC ivdep
    for (int64_t i = 0; i < loop.n; ++i)
        y[i] = static_cast<T>(Wide(start[i]) + Wide(step[i]) * static_cast<Wide>(loop.index[i]));
}

// ---- random numbers
// Calls use(i, u) with u uniform in [0, 1): for f32 from one word per element, else from a block of
// Philox.
template <class T, class Use>
void each_uniform(const Loop& loop, const Param* seed, Use&& use) {
    constexpr int bits = uniform_bits<T>;
    const T unit = T(1) / static_cast<T>(int64_t{1} << bits);
    const uint64_t key = seed[0].i, offset = seed[1].i;
    if constexpr (std::is_same_v<T, float>) {
        uint32_t room[most_indices + 8];
        const uint32_t* words = random_words(key, offset, loop.index, loop.n, room);
        constexpr int shift = 32 - bits;
#pragma GCC ivdep
        for (int64_t i = 0; i < loop.n; ++i)
            use(i, static_cast<float>(static_cast<int32_t>(words[i] >> shift)) * unit);
    } else {
        constexpr int shift = 64 - bits;
#pragma GCC ivdep
        for (int64_t i = 0; i < loop.n; ++i) {
            const uint64_t word = philox(key, offset, loop.index[i]).low();
            use(i, static_cast<T>(static_cast<int64_t>(word >> shift)) * unit);
        }
    }
}

template <class T>
NNTILE_FN T uniform_of(T low, T high, T u, DType result) {
    const T y = low + (high - low) * u, most = below(high, result);
    const T inside = y < most ? y : most;
    return inside > low ? inside : low;
}
template <class T>
void uniform_loop(const Loop& loop) {
    const T *low = input<T>(loop, 0), *high = input<T>(loop, 1);
    T* y = output<T>(loop, 0);
    const DType result = loop.result;
    each_uniform<T>(loop, loop.params,
                    [=](int64_t i, T u) { y[i] = uniform_of(low[i], high[i], u, result); });
}

template <class T>
NNTILE_FN T unit_uniform(uint64_t bits) {
    if constexpr (std::is_same_v<T, float>)
        return static_cast<float>(static_cast<int32_t>(bits >> 40 & 0xffffff)) * 0x1p-24f;
    else return static_cast<T>(static_cast<int64_t>(bits >> 11)) * T(0x1p-53);
}

template <class T>
void normal_loop(const Loop& loop) {  // Box-Muller
    const T *mean = input<T>(loop, 0), *std = input<T>(loop, 1);
    T* y = output<T>(loop, 0);
    const uint64_t seed = loop.params[0].i, offset = loop.params[1].i;
#pragma GCC ivdep
    for (int64_t i = 0; i < loop.n; ++i) {
        const Random r = philox(seed, offset, loop.index[i]);
        const T u = T(1) - unit_uniform<T>(r.low()), v = unit_uniform<T>(r.high());
        y[i] = mean[i] + std[i] * std::sqrt(T(-2) * log_of(u)) * cos_turns(v);
    }
}

template <class T>
void bernoulli_loop(const Loop& loop) {
    using Real = std::conditional_t<is_real<T>, T, double>;
    const T* p = input<T>(loop, 0);
    T* y = output<T>(loop, 0);
    each_uniform<Real>(loop, loop.params, [=](int64_t i, Real u) {
        y[i] = u < static_cast<Real>(p[i]) ? T(1) : T(0);
    });
}

template <class T>
void randint_loop(const Loop& loop) {
    const T *low = input<T>(loop, 0), *high = input<T>(loop, 1);
    T* y = output<T>(loop, 0);
    const uint64_t seed = loop.params[0].i, offset = loop.params[1].i;
    uint64_t bits[most_indices];
#pragma GCC ivdep
    for (int64_t i = 0; i < loop.n; ++i) bits[i] = philox(seed, offset, loop.index[i]).low();
    uint64_t divisor = 0, inverse = 0;  // of the last element: mostly all have one
    for (int64_t i = 0; i < loop.n; ++i) {
        const uint64_t first = static_cast<uint64_t>(static_cast<int64_t>(low[i]));
        const uint64_t count = static_cast<uint64_t>(static_cast<int64_t>(high[i])) - first;
        if (count != divisor) {
            divisor = count;
            inverse = count ? ~uint64_t{0} / count : 0;
        }
        uint64_t rest = bits[i];
        // rest % count by a product: the quotient is at most two too small.
        rest -= static_cast<uint64_t>(static_cast<unsigned __int128>(rest) * inverse >> 64) * count;
        for (int k = 0; k < 2; ++k) rest -= count && rest >= count ? count : 0;
        y[i] = static_cast<T>(static_cast<int64_t>(first + rest));
    }
}

template <class T>
NNTILE_FN T dropout_scale(double p) {  // in double, as its gradient has it
    return p < 1 ? static_cast<T>(1 / (1 - p)) : T(0);
}
template <class T>
void dropout_loop(const Loop& loop) {
    const T* x = input<T>(loop, 0);
    T *y = output<T>(loop, 0), *mask = output<T>(loop, 1);
    const T p = static_cast<T>(loop.params[0].f);
    const T scale = dropout_scale<T>(loop.params[0].f);
    each_uniform<T>(loop, loop.params + 1, [=](int64_t i, T u) {
        const T keep = u >= p ? T(1) : T(0);
        y[i] = x[i] * (keep * scale);
        mask[i] = keep;
    });
}

// ---- optimizers
template <class T>
NNTILE_FN Out<T, 2> sgd_momentum_of(T p, T g, T buf, T lr, T momentum, T dampening, T weight_decay,
                                    int64_t nesterov, int64_t maximize, int64_t first) {
    g = (maximize ? -g : g) + weight_decay * p;
    buf = first ? g : momentum * buf + (T(1) - dampening) * g;
    return {{p - lr * (nesterov ? g + momentum * buf : buf), buf}};
}

// Scalars of a step, in double as in PyTorch, rounded once.
template <class T>
struct Adam {
    T beta2, m_weight, v_weight, root_correction2, eps, step_size, decay, shrink, sign;

    NNTILE_FN Adam(const Param* p, T step_count) {
        const bool adamw = p[0].i != 0;
        const double lr = p[1].f, beta1 = p[2].f, step = static_cast<double>(step_count);
        const double correction1 = 1 - std::pow(beta1, step),
                     correction2 = 1 - std::pow(p[3].f, step);
        beta2 = static_cast<T>(p[3].f);
        m_weight = static_cast<T>(1 - beta1);
        v_weight = static_cast<T>(1 - p[3].f);
        root_correction2 = static_cast<T>(std::sqrt(correction2));
        eps = static_cast<T>(p[4].f);
        step_size = static_cast<T>(lr / correction1);
        decay = adamw ? T(0) : static_cast<T>(p[5].f);
        shrink = adamw ? static_cast<T>(1 - lr * p[5].f) : T(1);
        sign = p[6].i ? T(-1) : T(1);
    }
};

// Of one element: p, m, v and, with amsgrad, the largest v so far.
template <class T, bool amsgrad>
NNTILE_FN Out<T, 4> adam_of(const Adam<T>& k, T p, T g, T m, T v, T max_v) {
    const T grad = k.sign * g + k.decay * p;
    const T mi =
        k.m_weight < T(0.5) ? m + k.m_weight * (grad - m) : grad + (k.m_weight - T(1)) * (grad - m);
    const T vi = k.beta2 * v + k.v_weight * grad * grad;
    const T largest = amsgrad ? nan_or_max(max_v, vi) : vi;
    const T pi =
        p * k.shrink - k.step_size * mi / (std::sqrt(largest) / k.root_correction2 + k.eps);
    return {{pi, mi, vi, largest}};
}

template <class T, bool amsgrad>
void adam_step(const Loop& loop) {
    if (loop.n == 0) return;
    const Adam<T> k(loop.params, input<T>(loop, amsgrad ? 5 : 4)[0]);
    const T *p = input<T>(loop, 0), *g = input<T>(loop, 1), *m = input<T>(loop, 2),
            *v = input<T>(loop, 3);
    const T* max_v = amsgrad ? input<T>(loop, 4) : v;
    T *p_out = output<T>(loop, 0), *m_out = output<T>(loop, 1), *v_out = output<T>(loop, 2);
    T* max_out = amsgrad ? output<T>(loop, 3) : v_out;
#pragma GCC ivdep
    for (int64_t i = 0; i < loop.n; ++i) {
        const Out<T, 4> y = adam_of<T, amsgrad>(k, p[i], g[i], m[i], v[i], max_v[i]);
        if (amsgrad) max_out[i] = y.value[3];
        p_out[i] = y.value[0];
        m_out[i] = y.value[1];
        v_out[i] = y.value[2];
    }
}
template <class T>
void adam_loop(const Loop& loop) {
    adam_step<T, false>(loop);
}
template <class T>
void adam_amsgrad_loop(const Loop& loop) {
    adam_step<T, true>(loop);
}

}  // namespace nntile::kernels::NNTILE_ISA
