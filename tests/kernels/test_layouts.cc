// SPDX-License-Identifier: BSD-3-Clause
// Operands and results that lie in other orders: copies, scans, scatters, panels of rows.
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

// Both ways round, whole squares and what is left of them; turned: the last dims are read from
// their ends.
void test_turned_copies() {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8})
        for (Lie from : {Lie::dense, Lie::reversed, Lie::apart})
            for (Lie to : {Lie::dense, Lie::reversed, Lie::apart})
                for (const Index& sizes : {Index{64, 128},
                                           {67, 131},
                                           {1, 37},
                                           {37, 1},
                                           {0, 5},
                                           {3, 17, 101},
                                           {16, 5, 33},
                                           {70, 2},
                                           {2, 70},
                                           {131, 3},
                                           {3, 131},
                                           {37, 4},
                                           {4, 37}})
                    for (int64_t turned = 0; turned <= int64_t(sizes.size()); ++turned) {
                        Tensor x(dtype, sizes, from), y(dtype, sizes, to);
                        x.random(0, 200);
                        CHECK(run("flip", sizes, {&x, &y}, {integer(turned)}) == 0);
                        CHECK_VALUES(text_of("flip ", name_of(dtype), " ", turned), y, 0, 0,
                                     [&](Index at) {
                                         for (size_t d = sizes.size() - size_t(turned);
                                              d < sizes.size(); ++d)
                                             at[d] = sizes[d] - 1 - at[d];
                                         return x.get(at);
                                     });
                    }
}

// Parts of rows side by side, of several lengths, read as they lie or across; then parts that take
// turns.
void test_copies() {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8})
        for (Lie from : {Lie::dense, Lie::reversed, Lie::apart})
            for (const Index& rows : {Index{40}, {3, 5}, {1}, {0}})
                for (const Index& columns : {Index{3, 1021}, {64, 64, 7}, {600, 513}, {1, 2}}) {
                    int64_t width = 0, widest = 0;
                    std::vector<kernels::Param> params;
                    for (int64_t n : columns) {
                        for (int64_t number : {n, width}) params.push_back(integer(number));
                        width += n;
                        widest = std::max(widest, n);
                    }
                    Index shape = rows, sizes = rows;
                    shape.push_back(width), sizes.push_back(widest);
                    Tensor y(dtype, shape);
                    std::vector<Tensor> x;
                    std::vector<kernels::Block> blocks;
                    for (int64_t n : columns) {
                        Index own = rows;
                        own.push_back(n);
                        x.emplace_back(dtype, own, from).random(0, 200);
                    }
                    for (Tensor& t : x) blocks.push_back(t.block());
                    blocks.push_back(y.block());
                    CHECK(kernels::find_kernel("copies")->cpu({sizes, blocks, params}) == 0);
                    CHECK_VALUES(text_of("copies ", name_of(dtype)), y, 0, 0, [&](Index at) {
                        size_t k = 0;
                        for (; at.back() >= columns[k]; ++k) at.back() -= columns[k];
                        return x[k].get(at);
                    });
                }
    for (int64_t parts : {2, 3})
        for (int64_t n : {1, 70, 1100}) {
            Tensor y(DType::f32, {n, parts});
            std::vector<Tensor> x;
            std::vector<kernels::Block> blocks;
            std::vector<kernels::Param> params;
            for (int64_t k = 0; k < parts; ++k) x.emplace_back(DType::f32, Index{n}).random(0, 200);
            for (int64_t k = 0; k < parts; ++k) {
                blocks.push_back(x[size_t(k)].block());
                for (int64_t number : {n, k}) params.push_back(integer(number));
            }
            const int64_t sizes[] = {n}, step[] = {parts};
            blocks.push_back(y.block());
            blocks.back().strides = step;
            CHECK(kernels::find_kernel("copies")->cpu({sizes, blocks, params}) == 0);
            CHECK_VALUES("copies in turn", y, 0, 0,
                         [&](const Index& at) { return x[size_t(at[1])].get({at[0]}); });
        }
}

