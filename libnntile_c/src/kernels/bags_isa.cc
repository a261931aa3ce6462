// SPDX-License-Identifier: BSD-3-Clause
#include "kernels/bags.hh"

#include "kernels/element_isa.hh"
#include "kernels/vector_isa.hh"

namespace nntile::kernels::NNTILE_ISA {
namespace {

template <DType D, class I>
struct Sum {
    using T = std::conditional_t<D == DType::f64, double, float>;
    using S = Storage<D>;
    using V = typename Vector<T>::type;
    static constexpr int64_t lanes = vector_bytes / sizeof(T);

    const BagRows& rows;
    int64_t first, last;

    int64_t index(int64_t i) const {
        return static_cast<const I*>(rows.indices)[i * rows.index_stride];
    }
    const S* row(int64_t index) const {
        return static_cast<const S*>(rows.table) + index * rows.row_stride;
    }

    T weight(int64_t i) const {
        return Element<D>::template get<T>(
            static_cast<const S*>(rows.weights)[i * rows.weight_stride]);
    }

    template <class Add>  // add(row, weight)
    int64_t each(Add&& add) const {
        int64_t found = 0;
        for (int64_t i = first; i < last; ++i) {
            const int64_t at = index(i);
            if (at == rows.padding) continue;
            add(i, row(at), rows.weights ? weight(i) : T(1));
            ++found;
        }
        return found;
    }
    static V at(const S* x, int64_t k) { return vector_of<D, T>(x + k * lanes); }

    // Totals stay in registers while the rows pass by, a part of their columns at a time.
    int64_t run(int64_t n, T* total) const {
        constexpr int64_t ahead = 12, line = 64 / sizeof(S);
        int64_t j = 0, found = 0;
        for (; j + 4 * lanes <= n; j += 4 * lanes) {
            V a{}, b{}, c{}, d{};
            found = each([&](int64_t i, const S* x, T weight) {
                // Rows lie anywhere: one some places on is asked for
                if (j == 0 && i + ahead < rows.count) {
                    const S* next = row(index(i + ahead));
                    for (int64_t k = 0; k < n; k += line) __builtin_prefetch(next + k);
                }
                x += j;
                a += weight * at(x, 0);
                b += weight * at(x, 1);
                c += weight * at(x, 2);
                d += weight * at(x, 3);
            });
            V* to = reinterpret_cast<V*>(total + j);
            to[0] = a, to[1] = b, to[2] = c, to[3] = d;
        }
        for (; j + lanes <= n; j += lanes) {
            V a{};
            found = each([&](int64_t, const S* x, T weight) { a += weight * at(x + j, 0); });
            *reinterpret_cast<V*>(total + j) = a;
        }
        for (; j < n; ++j) {
            T a = 0;
            found = each([&](int64_t, const S* x, T weight) {
                a += weight * Element<D>::template get<T>(x[j]);
            });
            total[j] = a;
        }
        return found;
    }
};

template <DType D>
int64_t sum(const BagRows& rows, int64_t first, int64_t last, int64_t n, void* total) {
    using T = typename Sum<D, int64_t>::T;
    if (rows.wide) return Sum<D, int64_t>{rows, first, last}.run(n, static_cast<T*>(total));
    return Sum<D, int32_t>{rows, first, last}.run(n, static_cast<T*>(total));
}

template <DType... D>
constexpr BagLoops make() {
    BagLoops loops{};
    ((loops.sum[static_cast<int>(D)] = sum<D>), ...);
    return loops;
}

}  // namespace

constinit const BagLoops bag_loops = make<DType::f32, DType::f64, DType::f16, DType::bf16>();

}  // namespace nntile::kernels::NNTILE_ISA
