// SPDX-License-Identifier: BSD-3-Clause
// The rows of map.def that are one expression, as functions of one element: Row_name<T>::apply().
// For one file of each copy: they are its own.
#pragma once

#include <initializer_list>

#include "kernels/loops_isa.hh"
#include "kernels/special_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

#define IN(...) {__VA_ARGS__}
#define OUT(...) {__VA_ARGS__}
#define P(...) {__VA_ARGS__}
#define F(name, initial) 'f'
#define I(name, initial) 'i'
#define CHOICE(name, words) 'c'

// Kinds of the params of a row: 'f' float, 'i' integer, 'c' choice.
struct Kinds {
    size_t count = 0;
    char kind[12] = {};
    constexpr Kinds(std::initializer_list<char> kinds) {
        for (char k : kinds) kind[count++] = k;
    }
};
using Names = std::initializer_list<const char*>;

#define MAP(name, types, flops, doc, in, out, params, arguments, ...)           \
    template <class T>                                                          \
    struct Row_##name {                                                         \
        static constexpr int work = flops;                                      \
        static constexpr size_t inputs = Names(in).size();                      \
        static constexpr size_t outputs = Names(out).size();                    \
        static constexpr Kinds kinds = Kinds(params);                           \
        NNTILE_FN static constexpr auto apply arguments { return __VA_ARGS__; } \
    };
#define MAP_LOOP(name, types, flops, doc, in, out, ...)      \
    struct Loop_##name {                                     \
        static constexpr size_t inputs = Names(in).size();   \
        static constexpr size_t outputs = Names(out).size(); \
    };
#include "kernels/map.def"
#undef MAP
#undef MAP_LOOP
#undef IN
#undef OUT
#undef P
#undef F
#undef I
#undef CHOICE

template <bool value>
struct Constant {
    NNTILE_FN constexpr operator bool() const { return value; }
};

template <char kind, bool choice, class T>
NNTILE_FN constexpr auto param(T f, int64_t i) {
    if constexpr (kind == 'c') return Constant<choice>{};
    else if constexpr (kind == 'f') return f;
    else return i;
}

template <class T, size_t n>
NNTILE_FN T value_of(const Out<T, n>& out, size_t k) {
    return out.value[k];
}
template <class T>
NNTILE_FN T value_of(T out, size_t) {
    return out;
}

constexpr bool takes(Types types, Compute compute) {
    if (types == Types::floating) return compute != compute_i64;
    if (types == Types::integral) return compute == compute_i64;
    return true;
}

}  // namespace
}  // namespace nntile::kernels::NNTILE_ISA
