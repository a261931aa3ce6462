// SPDX-License-Identifier: BSD-3-Clause
// One matrix product of any dtypes and strides.
#pragma once

#include "kernels/kernel.hh"

namespace nntile::kernels {

struct Matrix {
    std::byte* data;  // nullptr: absent
    DType dtype;
    int64_t row, column;  // strides in elements

    std::byte* at(int64_t i, int64_t j) const {
        return data + (i * row + j * column) * size_of(dtype);
    }
    Matrix block(int64_t i, int64_t j) const {
        return {data ? at(i, j) : data, dtype, row, column};
    }
    Matrix transposed() const { return {data, dtype, column, row}; }
};

// y (m, n) = (accumulate ? y : beta * c) + alpha * a (m, k) @ b (k, n); or `count` of them, so many
// elements apart, with one c.
struct Product {
    int64_t m, n, k;
    Matrix a, b, c, y;
    double alpha, beta;
    bool accumulate;
    int64_t count = 1, step_a = 0, step_b = 0, step_y = 0;

    Product transposed() const {
        return {
            n,     m,    k,          b.transposed(), a.transposed(), c.transposed(), y.transposed(),
            alpha, beta, accumulate, count,          step_b,         step_a,         step_y};
    }
};

void multiply(const Product& p);
// By instructions for 16-bit floats, the only function that takes more than one. False: there are
// none for this CPU or these layouts, and nothing is done.
bool multiply_short(const Product& p);
bool has_short_products(DType dtype);  // whether there are such instructions
// Of float32 by oneDNN, where that takes less time than OpenBLAS. False: nothing is done.
bool multiply_float(const Product& p);
inline constexpr double small_volume = 1e6;  // m * n * k, up to which OpenBLAS does not pack
// What `count` elements of row i of y, from column j on, hold before the product is added.
void start_row(const Product& p, int64_t i, int64_t j, int64_t count, float* out);

}  // namespace nntile::kernels
