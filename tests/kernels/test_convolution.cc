// SPDX-License-Identifier: BSD-3-Clause
// Convolutions against plain loops, and which code of oneDNN they take: never its reference code,
// which is a hundred times slower. Run it with ONEDNN_MAX_CPU_ISA=AVX2, too: there is other code
// for other CPUs.
#include <numeric>

#include "kernels/functions.hh"
#include "tensor.hh"

using namespace nntile;
using namespace nntile::test;

namespace {

struct Shape {
    int64_t n, c, co;
    Index x, w;
    int64_t stride = 1, padding = 0, dilation = 1, groups = 1;

    Index y() const {
        Index y;
        for (size_t d = 0; d < x.size(); ++d)
            y.push_back((x[d] + 2 * padding - dilation * (w[d] - 1) - 1) / stride + 1);
        return y;
    }
    Index sizes() const {
        Index all{n, co, c, groups > 1 ? c / groups : 1};
        for (const Index& dims : {y(), x, w}) all.insert(all.end(), dims.begin(), dims.end());
        return all;
    }
    std::string text() const {
        std::string out = text_of(n, " x ", c, " -> ", co, ", image");
        for (int64_t v : x) out += text_of(" ", v);
        out += ", window";
        for (int64_t v : w) out += text_of(" ", v);
        return text_of(out, ", stride ", stride, ", padding ", padding, ", dilation ", dilation,
                       ", groups ", groups);
    }
};

// How an image lies. alone: as a tile of one image that was cut out of a batch, the stride of the
// batch is 0.
enum class Order { usual, last, alone, permuted, sliced, repeated };
constexpr Order orders[] = {Order::usual,    Order::last,   Order::alone,
                            Order::permuted, Order::sliced, Order::repeated};

// The operand 'x', 'w', 'b' or 'y' of the task, with some of its dims.
Tensor operand(const Shape& s, char name, Order order, DType dtype = DType::f32) {
    const auto rank = static_cast<int64_t>(s.x.size());
    Index dims = name == 'w'   ? Index{1, s.groups > 1 ? 3 : 2}
                 : name == 'b' ? Index{1}
                               : Index{0, name == 'x' ? 2 : 1};
    const int64_t first = name == 'y' ? 4 : name == 'x' ? 4 + rank : 4 + 2 * rank;
    if (name != 'b')
        for (int64_t d = 0; d < rank; ++d) dims.push_back(first + d);
    const Index sizes = s.sizes();
    Index strides(sizes.size(), 0), inner = dims;
    if (order == Order::last || order == Order::alone)
        std::rotate(inner.begin() + 1, inner.begin() + 2, inner.end());
    if (order == Order::permuted) std::reverse(inner.begin(), inner.end());
    int64_t step = order == Order::repeated ? 0 : 1;  // repeated: each element is the first one
    for (size_t k = inner.size(); k-- > 0;) {
        strides[inner[k]] = step;
        step *= sizes[inner[k]];
        if (order == Order::sliced) step += 3;
    }
    if (order == Order::alone) strides[0] = 0;
    return {dtype, sizes, strides};
}

struct Operands {
    std::string kernel;
    std::vector<Tensor> tensors;
    std::vector<kernels::Param> params;
};

std::vector<Operands> calls(const Shape& s, Order x, Order y, DType dtype = DType::f32) {
    std::vector<kernels::Param> window{integer(s.groups)};
    for (int64_t v : {s.stride, s.padding, s.dilation})
        window.insert(window.end(), s.x.size(), integer(v));
    std::vector<kernels::Param> summed = window;
    summed.insert(summed.begin(), integer(0));
    const auto make = [&](char name, Order order) { return operand(s, name, order, dtype); };
    const auto written = [&](Order order) {
        return order == Order::repeated ? Order::usual : order;
    };
    const Order w = x == Order::last ? x : Order::usual;
    return {
        {"convolution",
         {make('x', x), make('w', w), make('b', Order::usual), make('y', written(y))},
         window},
        {"convolution_backward_input", {make('y', y), make('w', w), make('x', written(x))}, window},
        {"convolution_backward_weight", {make('y', y), make('x', x), make('w', w)}, summed}};
}

std::string code_of(const Shape& s, Operands& o) {
    std::vector<kernels::Block> blocks;
    for (Tensor& t : o.tensors) blocks.push_back(t.block());
    const Index sizes = s.sizes();
    char text[kernels::error_text_bytes] = "";
    return kernels::convolution_code({sizes, blocks, o.params, nullptr, 0, nullptr, text},
                                     o.kernel);
}

void check_code(const Shape& s, Order x, Order y) {
    for (Operands& o : calls(s, x, y)) {
        const std::string code = code_of(s, o);
        for (const char* slow : {"ref", "simple", "none"})
            if (code.empty() || code.find(slow) != code.npos)
                report(__FILE__, __LINE__,
                       text_of(o.kernel, " of ", s.text(), ", orders ", int(x), " ", int(y),
                               " takes ", code));
    }
}

Shape image(int64_t c, int64_t co, int64_t side, int64_t window, int64_t stride = 1,
            int64_t padding = -1, int64_t groups = 1) {
    return {
        1, c,     co, {side, side}, {window, window}, stride, padding < 0 ? window / 2 : padding,
        1, groups};
}

void test_code() {
    const Shape shapes[] = {
        image(3, 32, 32, 3),
        image(32, 32, 32, 3),
        image(32, 64, 16, 1),
        image(4, 4, 16, 1),
        image(64, 8, 16, 3),
        image(32, 3, 32, 3),
        image(3, 32, 64, 3, 2),
        image(64, 64, 28, 3),
        image(48, 48, 14, 3),
        image(64, 128, 28, 1, 2, 0),
        image(512, 512, 1, 3),
        image(256, 512, 2, 3, 2),
        image(1, 64, 28, 7, 2),
        image(1, 6, 28, 5),
        image(13, 17, 19, 3),
        image(256, 16, 1, 1),
        image(16, 256, 1, 1),
        // windows that do not overlap
        image(3, 192, 32, 4, 4, 0),
        image(3, 192, 64, 16, 16, 0),
        image(96, 192, 28, 2, 2, 0),
        // groups
        image(256, 256, 28, 3, 1, 1, 256),
        image(256, 256, 28, 3, 2, 1, 256),
        image(24, 24, 28, 7, 1, 3, 24),
        image(96, 96, 14, 5, 1, 2, 96),
        image(32, 64, 14, 3, 1, 1, 32),
        image(64, 64, 14, 3, 1, 1, 4),
        image(30, 60, 14, 3, 1, 1, 3),
        image(128, 128, 14, 3, 1, 1, 32),
        {1, 32, 32, {28, 28}, {3, 3}, 1, 2, 2},
        {1, 64, 64, {256}, {3}, 1, 1},
        {1, 1, 512, {400}, {10}, 5},
        {1, 256, 256, {64}, {4}, 1, 3, 1, 256},
        {1, 32, 32, {256}, {3}, 1, 4, 4},
        {1, 3, 16, {8, 16, 16}, {3, 3, 3}, 1, 1},
        {1, 3, 64, {8, 32, 32}, {4, 4, 4}, 4},
        {1, 16, 16, {8, 8, 8}, {3, 3, 3}, 1, 1, 1, 16},
        {1, 24, 24, {8, 8, 8}, {1, 3, 3}, 2, 0, 1, 24},
        {1, 16, 32, {8, 8, 8}, {3, 3, 3}, 1, 1, 1, 16},
        {1, 16, 16, {8, 8, 8}, {3, 3, 3}, 1, 1, 1, 4},
    };
    for (Shape s : shapes)
        for (int64_t n : {1, 2, 16}) {
            s.n = n;
            for (Order order : orders)
                if (order != Order::alone || n == 1) check_code(s, order, order);
            check_code(s, Order::usual, Order::last);
            check_code(s, Order::last, Order::usual);
            check_code(s, Order::last, Order::repeated);
            check_code(s, Order::usual, Order::repeated);
        }
}

// The weight as it lies, in a product with patches, where pixels are few.
void test_products() {
    const auto check = [](const Shape& s, std::array<bool, 3> products) {
        for (Order order : {Order::usual, Order::last}) {
            auto all = calls(s, order, order);
            for (size_t k = 0; k < all.size(); ++k)
                if ((code_of(s, all[k]) == "product") != products[k])
                    report(__FILE__, __LINE__, text_of(all[k].kernel, " of ", s.text()));
        }
    };
    Shape s = image(16, 64, 2, 3);
    check(s, {true, true, true});
    s.n = 3;  // pixels are more than an eighth, a sixth, a half of the channels
    check(s, {false, false, true});
    s.n = 9;
    check(s, {false, false, false});
    check(image(64, 64, 1, 3), {false, false, false});  // eight taps meet padding only
    check(image(64, 64, 2, 3, 1, 1, 4), {false, false, false});
}

// The sum of convolutions of planes, where the library has code for images alone.
void test_planes() {
    const Shape volumes{2, 16, 16, {8, 8, 8}, {3, 3, 3}, 1, 1, 1, 16};
    for (Order order : orders)
        if (order != Order::alone)
            for (Operands& o : calls(volumes, order, order)) CHECK(code_of(volumes, o) == "planes");
}

// Each product of the convolution: index of y, of x and of w in the task's dims.
template <class Visit>
void each_product(const Shape& s, Visit&& visit) {
    const size_t rank = s.x.size();
    const int64_t own = s.c / s.groups, made = s.co / s.groups;
    Index bounds{s.n, s.co, own};
    for (int64_t v : s.y()) bounds.push_back(v);
    bounds.insert(bounds.end(), s.w.begin(), s.w.end());
    const int64_t count =
        std::accumulate(bounds.begin(), bounds.end(), int64_t{1}, std::multiplies<>());
    for (int64_t i = 0; i < count; ++i) {
        Index at(bounds.size());
        int64_t rest = i;
        for (size_t d = bounds.size(); d-- > 0; rest /= bounds[d]) at[d] = rest % bounds[d];
        Index y(s.sizes().size(), 0), x = y, w = y;
        y[0] = x[0] = at[0];
        y[1] = w[1] = at[1];
        x[2] = at[1] / made * own + at[2];
        w[s.groups > 1 ? 3 : 2] = at[2];
        bool inside = true;
        for (size_t d = 0; d < rank; ++d) {
            const int64_t o = at[3 + d], tap = at[3 + rank + d],
                          from = o * s.stride - s.padding + tap * s.dilation;
            inside &= from >= 0 && from < s.x[d];
            y[4 + d] = o;
            x[4 + rank + d] = from;
            w[4 + 2 * rank + d] = tap;
        }
        if (inside) visit(y, x, w);
    }
}

void check_numbers(const Shape& s, Order x_order, Order y_order, DType dtype) {
    for (Operands& o : calls(s, x_order, y_order, dtype)) {
        std::vector<Tensor*> pointers;
        for (Tensor& t : o.tensors) pointers.push_back(&t.random());
        const char* names = o.tensors.size() == 4         ? "xwby"
                            : o.kernel.ends_with("input") ? "ywx"
                                                          : "yxw";
        const char made = names[o.tensors.size() - 1];
        Tensor& result = o.tensors.back();
        Tensor want(DType::f64, result.sizes, result.strides);
        want.each([&](const Index& at) {
            want.set(at, o.tensors.size() == 4 ? o.tensors[2].get({0, at[1]}) : 0);
        });
        each_product(s, [&](const Index& y, const Index& x, const Index& w) {
            const Index& to = made == 'y' ? y : made == 'x' ? x : w;
            double product = 1;
            for (int k = 0; k < 2; ++k)
                product *= o.tensors[k].get(names[k] == 'y' ? y : names[k] == 'x' ? x : w);
            want.set(to, want.get(to) + product);
        });
        const auto check = [&](double times) {
            CHECK(run(o.kernel, s.sizes(), pointers, o.params) == 0);
            CHECK_VALUES(
                text_of(o.kernel, " of ", s.text(), ", orders ", int(x_order), " ", int(y_order)),
                result, 32 * epsilon(dtype), 1000 * epsilon(DType::f32),
                [&](const Index& at) { return times * want.get(at); });
        };
        check(1);
        if (made != 'w') continue;
        if (dtype == DType::f32) {
            o.params[0].i = 1;  // is added to what is there
            check(2);
            continue;
        }
        // Parts of a batch are summed in float32.
        Tensor sum(DType::f32, result.sizes, result.strides);
        pointers.back() = &sum.random();
        for (int64_t times : {1, 2}) {
            o.params[0].i = times - 1;
            CHECK(run(o.kernel, s.sizes(), pointers, o.params) == 0);
            CHECK_VALUES(text_of("sums of ", o.kernel, " of ", s.text()), sum, 1e-4,
                         1000 * epsilon(DType::f32), [&](const Index& at) {
                             return static_cast<double>(times) * want.get(at);
                         });
        }
    }
}

void test_numbers() {
    const Shape shapes[] = {
        {1, 8, 6, {5, 4}, {3, 3}, 1, 1},
        {2, 3, 16, {8, 8}, {4, 4}, 4},
        {2, 16, 16, {1, 1}, {3, 3}, 1, 1},
        {2, 8, 8, {2, 2}, {3, 3}, 2, 1},
        {1, 4, 4, {1, 3}, {5, 5}, 1, 2},
        {2, 4, 4, {2, 1}, {3, 3}, 1, 2, 2},
        {1, 2, 2, {1, 1}, {1, 1}, 3, 1},
        {2, 6, 9, {7, 7}, {3, 3}, 1, 1, 1, 3},
        {2, 16, 16, {6, 6}, {3, 3}, 2, 1, 1, 16},
        {1, 8, 8, {1, 1}, {3, 3}, 1, 1, 1, 8},
        {2, 5, 4, {9}, {3}, 2, 2, 3},
        {1, 3, 4, {3, 4, 5}, {2, 3, 2}, 1, 1},
        // products, of some kinds or of all
        {2, 5, 70, {2, 2}, {3, 3}, 1, 1},
        {3, 6, 64, {5, 4}, {1, 1}, 2},
        {2, 24, 64, {2, 2}, {1, 1}},
        {1, 5, 48, {4, 3}, {2, 2}, 1, 1, 2},
        {2, 1, 96, {6}, {3}, 2, 1},
        {1, 3, 64, {2, 2, 2}, {2, 1, 2}, 1, 0},
        {1, 9, 5, {8, 8}, {1, 1}},
        // sums of planes: each tap of the depth meets some of them, one all, none at all
        {2, 5, 5, {4, 3, 4}, {3, 3, 3}, 1, 1, 1, 5},
        {2, 4, 4, {5, 4, 3}, {3, 2, 2}, 2, 1, 1, 4},
        {2, 4, 4, {1, 3, 3}, {2, 2, 2}, 1, 1, 1, 4},
        {2, 4, 4, {3, 3, 3}, {3, 3, 3}, 1, 3, 3, 4},
        {1, 16, 16, {3, 4, 4}, {1, 3, 3}, 1, 0, 1, 16},
    };
    for (const Shape& s : shapes)
        for (DType dtype : {DType::f32, DType::bf16, DType::f16})
            for (Order order : orders)
                if (order != Order::alone || s.n == 1) {
                    check_numbers(s, order, order, dtype);
                    if (order == Order::last || order == Order::alone)
                        check_numbers(s, order, Order::usual, dtype);
                    if (order == Order::last || order == Order::alone)
                        check_numbers(s, Order::usual, order, dtype);
                }
}

}  // namespace

int main() {
    if (!kernels::has_convolution()) return 0;
    test_code();
    test_products();
    test_planes();
    test_numbers();
    return result();
}
