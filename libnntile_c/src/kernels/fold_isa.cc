// SPDX-License-Identifier: BSD-3-Clause
// Runs are folded in 64 lanes of the element type, pieces of them in double: as exact as a pairwise
// sum.
#include "kernels/fold.hh"

#include <type_traits>

#include "kernels/fold_ops_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

// ---- the loops

template <class T>
using Wide = std::conditional_t<is_real<T>, double, int64_t>;
template <class T>
Wide<T>& value_of(Total& total) {
    if constexpr (is_real<T>) return total.f;
    else return total.i;
}

constexpr int64_t lanes = 64;
constexpr int64_t piece = run_piece;
constexpr int64_t few = 8;  // elements: sooner folded one by one than in lanes

template <class Op, class T>
Wide<T> fold_piece(const T* x, int64_t step, int64_t count, int64_t n) {
    alignas(64) T lane[lanes];
    for (int64_t j = 0; j < lanes; ++j) lane[j] = Op::template identity<T>;
    for (; count > 0; --count, x += step) {
        int64_t i = 0;
        for (; i + lanes <= n; i += lanes)
            for (int64_t j = 0; j < lanes; ++j) lane[j] = Op::join(lane[j], Op::take(x[i + j]));
        const int64_t rest = n - i;
        for (int64_t j = 0; j < rest; ++j) lane[j] = Op::join(lane[j], Op::take(x[i + j]));
    }
    for (int64_t half = lanes / 2; half >= 8; half /= 2)
        for (int64_t j = 0; j < half; ++j) lane[j] = Op::join(lane[j], lane[j + half]);
    Wide<T> result = lane[0];
    for (int64_t j = 1; j < 8; ++j) result = Op::join(result, static_cast<Wide<T>>(lane[j]));
    return result;
}

template <class Op, class T>
void run(const void* from, int64_t n, Total* total) {
    const T* x = static_cast<const T*>(from);
    Wide<T> result = value_of<T>(*total);
    if (n < few) {
        for (int64_t i = 0; i < n; ++i)
            result = Op::join(result, static_cast<Wide<T>>(Op::take(x[i])));
    } else {
        for (int64_t i = 0; i < n; i += piece)
            result = Op::join(result, fold_piece<Op>(x + i, 0, 1, n - i < piece ? n - i : piece));
    }
    value_of<T>(*total) = result;
}

template <class Op, class T>
void plane(const void* from, int64_t step, int64_t count, int64_t n, Total* total) {
    const int64_t most = piece / lanes / ((n + lanes - 1) / lanes);
    const T* x = static_cast<const T*>(from);
    Wide<T>& result = value_of<T>(*total);
    for (int64_t some; count > 0; count -= some, x += some * step) {
        some = count < most ? count : most;
        result = Op::join(result, fold_piece<Op>(x, step, some, n));
    }
}

// Rows that are too short for many lanes have few. No row waits for another, so the processor works
// on several at once.
template <class Op, class T>
void rows(const void* from, int64_t step, int64_t count, int64_t n, Total* total) {
    constexpr int64_t side = 16, longest = 64 * side;
    const T* x = static_cast<const T*>(from);
    if (n < few || n > longest) {
        for (int64_t r = 0; r < count; ++r) run<Op, T>(x + r * step, n, &total[r]);
        return;
    }
    for (int64_t r = 0; r < count; ++r, x += step) {
        alignas(64) T own[side];
        for (int64_t j = 0; j < side; ++j) own[j] = Op::template identity<T>;
        int64_t i = 0;
        for (; i + side <= n; i += side)
#pragma GCC unroll 1  // or it is taken apart before it is seen to be one of vectors
            for (int64_t j = 0; j < side; ++j) own[j] = Op::join(own[j], Op::take(x[i + j]));
        for (int64_t j = 0; j < n - i; ++j) own[j] = Op::join(own[j], Op::take(x[i + j]));
        for (int64_t j = 0; j < side / 2; ++j) own[j] = Op::join(own[j], own[j + side / 2]);
        Wide<T> result = value_of<T>(total[r]);
        for (int64_t j = 0; j < side / 2; ++j)
            result = Op::join(result, static_cast<Wide<T>>(own[j]));
        value_of<T>(total[r]) = result;
    }
}

