// SPDX-License-Identifier: BSD-3-Clause
// Workers multiply at the same time, and BLAS must bear it: OpenBLAS 0.3.31 to 0.3.34 kept the
// offsets of a small transposed product in a static array, and wrote elements where the product of
// another thread had them.
#include <atomic>
#include <thread>
#include <vector>

#include "check.hh"
#include "kernels/gemm.hh"
#include "kernels/kernel.hh"

using namespace nntile;

namespace {

struct Shape {
    int64_t m, n, k;
};

// Elements of a product of ones that are not k.
template <class T>
int64_t wrong_elements(DType dtype, const Shape& s, bool transpose_a, bool transpose_b) {
    constexpr int64_t border = 2048;  // an element that lands elsewhere hurts nobody
    std::vector<T> a(s.m * s.k, 1), b(s.k * s.n, 1), y(s.m * s.n + 2 * border, -1);
    const auto matrix = [&](std::vector<T>& of, int64_t offset, int64_t rows, int64_t columns,
                            bool transpose) {
        auto* data = reinterpret_cast<std::byte*>(of.data() + offset);
        return transpose ? kernels::Matrix{data, dtype, 1, rows}
                         : kernels::Matrix{data, dtype, columns, 1};
    };
    kernels::multiply({s.m,
                       s.n,
                       s.k,
                       matrix(a, 0, s.m, s.k, transpose_a),
                       matrix(b, 0, s.k, s.n, transpose_b),
                       {},
                       matrix(y, border, s.m, s.n, false),
                       1,
                       0,
                       false});
    int64_t wrong = 0;
    for (int64_t i = 0; i < s.m * s.n; ++i) wrong += y[border + i] != static_cast<T>(s.k);
    return wrong;
}

template <class T>
void test_products(DType dtype, const std::vector<Shape>& shapes, int times) {
    for (bool a : {false, true})
        for (bool b : {false, true}) {
            std::atomic<int64_t> wrong{0};
            std::vector<std::thread> threads;
            for (const Shape& shape : shapes)
                threads.emplace_back([&, shape] {
                    for (int i = 0; i < times; ++i) wrong += wrong_elements<T>(dtype, shape, a, b);
                });
            for (std::thread& t : threads) t.join();
            if (wrong)
                std::printf("%s, transposed %d %d: %lld elements\n", name_of(dtype), a, b,
                            (long long)wrong);
            CHECK(wrong == 0);
        }
}

}  // namespace

int main() {
    kernels::single_thread_blas();
    const std::vector<Shape> small = {{13, 8, 5}, {5, 13, 8}, {8, 5, 13}, {3, 37, 7}};
    test_products<float>(DType::f32, small, 30'000);
    test_products<double>(DType::f64, small, 30'000);
    // of the other library
    test_products<float>(DType::f32, {{13, 260, 300}, {130, 90, 100}, {300, 16, 256}}, 500);
    return test::result();
}