// Both sides of diagonals inside and outside of matrices, of which a task sees some rows.
void test_triangles() {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::u8})
        for (Lie from : {Lie::dense, Lie::reversed, Lie::apart})
            for (Lie to : {Lie::dense, Lie::reversed})
                for (const Index& sizes :
                     {Index{70, 67}, {1, 5}, {5, 1}, {0, 3}, {3, 40, 90}, {2, 90, 40}})
                    for (int64_t diagonal :
                         {int64_t{0}, int64_t{1}, int64_t{-3}, int64_t{35}, INT64_MIN, INT64_MAX})
                        for (int64_t upper : {0, 1})
                            for (int64_t first : {0, 33}) {
                                Tensor x(dtype, sizes, from), y(dtype, sizes, to);
                                x.random(1, 200);
                                const kernels::Param params[] = {integer(diagonal), integer(upper)};
                                const kernels::Block blocks[] = {x.block(), y.block()};
                                const kernels::Args args{sizes, blocks, params, nullptr, first};
                                CHECK(kernels::find_kernel("triangle")->cpu(args) == 0);
                                CHECK_VALUES(text_of("triangle ", diagonal, " ", upper), y, 0, 0,
                                             [&](const Index& at) {
                                                 const int64_t off =
                                                     at.back() - (at[at.size() - 2] + first);
                                                 return (upper ? off >= diagonal : off <= diagonal)
                                                            ? x.get(at)
                                                            : 0;
                                             });
                            }
}

// What n terms of [-2, 2] may differ by if a device joins them, in double, in another order: n u
// times the sum of their sizes.
double other_order(int64_t n) {
    return execute == on_cpu ? 0 : 2 * static_cast<double>(n * n) * epsilon(DType::f64);
}

// A line of results lies the other way than that of operands.
void test_scans() {
    for (DType dtype : {DType::f32, DType::f64, DType::i64})
        for (Lie from : {Lie::dense, Lie::reversed, Lie::gapped})
            for (Lie to : {Lie::dense, Lie::reversed, Lie::apart})
                for (const Index& sizes :
                     {Index{64, 64}, {67, 131}, {1, 70}, {70, 1}, {5, 0}, {0, 5}, {3, 65, 129}}) {
                    Tensor x(dtype, sizes, from), y(dtype, sizes, to);
                    x.random(-2, 2);
                    CHECK(run("scan", sizes, {&x, &y}, {integer(0)}) == 0);
                    const double eps = epsilon(dtype) * 8;
                    const double off = eps + other_order(sizes.back());
                    CHECK_VALUES(text_of("scan ", name_of(dtype)), y, eps, off, [&](Index at) {
                        double sum = 0;
                        for (int64_t end = at.back(), t = 0; t <= end; ++t)
                            at.back() = t, sum += x.get(at);
                        return sum;
                    });
                }
}

// Batches that lie innermost: rows of a scan take turns in memory, and channels lie beside none of
// the summed dims.
void test_innermost_batches() {
    for (DType dtype : {DType::f32, DType::f64})
        for (int64_t batch : {2, 5, 9}) {
            const Index sizes{batch, 7, 130};
            Tensor x(dtype, sizes, Index{1, 130 * batch, batch}), y(dtype, sizes);
            x.random(-2, 2);
            CHECK(run("scan", sizes, {&x, &y}, {integer(0)}) == 0);
            const double eps = epsilon(dtype) * 8;
            CHECK_VALUES("scan", y, eps, eps + other_order(sizes.back()), [&](Index at) {
                double sum = 0;
                for (int64_t end = at.back(), t = 0; t <= end; ++t) at.back() = t, sum += x.get(at);
                return sum;
            });
            for (const Index& summed : {Index{2}, {1}, {0}, {1, 2}}) {
                Tensor z(dtype, sizes, Index{1, 130 * batch, batch}),
                    shift(DType::f64, sizes, Lie::dense, summed),
                    first(DType::f64, sizes, Lie::dense, summed),
                    second(DType::f64, sizes, Lie::dense, summed);
                z.random(-2, 2), shift.random(-1, 1);
                CHECK(run("channel_sums", sizes, {&x, &z, &shift, &first, &second}, {integer(0)}) ==
                      0);
                const auto total = [&](const Index& at, bool product) {
                    double sum = 0;
                    Index part(3, 1);
                    for (int64_t d : summed) part[size_t(d)] = sizes[size_t(d)];
                    Tensor(DType::u8, part).each([&](Index j) {
                        for (size_t d = 0; d < 3; ++d) j[d] += at[d];
                        sum += x.get(j) * (product ? z.get(j) - shift.get(at) : 1);
                    });
                    return sum;
                };
                CHECK_VALUES("sums", first, 1e-12, 1e-12,
                             [&](const Index& at) { return total(at, false); });
                CHECK_VALUES("products", second, 1e-12, 1e-12,
                             [&](const Index& at) { return total(at, true); });
            }
        }
}

