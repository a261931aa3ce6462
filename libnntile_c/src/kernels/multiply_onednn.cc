// SPDX-License-Identifier: BSD-3-Clause
// Products by oneDNN, one call on one thread. Of bfloat16 and float16 where the CPU has
// instructions for them: its matmul sums in float32 and rounds once, as the panels of multiply.cc
// do. Of float32 where it is faster than OpenBLAS. Primitives are kept by shape for each thread.
#include "kernels/gemm.hh"

#ifdef NNTILE_HAVE_ONEDNN

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <string_view>
#include <unordered_map>

#include "kernels/convert.hh"
#include "kernels/isa.hh"
#include "kernels/onednn.hh"
#include "kernels/scratch.hh"

namespace nntile::kernels {
namespace {

using dnnl::memory;

constexpr size_t most_products = 128;  // that a thread keeps; a loop of one model needs some dozens
constexpr int64_t panel_bytes = 1 << 20;  // of sums in float32 that wait for their rounding

// Rows or columns that lie dense, any distance apart. A stride of a dim of one element has no
// meaning.
bool is_plain(const Matrix& x, int64_t rows, int64_t columns) {
    const bool by_rows = (x.column == 1 || columns == 1) && (x.row >= columns || rows == 1);
    const bool by_columns = (x.row == 1 || rows == 1) && (x.column >= rows || columns == 1);
    return by_rows || by_columns;
}

// Of `count` matrices, `step` elements apart; one for all, if that is 0.
memory::desc desc_of(const Matrix& x, int64_t rows, int64_t columns, int64_t count, int64_t step) {
    const bool by_columns = columns > 1 && x.column != 1;
    memory::dims sizes{rows, columns}, strides = by_columns
                                                     ? memory::dims{1, x.column}
                                                     : memory::dims{rows > 1 ? x.row : columns, 1};
    if (count > 1) {
        sizes.insert(sizes.begin(), step == 0 ? 1 : count);
        strides.insert(strides.begin(), step == 0 ? rows * columns : step);
    }
    return {sizes, type_of(x.dtype), strides};
}

// A row that is added to each row of the result.
bool is_bias(const Product& p) {
    return p.c.data && !p.accumulate && p.beta == 1 && (p.c.row == 0 || p.m == 1) &&
           (p.c.column == 1 || p.n == 1) && (p.c.dtype == DType::f32 || p.c.dtype == p.a.dtype);
}

struct Known {
    memory::desc a, b, y, bias, scratchpad;
    dnnl::matmul product;  // empty: the library has a plain loop only
};

Known make(const Product& p, const Matrix& y, int64_t m, bool add) {
    Known known{desc_of(p.a, m, p.k, p.count, p.step_a),
                desc_of(p.b, p.k, p.n, p.count, p.step_b),
                desc_of(y, m, p.n, p.count, p.step_y),
                {},
                {},
                {}};
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (add) {
        dnnl::post_ops sum;
        sum.append_sum();
        attr.set_post_ops(sum);
    }
    constexpr bool allow_empty = true;
    if (is_bias(p)) known.bias = desc_of({nullptr, p.c.dtype, p.n, 1}, 1, p.n, p.count, 0);
    const dnnl::matmul::primitive_desc desc(dnn_engine(), known.a, known.b, known.bias, known.y,
                                            attr, allow_empty);
    if (!desc || std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos)
        return known;
    known.scratchpad = desc.scratchpad_desc();
    known.product = dnnl::matmul(desc);
    return known;
}

// y (m, n) = a (m, k) @ b, of m rows of p; added to what is there.
const Known& known_for(const Product& p, const Matrix& y, int64_t m, bool add) {
    using Key = std::array<int64_t, 17>;
    thread_local std::map<Key, Known> all;
    const Key key{m,
                  p.n,
                  p.k,
                  p.a.row,
                  p.a.column,
                  p.b.row,
                  p.b.column,
                  y.row,
                  y.column,
                  int64_t(p.a.dtype),
                  int64_t(y.dtype),
                  add,
                  p.count,
                  p.step_a,
                  p.step_b,
                  p.step_y,
                  int64_t(is_bias(p) ? p.c.dtype : DType::none)};
    if (all.size() >= most_products && !all.count(key)) all.clear();
    const auto at = all.find(key);
    return at != all.end() ? at->second : all.emplace(key, make(p, y, m, add)).first->second;
}

void run(const Known& known, const Product& p, const Matrix& a, const Matrix& y,
         std::byte* scratchpad) {
    std::unordered_map<int, memory> operands{
        {DNNL_ARG_SRC, {known.a, dnn_engine(), a.data}},
        {DNNL_ARG_WEIGHTS, {known.b, dnn_engine(), p.b.data}},
        {DNNL_ARG_DST, {known.y, dnn_engine(), y.data}},
        {DNNL_ARG_SCRATCHPAD, {known.scratchpad, dnn_engine(), scratchpad}}};
    if (is_bias(p)) operands.insert({DNNL_ARG_BIAS, {known.bias, dnn_engine(), p.c.data}});
    known.product.execute(dnn_stream(), operands);
}

// A primitive takes a quarter of a millisecond to make, for each shape once, so small products have
// none. With AVX-512 it is the fastest code for what is large enough: decision 0070.
bool is_for_primitive(const Product& p, bool a_transposed, bool b_transposed) {
    constexpr int64_t long_sum = 1024;
    if (chosen_isa() != Isa::avx512 || p.alpha != 1 ||
        double(p.m) * double(p.n) * double(p.k) <= small_volume)
        return false;
    if (b_transposed) return a_transposed ? p.m >= 8 && p.n >= 64 : p.m >= 16 && p.n >= 16;
    return p.n >= 64 && p.m >= (a_transposed ? 256 : 64) && p.k <= long_sum;
}

// Whether dnnl_sgemm takes less time than OpenBLAS. It packs no more than it must, so that products
// with a short side take two thirds of OpenBLAS's time, and large ones nine tenths. OpenBLAS has
// other code for small ones, which packs nothing, and is faster for a transposed first operand with
// long sums. x @ w.T is a case of its own with AVX-512, where oneDNN packs w slowly: few rows or
// columns do not repay that, and OpenBLAS has no code for small ones. With AVX2 it reads rows of b
// as they lie, and those that are a multiple of 1 KiB apart drive each other out of the L1 cache.
bool is_for_sgemm(const Product& p, bool a_transposed, bool b_transposed) {
    constexpr int64_t short_sum = 256, few_rows = 256, least = 32, meeting = 256;
    if (chosen_isa() == Isa::avx2 && !b_transposed &&
        (a_transposed || (p.b.row > meeting && p.b.row % meeting == 0)))
        return false;
    if (!a_transposed && b_transposed && chosen_isa() == Isa::avx512)
        return p.n >= 128 ? p.m >= 16 || p.n * p.k >= 1 << 15 : p.n >= 16 && p.m > few_rows;
    const bool small = double(p.m) * double(p.n) * double(p.k) <= small_volume;
    return a_transposed ? !small && (p.k <= short_sum || (p.m <= few_rows && !b_transposed))
                        : !small || (b_transposed && std::min({p.m, p.n, p.k}) >= least);
}

// Rows that are no columns.
bool is_transposed(const Matrix& x, int64_t rows, int64_t columns) {
    return columns > 1 && (x.column != 1 || (rows > 1 && x.row < columns));
}
int64_t step_of(const Matrix& x, bool transposed, int64_t rows, int64_t columns) {
    if (transposed) return columns > 1 ? x.column : rows;
    return rows > 1 ? x.row : columns;
}

}  // namespace

bool has_short_products(DType dtype) { return has_instructions(dtype); }

bool multiply_short(const Product& p) {
    if (p.a.dtype != p.b.dtype || !has_instructions(p.a.dtype) || p.alpha != 1 || p.k == 0)
        return false;
    if (!is_plain(p.y, p.m, p.n)) return false;
    if (p.y.column != 1 && p.n > 1)
        return p.m == 1 || p.y.row == 1 ? multiply_short(p.transposed()) : false;
    if (!is_plain(p.a, p.m, p.k) || !is_plain(p.b, p.k, p.n)) return false;
    const auto apart = [&](const Matrix& x, int64_t rows, int64_t columns, int64_t step) {
        return lie_apart({p.count, rows, columns}, {step, x.row, x.column});
    };
    if (p.count > 1 && !(apart(p.a, p.m, p.k, p.step_a) && apart(p.b, p.k, p.n, p.step_b) &&
                         apart(p.y, p.m, p.n, p.step_y)))
        return false;
    const OneDnnThread one_thread;
    thread_local Scratch scratch;
    const bool in_place = p.accumulate && p.y.dtype == DType::f32;
    if (in_place || (!p.accumulate && !p.c.data) || is_bias(p)) {
        const Known& known = known_for(p, p.y, p.m, in_place);
        if (!known.product) return false;
        scratch.begin(known.scratchpad.get_size());
        run(known, p, p.a, p.y, scratch.take(known.scratchpad.get_size()));
        return true;
    }
    if (p.count > 1) return false;
    // What is added to is not rounded in between: sums of a panel of rows wait in float32.
    const int64_t rows =
        std::clamp<int64_t>(panel_bytes / (4 * p.n), std::min<int64_t>(p.m, 32), p.m);
    for (int64_t i = 0; i < p.m; i += rows) {
        const int64_t m = std::min(rows, p.m - i);
        Matrix sums{nullptr, DType::f32, p.n, 1};
        const Known& known = known_for(p, sums, m, true);
        if (!known.product) return false;  // of the first rows, so nothing is done yet
        const size_t bytes = static_cast<size_t>(m * p.n) * sizeof(float);
        scratch.begin(padded(bytes) + known.scratchpad.get_size());
        auto* sum = scratch.take<float>(static_cast<size_t>(m * p.n));
        sums.data = reinterpret_cast<std::byte*>(sum);
        for (int64_t r = 0; r < m; ++r) start_row(p, i + r, 0, p.n, sum + r * p.n);
        run(known, p, p.a.block(i, 0), sums, scratch.take(known.scratchpad.get_size()));
        const Convert store = storer(compute_f32, p.y.dtype);
        for (int64_t r = 0; r < m; ++r) store(sum + r * p.n, p.y.at(i + r, 0), p.y.column, p.n);
    }
    return true;
}

bool multiply_float(const Product& p) {
    const bool ta = is_transposed(p.a, p.m, p.k), tb = is_transposed(p.b, p.k, p.n);
    if (is_for_primitive(p, ta, tb) && (p.accumulate || !p.c.data || is_bias(p))) {
        const OneDnnThread one_thread;
        thread_local Scratch scratch;
        const Known& known = known_for(p, p.y, p.m, p.accumulate);
        if (known.product) {
            scratch.begin(known.scratchpad.get_size());
            run(known, p, p.a, p.y, scratch.take(known.scratchpad.get_size()));
            return true;
        }
    }
    if ((p.c.data && !p.accumulate) || !is_for_sgemm(p, ta, tb)) return false;
    const OneDnnThread one_thread;
    const auto data = [](const Matrix& x) { return reinterpret_cast<float*>(x.data); };
    return dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', p.m, p.n, p.k, static_cast<float>(p.alpha),
                      data(p.a), step_of(p.a, ta, p.m, p.k), data(p.b), step_of(p.b, tb, p.k, p.n),
                      p.accumulate ? 1 : 0, data(p.y),
                      step_of(p.y, false, p.m, p.n)) == dnnl_success;
}

}  // namespace nntile::kernels

#else

namespace nntile::kernels {

bool has_short_products(DType) { return false; }
bool multiply_short(const Product&) { return false; }
bool multiply_float(const Product&) { return false; }

}  // namespace nntile::kernels

#endif
