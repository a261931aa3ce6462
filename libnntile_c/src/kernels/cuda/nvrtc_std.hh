// SPDX-License-Identifier: BSD-3-Clause
// NVRTC has no standard library: what map_code.hh and the headers behind it need of one. Each of
// its headers is this one there (tools/embed_headers.py).
#pragma once

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;

namespace std {

using ::size_t;
enum class byte : unsigned char {};

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <bool c, class A, class B>
struct conditional {
    using type = A;
};
template <class A, class B>
struct conditional<false, A, B> {
    using type = B;
};
template <bool c, class A, class B>
using conditional_t = typename conditional<c, A, B>::type;

template <size_t... i>
struct index_sequence {};
template <size_t n, size_t... i>
struct counted : counted<n - 1, n - 1, i...> {};
template <size_t... i>
struct counted<0, i...> {
    using type = index_sequence<i...>;
};
template <size_t n>
using make_index_sequence = typename counted<n>::type;

template <class T>
struct numeric_limits {
    static constexpr T infinity() { return T(); }
    static constexpr T quiet_NaN() { return T(); }
};
template <>
struct numeric_limits<float> {
    static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000u); }
    static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000u); }
};
template <>
struct numeric_limits<double> {
    static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000u); }
    static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000u); }
};

// Functions of float and double, which NVRTC has outside of std.
using ::abs;
using ::ceil;
using ::copysign;
using ::erf;
using ::exp;
using ::fabs;
using ::floor;
using ::log;
using ::modf;
using ::pow;
using ::rint;
using ::signbit;
using ::sin;
using ::sqrt;
using ::tan;
using ::trunc;

template <class T>
constexpr const T& min(const T& a, const T& b) {
    return b < a ? b : a;
}
template <class T, size_t n>
constexpr size_t size(const T (&)[n]) {
    return n;
}
template <class A, class N, class B>
constexpr B copy_n(A from, N n, B to) {
    for (N i = 0; i < n; ++i) to[i] = from[i];
    return to + n;
}
template <class A, class B>
constexpr B copy(A from, A end, B to) {
    while (from != end) *to++ = *from++;
    return to;
}
// Members of structs that no kernel reads.
template <class T>
struct vector {};
template <class T>
struct span {};
struct nullopt_t {};
inline constexpr nullopt_t nullopt;
template <class T>
struct optional {
    constexpr optional(nullopt_t) {}
    constexpr optional(T) {}
};
struct string_view {
    bool operator==(const char*) const;
};

}  // namespace std

namespace nntile {
template <class T, int n>
class SmallVector {};
}  // namespace nntile
