// SPDX-License-Identifier: BSD-3-Clause
// What the rows of fold.def do with one element, and with two results.
#pragma once

#include "kernels/math_isa.hh"

namespace nntile::kernels::NNTILE_ISA {

template <class T>
constexpr T lowest = is_real<T> ? -infinity<T> : std::numeric_limits<T>::min();
template <class T>
constexpr T highest = is_real<T> ? infinity<T> : std::numeric_limits<T>::max();

// take: of an element; join: of two results; repeat: of so many that are equal.
struct Op_sum {
    template <class T>
    NNTILE_FN static T take(T x) {
        return x;
    }
    template <class T>
    NNTILE_FN static T join(T a, T b) {
        return a + b;
    }
    template <class T>
    NNTILE_FN static T repeat(T x, int64_t times) {
        return x * static_cast<T>(times);
    }
    template <class T>
    static constexpr T identity = T(0);
};
struct Op_prod : Op_sum {
    template <class T>
    NNTILE_FN static T join(T a, T b) {
        return a * b;
    }
    template <class T>
    NNTILE_FN static T repeat(T x, int64_t times) {
        T power = 1;
        for (; times > 0; times /= 2, x *= x)
            if (times % 2) power *= x;
        return power;
    }
    template <class T>
    static constexpr T identity = T(1);
};
struct Op_amax : Op_sum {
    template <class T>
    NNTILE_FN static T join(T a, T b) {
        return nan_or_max(a, b);
    }
    template <class T>
    NNTILE_FN static T repeat(T x, int64_t) {
        return x;
    }
    template <class T>
    static constexpr T identity = lowest<T>;
};
struct Op_amin : Op_amax {
    template <class T>
    NNTILE_FN static T join(T a, T b) {
        return nan_or_min(a, b);
    }
    template <class T>
    static constexpr T identity = highest<T>;
};
struct Op_any {
    template <class T>
    NNTILE_FN static T take(T x) {
        return x != 0 ? T(1) : T(0);
    }
    template <class T>
    NNTILE_FN static T join(T a, T b) {
        return a > b ? a : b;
    }
    template <class T>
    NNTILE_FN static T repeat(T x, int64_t) {
        return x;
    }
    template <class T>
    static constexpr T identity = T(0);
};
struct Op_all : Op_any {
    template <class T>
    NNTILE_FN static T join(T a, T b) {
        return a < b ? a : b;
    }
    template <class T>
    static constexpr T identity = T(1);
};
struct Op_sumsq : Op_sum {
    template <class T>
    NNTILE_FN static T take(T x) {
        return x * x;
    }
};

}  // namespace nntile::kernels::NNTILE_ISA