// Indices along the last dim, x and y of any layout: which loop is the inner one shows in no value.
void test_scatter_layouts() {
    for (DType dtype : {DType::f32, DType::bf16, DType::i64})
        for (Lie lie : {Lie::dense, Lie::reversed, Lie::gapped})
            for (Lie out : {Lie::dense, Lie::reversed})
                for (const Index& rows : {Index{7, 33}, {1, 5}, {3, 1}, {0, 4}}) {
                    const int64_t table = 11;
                    const Index sizes{rows[0], rows[1], table};  // own, more, table
                    Tensor base(dtype, sizes, out, {1}), y(dtype, sizes, out, {1});
                    Tensor x(dtype, sizes, lie, {2}), index(DType::i64, sizes, lie, {2});
                    base.random(0, 4), x.random(0, 4), index.random(0, double(table - 1));
                    // of dim, negative wrap, dims of more, mode add, with own, alpha
                    CHECK(run("scatter", sizes, {&base, &x, &index, &y},
                              {integer(1), integer(0), integer(1), integer(1), integer(1),
                               real(1)}) == 0);
                    const double eps = epsilon(dtype) * 40;
                    CHECK_VALUES(text_of("scatter ", name_of(dtype)), y, eps, eps,
                                 [&](const Index& at) {
                                     double sum = base.get(at);
                                     for (int64_t j = 0; j < rows[1]; ++j)
                                         if (index.get({at[0], j, 0}) == double(at[2]))
                                             sum += x.get({at[0], j, 0});
                                     return sum;
                                 });
                }
}

// A number goes to each place, as a value of f64 that all share.
void test_scatter_of_a_number() {
    for (DType dtype : {DType::f32, DType::f64, DType::bf16})
        for (int64_t more : {1, 300}) {
            const Index sizes{5, more, 700};
            Tensor y(dtype, sizes, Lie::dense, {1}), x(DType::f64, sizes, Lie::dense, {0, 1, 2});
            Tensor index(DType::i64, sizes, Lie::dense, {2});
            y.fill([] { return 3.0; }), x.fill([] { return 0.5; }), index.random(0, 699);
            CHECK(run("scatter", sizes, {&y, &x, &index, &y},
                      {integer(1), integer(0), integer(1), integer(0), integer(1), real(1)}) == 0);
            CHECK_VALUES(text_of("scatter of a number ", name_of(dtype)), y, 0, 0,
                         [&](const Index& at) {
                             for (int64_t j = 0; j < more; ++j)
                                 if (index.get({at[0], j, 0}) == double(at[2])) return 0.5;
                             return 3.0;
                         });
        }
}

// Rows are packed where x, y or both lie apart; in place too.
void test_panels_of_rows() {
    for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
        for (Lie from : lies)
            for (Lie to : lies)
                for (const Index& sizes : {Index{67, 131}, {3, 17, 64}, {130, 1}, {1, 130}}) {
                    Tensor x(dtype, sizes, from), y(dtype, sizes, to), dense(dtype, sizes),
                        want(dtype, sizes);
                    x.random(-3, 3);
                    x.each([&](const Index& at) { dense.set(at, x.get(at)); });
                    for (const char* name : {"softmax", "log_softmax"}) {
                        CHECK(run(name, sizes, {&dense, &want}) == 0);
                        CHECK(run(name, sizes, {&x, &y}) == 0);
                        CHECK_VALUES(name, y, epsilon(dtype) * 8, epsilon(dtype) * 8,
                                     [&](const Index& at) { return want.get(at); });
                    }
                    kernels::Block blocks[] = {x.block(), x.block()};
                    CHECK(kernels::find_kernel("log_softmax")->cpu({sizes, blocks, {}}) == 0);
                    CHECK_VALUES("in place", x, epsilon(dtype) * 8, epsilon(dtype) * 8,
                                 [&](const Index& at) { return want.get(at); });
                }
}

}  // namespace

int main() {
    test_turned_copies();
    test_copies();
    test_triangles();
    test_scans();
    test_innermost_batches();
    test_scatter_layouts();
    test_scatter_of_a_number();
    test_panels_of_rows();
    return result();
}