// A few rows are joined as they are before they meet the totals.
template <class Op, class T, int few_rows>
void columns_of(const T* x, int64_t step, int64_t n, Total* total) {
    for (int64_t j = 0; j < n; ++j) {
        T own = Op::take(x[j]);
        for (int64_t k = 1; k < few_rows; ++k) own = Op::join(own, Op::take(x[k * step + j]));
        Wide<T>& t = value_of<T>(total[j]);
        t = Op::join(t, static_cast<Wide<T>>(own));
    }
}

template <class Op, class T>
void columns(const void* from, int64_t step, int64_t count, int64_t n, Total* total) {
    const T* x = static_cast<const T*>(from);
    for (; count >= 8; count -= 8, x += 8 * step) columns_of<Op, T, 8>(x, step, n, total);
    const auto rest = [&]<int few_rows>(std::integral_constant<int, few_rows>) {
        if (count < few_rows) return;
        columns_of<Op, T, few_rows>(x, step, n, total);
        count -= few_rows;
        x += few_rows * step;
    };
    rest(std::integral_constant<int, 4>());
    rest(std::integral_constant<int, 2>());
    rest(std::integral_constant<int, 1>());
}

template <class Op, class T, int some>
void few_of(const T* x, int64_t step, int64_t n, T* y, bool first) {
    for (int64_t j = 0; j < n; ++j) {
        T own = Op::take(x[j]);
        for (int64_t k = 1; k < some; ++k) own = Op::join(own, Op::take(x[k * step + j]));
        y[j] = first ? own : Op::join(y[j], own);
    }
}

template <class Op, class T>
void few_rows(const void* from, int64_t step, int64_t count, int64_t n, void* to) {
    constexpr int64_t piece = 2048;  // stays in the cache while other rows are joined to it
    for (int64_t at = 0; at < n; at += piece) {
        const T* x = static_cast<const T*>(from) + at;
        T* y = static_cast<T*>(to) + at;
        const int64_t m = n - at < piece ? n - at : piece;
        int64_t k = 0;
        for (; k + 4 <= count; k += 4) few_of<Op, T, 4>(x + k * step, step, m, y, k == 0);
        if (k + 2 <= count) {
            few_of<Op, T, 2>(x + k * step, step, m, y, k == 0);
            k += 2;
        }
        if (k < count) few_of<Op, T, 1>(x + k * step, step, m, y, k == 0);
    }
}

template <class Op, class T>
void join(const Total* other, int64_t n, Total* total) {
    for (int64_t j = 0; j < n; ++j) {
        Total o = other[j];
        value_of<T>(total[j]) = Op::join(value_of<T>(total[j]), value_of<T>(o));
    }
}

template <class Op, class T>
void repeat(int64_t times, int64_t n, Total* total) {
    for (int64_t j = 0; j < n; ++j)
        value_of<T>(total[j]) = Op::repeat(value_of<T>(total[j]), times);
}

template <class T>
int64_t find(const void* from, int64_t n, Total value) {
    const T* x = static_cast<const T*>(from);
    const T want = static_cast<T>(value_of<T>(value));
    int64_t i = 0;
    if (want != want) {
        while (i < n && x[i] == x[i]) ++i;
    } else {
        while (i < n && x[i] != want) ++i;
    }
    return i;
}

template <class Op, class T>
constexpr Folds::Op op() {
    Folds::Op row{run<Op, T>,      plane<Op, T>, rows<Op, T>,   columns<Op, T>,
                  few_rows<Op, T>, join<Op, T>,  repeat<Op, T>, {}};
    if constexpr (is_real<T>) row.identity.f = Op::template identity<double>;
    else row.identity.i = Op::template identity<int64_t>;
    return row;
}

template <class, class... Ops>
constexpr Folds make() {
    return {{{op<Ops, float>(), op<Ops, double>(), op<Ops, int64_t>()}...},
            {find<float>, find<double>, find<int64_t>}};
}

}  // namespace

constinit const Folds folds = make<void
#define FOLD(name, formula, combine, result) , Op_##name
#include "kernels/fold.def"
#undef FOLD
                                   >();

}  // namespace nntile::kernels::NNTILE_ISA
