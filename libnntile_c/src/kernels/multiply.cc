// SPDX-License-Identifier: BSD-3-Clause
// One matrix product by OpenBLAS or oneDNN, one thread per call.
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>

#include <cblas.h>

#include "kernels/convert.hh"
#include "kernels/gemm.hh"

namespace nntile::kernels {
namespace {

// How BLAS sees a matrix: rows `ld` apart, transposed or not. A stride of a dim of size 1 has no
// meaning.
struct Order {
    bool ok, transposed;
    int64_t ld;
};
Order order_of(int64_t rows, int64_t columns, int64_t row, int64_t column) {
    const int64_t least = std::max<int64_t>(columns, 1);
    if ((columns <= 1 || column == 1) && (rows <= 1 || row >= least))
        return {true, false, rows <= 1 ? least : row};
    const int64_t tall = std::max<int64_t>(rows, 1);
    if ((rows <= 1 || row == 1) && (columns <= 1 || column >= tall))
        return {true, true, columns <= 1 ? tall : column};
    return {false, false, 0};
}
Order order_of(const Matrix& x, int64_t rows, int64_t columns) {
    return order_of(rows, columns, x.row, x.column);
}
bool fits(const Order& order) { return order.ok && order.ld <= INT_MAX; }

template <class T>
inline constexpr Compute compute_type = sizeof(T) == 4          ? compute_f32
                                        : std::is_integral_v<T> ? compute_i64
                                                                : compute_f64;

// What `count` elements of row i of y hold before the product is added.
template <class T>
void start(const Product& p, int64_t i, int64_t j, int64_t count, T* out) {
    if (p.accumulate) {
        loader(p.y.dtype, compute_type<T>)(p.y.at(i, j), out, p.y.column, count);
    } else if (p.c.data) {
        loader(p.c.dtype, compute_type<T>)(p.c.at(i, j), out, p.c.column, count);
        if (p.beta == 1) return;
        for (int64_t l = 0; l < count; ++l)
            out[l] *= static_cast<T>(p.beta);  // of integers only its whole part counts
    } else {
        std::fill_n(out, count, T{});
    }
}

// y = beta * y + alpha * x @ v. A product of one row or column packs its matrix, which takes longer
// than to read it.
template <class T>
void matrix_vector(int64_t rows, int64_t columns, double alpha, const T* x, const Order& order,
                   const T* v, int64_t step, double beta, T* y, int64_t y_step) {
    if (beta == 0) {  // not what 0 * nan is
        for (int64_t i = 0; i < rows; ++i) y[i * y_step] = 0;
        beta = 1;
    }
    const auto transposed = order.transposed ? CblasTrans : CblasNoTrans;
    const int m = static_cast<int>(order.transposed ? columns : rows),
              ld = static_cast<int>(order.ld);
    const int n = static_cast<int>(order.transposed ? rows : columns);
    const int inc = static_cast<int>(step), y_inc = static_cast<int>(y_step);
    if constexpr (sizeof(T) == 4)
        scipy_cblas_sgemv(CblasRowMajor, transposed, m, n, static_cast<T>(alpha), x, ld, v, inc,
                          static_cast<T>(beta), y, y_inc);
    else scipy_cblas_dgemv(CblasRowMajor, transposed, m, n, alpha, x, ld, v, inc, beta, y, y_inc);
}

// Of float32.
Matrix matrix(const void* data, const Order& order) {
    auto* bytes = static_cast<std::byte*>(const_cast<void*>(data));
    return order.transposed ? Matrix{bytes, DType::f32, 1, order.ld}
                            : Matrix{bytes, DType::f32, order.ld, 1};
}

template <class T>
void blas(int64_t m, int64_t n, int64_t k, double alpha, const void* a, const Order& oa,
          const void* b, const Order& ob, double beta, void* y, int64_t ld) {
    const auto ta = oa.transposed ? CblasTrans : CblasNoTrans,
               tb = ob.transposed ? CblasTrans : CblasNoTrans;
    const int im = static_cast<int>(m), in = static_cast<int>(n), ik = static_cast<int>(k);
    const int lda = static_cast<int>(oa.ld), ldb = static_cast<int>(ob.ld),
              ldy = static_cast<int>(ld);
    const T *x = static_cast<const T*>(a), *w = static_cast<const T*>(b);
    if (alpha == 0 && beta == 0) {  // oneDNN takes it for 0 * y, of what was there before
        for (int64_t i = 0; i < m; ++i) std::fill_n(static_cast<T*>(y) + i * ld, n, T(0));
        return;
    }
    if (n == 1)
        return matrix_vector(m, k, alpha, x, oa, w, ob.transposed ? 1 : ob.ld, beta,
                             static_cast<T*>(y), ld);
    if (m == 1)
        return matrix_vector(n, k, alpha, w, {true, !ob.transposed, ob.ld}, x,
                             oa.transposed ? oa.ld : 1, beta, static_cast<T*>(y), 1);
    if constexpr (sizeof(T) == 4) {
        if (multiply_float({m,
                            n,
                            k,
                            matrix(a, oa),
                            matrix(b, ob),
                            {},
                            matrix(y, {true, false, ld}),
                            alpha,
                            0,
                            beta != 0}))
            return;
        scipy_cblas_sgemm(CblasRowMajor, ta, tb, im, in, ik, static_cast<T>(alpha), x, lda, w, ldb,
                          static_cast<T>(beta), static_cast<T*>(y), ldy);
    } else {
        scipy_cblas_dgemm(CblasRowMajor, ta, tb, im, in, ik, alpha, x, lda, w, ldb, beta,
                          static_cast<T*>(y), ldy);
    }
}

constexpr int64_t row_bytes = 4096;

// OpenBLAS from 0.3.31 on keeps the offsets of a small product of two transposed matrices in a
// static array (AVX-512, float), so that two threads write into each other's memory: see
// test_threads.cc. Such products go through panels, of which one is not transposed.
template <class T>
inline constexpr bool unsafe_transposed = sizeof(T) == 4;

// Every operand as it lies. False: BLAS cannot read it so.
template <class T>
bool multiply_in_place(const Product& p) {
    constexpr DType dtype = dtype_of(compute_type<T>);
    const Order y = order_of(p.y, p.m, p.n);
    if (fits(y) && y.transposed) return multiply_in_place<T>(p.transposed());
    const Order a = order_of(p.a, p.m, p.k), b = order_of(p.b, p.k, p.n);
    if (p.a.dtype != dtype || p.b.dtype != dtype || p.y.dtype != dtype || !fits(a) || !fits(b) ||
        !fits(y) || std::max({p.m, p.n, p.k}) > INT_MAX ||
        (unsafe_transposed<T> && a.transposed && b.transposed &&
         double(p.m) * double(p.n) * double(p.k) <= small_volume))
        return false;
    const bool prepare = !p.accumulate && (p.c.data || p.k == 0);
    if constexpr (sizeof(T) == 4)
        if (prepare && p.k > 0 && multiply_float(p)) return true;
    if (prepare) {
        alignas(64) T row[row_bytes / sizeof(T)];
        constexpr int64_t chunk = row_bytes / sizeof(T);
        for (int64_t i = 0; i < p.m; ++i)
            for (int64_t j = 0; j < p.n; j += chunk) {
                const int64_t count = std::min(chunk, p.n - j);
                start(p, i, j, count, row);
                std::copy_n(row, count, reinterpret_cast<T*>(p.y.at(i, j)));
            }
    }
    if (p.k > 0)
        blas<T>(p.m, p.n, p.k, p.alpha, p.a.data, a, p.b.data, b, prepare || p.accumulate ? 1 : 0,
                p.y.data, y.ld);
    return true;
}

// ---- panels
constexpr int64_t panel = 384;

bool is_transposed(const Matrix& x) { return std::abs(x.column) > std::abs(x.row); }

// A block in the order in which it is read best, so that no conversion walks across memory.
template <class T>
Order pack(const Matrix& x, int64_t rows, int64_t columns, T* to, bool as_rows = false) {
    if (!as_rows && is_transposed(x)) {
        pack(x.transposed(), columns, rows, to);
        return {true, true, rows};
    }
    const Convert load = loader(x.dtype, compute_type<T>);
    for (int64_t i = 0; i < rows; ++i) load(x.at(i, 0), to + i * columns, x.column, columns);
    return {true, false, columns};
}

template <class T>
T* panels() {  // three of the thread's own, kept
    constexpr size_t bytes = 3 * panel * panel * sizeof(double) + 64;
    thread_local std::unique_ptr<std::byte[]> memory(new std::byte[bytes]);
    void* start = memory.get();
    size_t space = bytes;
    return static_cast<T*>(std::align(64, bytes - 64, start, space));
}

template <class T>
void multiply_panels(const Product& p) {
    T *a = panels<T>(), *b = a + panel * panel, *y = b + panel * panel;
    const Convert store = storer(compute_type<T>, p.y.dtype);
    const bool rows = unsafe_transposed<T> && is_transposed(p.a) && is_transposed(p.b);
    for (int64_t i = 0; i < p.m; i += panel)
        for (int64_t j = 0; j < p.n; j += panel) {
            const int64_t m = std::min(panel, p.m - i), n = std::min(panel, p.n - j);
            for (int64_t r = 0; r < m; ++r) start(p, i + r, j, n, y + r * n);
            for (int64_t l = 0; l < p.k; l += panel) {
                const int64_t k = std::min(panel, p.k - l);
                const Order oa = pack(p.a.block(i, l), m, k, a, rows),
                            ob = pack(p.b.block(l, j), k, n, b);
                blas<T>(m, n, k, p.alpha, a, oa, b, ob, 1, y, n);
            }
            for (int64_t r = 0; r < m; ++r) store(y + r * n, p.y.at(i + r, j), p.y.column, n);
        }
}

void multiply_integers(const Product& p) {
    constexpr int64_t chunk = row_bytes / sizeof(int64_t);
    int64_t sum[chunk], row[chunk];
    const Convert load = loader(p.b.dtype, compute_i64), store = storer(compute_i64, p.y.dtype);
    const Convert load_a = loader(p.a.dtype, compute_i64);
    for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; j += chunk) {
            const int64_t n = std::min(chunk, p.n - j);
            start(p, i, j, n, sum);
            for (int64_t l = 0; l < p.k; ++l) {
                int64_t a;
                load_a(p.a.at(i, l), &a, 1, 1);
                a *= static_cast<int64_t>(p.alpha);
                load(p.b.at(l, j), row, p.b.column, n);
                for (int64_t c = 0; c < n; ++c) sum[c] += a * row[c];
            }
            store(sum, p.y.at(i, j), p.y.column, n);
        }
}

template <class T>
void multiply_as(const Product& p) {
    if (!multiply_in_place<T>(p)) multiply_panels<T>(p);
}

}  // namespace

void start_row(const Product& p, int64_t i, int64_t j, int64_t count, float* out) {
    start(p, i, j, count, out);
}

void multiply(const Product& p) {
    switch (compute_of(p.y.dtype)) {
        case compute_f32:
            return is_short_float(p.a.dtype) && multiply_short(p) ? void() : multiply_as<float>(p);
        case compute_f64: return multiply_as<double>(p);
        default: return multiply_integers(p);
    }
}

bool gemm_layout_ok(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride) {
    return fits(order_of(rows, columns, row_stride, column_stride));
}

void single_thread_blas() { scipy_openblas_set_num_threads(1); }

}  // namespace nntile::kernels
