// SPDX-License-Identifier: BSD-3-Clause
// The steps of an LSTM layer on a part of the batch. The weight is brought into the order of the product once for all
// steps: their products have few rows, and for those that costs as much as the product itself.
#include <array>
#include <map>
#include <memory>

#include "kernels/functions.hh"
#include "kernels/gemm.hh"
#include "kernels/row.hh"
#include "kernels/scratch.hh"
#ifdef NNTILE_HAVE_ONEDNN
#include "kernels/onednn.hh"
#endif

namespace nntile::kernels {
namespace {

// y (m, n) = [y +] a (m, k) @ b (k, n), of one b many times. a and y are row-major; b has these strides.
template <class T>
class RepeatedProduct {
public:
    RepeatedProduct(int64_t m, int64_t n, int64_t k, const T* b, int64_t row, int64_t column, bool accumulate)
        : m_(m), n_(n), k_(k), b_(b), row_(row), column_(column), accumulate_(accumulate) {}

    size_t bytes() const { return 0; }
    void begin(Scratch&) {}
    void operator()(const T* a, T* y) {
        constexpr DType type = std::is_same_v<T, float> ? DType::f32 : DType::f64;
        const auto matrix = [](const T* p, int64_t row, int64_t column) {
            return Matrix{reinterpret_cast<std::byte*>(const_cast<T*>(p)), type, row, column};
        };
        multiply({m_, n_, k_, matrix(a, k_, 1), matrix(b_, row_, column_), {nullptr, type, 0, 0}, matrix(y, n_, 1), 1,
                  0, accumulate_});
    }

private:
    int64_t m_, n_, k_;
    const T* b_;
    int64_t row_, column_;
    bool accumulate_;
};

#ifdef NNTILE_HAVE_ONEDNN
constexpr size_t most_products = 64;    // that a thread keeps ready

template <>
class RepeatedProduct<float> {
public:
    RepeatedProduct(int64_t m, int64_t n, int64_t k, const float* b, int64_t row, int64_t column, bool accumulate)
        : b_(b) {
        using namespace dnnl;
        one_dnn_thread();
        const std::array<int64_t, 6> key{m, n, k, row, column, accumulate};
        thread_local std::map<std::array<int64_t, 6>, std::shared_ptr<Known>> known;
        if (known.size() >= most_products && !known.count(key)) known.clear();
        auto& made = known[key];
        if (!made) made = std::make_shared<Known>();
        Known& slot = *made;
        if (!slot.product) {
            const auto plain = [](int64_t rows, int64_t columns, int64_t by_row, int64_t by_column) {
                return memory::desc({rows, columns}, memory::data_type::f32, memory::dims{by_row, by_column});
            };
            slot.a = plain(m, k, k, 1);
            slot.y = plain(m, n, n, 1);
            slot.b = plain(k, n, row, column);
            primitive_attr attr;
            attr.set_scratchpad_mode(scratchpad_mode::user);
            if (accumulate) {
                post_ops sum;
                sum.append_sum();
                attr.set_post_ops(sum);
            }
            const memory::desc any({k, n}, memory::data_type::f32, memory::format_tag::any);
            const matmul::primitive_desc desc(dnn_engine(), slot.a, any, slot.y, attr);
            slot.packed = desc.weights_desc();
            slot.scratchpad = desc.scratchpad_desc();
            slot.product = matmul(desc);
            slot.reorder = reorder(reorder::primitive_desc(dnn_engine(), slot.b, dnn_engine(), slot.packed));
        }
        known_ = made;
    }

    size_t bytes() const { return padded(known_->packed.get_size()) + padded(known_->scratchpad.get_size()); }
    void begin(Scratch& scratch) {
        packed_ = {known_->packed, dnn_engine(), scratch.take(known_->packed.get_size())};
        scratchpad_ = {known_->scratchpad, dnn_engine(), scratch.take(known_->scratchpad.get_size())};
        dnnl::memory plain(known_->b, dnn_engine(), const_cast<float*>(b_));
        known_->reorder.execute(dnn_stream(), plain, packed_);
        a_ = {known_->a, dnn_engine(), nullptr};
        y_ = {known_->y, dnn_engine(), nullptr};
    }
    void operator()(const float* a, float* y) {
        a_.set_data_handle(const_cast<float*>(a));
        y_.set_data_handle(y);
        known_->product.execute(dnn_stream(), {{DNNL_ARG_SRC, a_},
                                               {DNNL_ARG_WEIGHTS, packed_},
                                               {DNNL_ARG_DST, y_},
                                               {DNNL_ARG_SCRATCHPAD, scratchpad_}});
    }

private:
    struct Known {
        dnnl::memory::desc a, b, y, packed, scratchpad;
        dnnl::matmul product;
        dnnl::reorder reorder;
    };
    std::shared_ptr<Known> known_;
    const float* b_;
    dnnl::memory a_, y_, packed_, scratchpad_;
};
#endif

// Rows of a block at a step, in the compute type.
class Steps {
public:
    Steps(const Block& block, Compute compute, size_t last)
        : block_(block), last_(last), load_(loader(block.dtype, compute)), store_(storer(compute, block.dtype)) {}

    explicit operator bool() const { return block_.data; }
    template <class T>
    void read(int64_t step, int64_t rows, int64_t n, T* to) const {
        for (int64_t r = 0; r < rows; ++r) load_(at(step, r), to + r * n, block_.strides[last_], n);
    }
    template <class T>
    void write(int64_t step, int64_t rows, int64_t n, const T* from) const {
        for (int64_t r = 0; r < rows; ++r) store_(from + r * n, at(step, r), block_.strides[last_], n);
    }

private:
    std::byte* at(int64_t step, int64_t row) const {
        return block_.data + (step * block_.strides[1] + row * block_.strides[0]) * size_of(block_.dtype);
    }
    const Block& block_;
    size_t last_;
    Convert load_, store_;
};

constexpr size_t gate_dim = 2, hidden_dim = 3;

// The weight (4 h, h), dense in the compute type.
template <class T>
void read_weight(const Block& w, Compute compute, int64_t gates, int64_t h, T* to) {
    const Convert load = loader(w.dtype, compute);
    for (int64_t g = 0; g < gates; ++g)
        load(w.data + g * w.strides[gate_dim] * size_of(w.dtype), to + g * h, w.strides[hidden_dim], h);
}

template <class T>
void forward(const Args& args, Compute compute) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[2], h = args.sizes[3];
    const auto of = [&](size_t k, size_t last) { return Steps(args.blocks[k], compute, last); };
    const Steps x = of(0, gate_dim), hx = of(2, hidden_dim), cx = of(3, hidden_dim), y = of(4, hidden_dim),
                cy = of(5, hidden_dim), cells = of(6, hidden_dim), kept = of(7, gate_dim);
    thread_local Scratch weights, scratch;
    weights.begin(padded(gates * h * sizeof(T)));
    T* w = weights.take<T>(gates * h);
    read_weight(args.blocks[1], compute, gates, h, w);
    RepeatedProduct<T> product(n, gates, h, w, 1, h, true);
    scratch.begin(product.bytes() + padded(n * gates * sizeof(T)) + 3 * padded(n * h * sizeof(T)));
    product.begin(scratch);
    T *gate = scratch.take<T>(n * gates), *hidden = scratch.take<T>(n * h), *before = scratch.take<T>(n * h),
      *cell = scratch.take<T>(n * h);
    hx.read(0, n, h, hidden);
    cx.read(0, n, h, cell);
    for (int64_t s = 0; s < steps; ++s) {
        const int64_t step = args.params[0].i ? steps - 1 - s : s;
        std::swap(before, cell);
        x.read(step, n, gates, gate);
        product(hidden, gate);
        for (int64_t r = 0; r < n; ++r)
            loops.lstm(gate + r * gates, before + r * h, h, cell + r * h, hidden + r * h);
        y.write(step, n, h, hidden);
        cells.write(step, n, h, cell);
        kept.write(step, n, gates, gate);
        // What the next step reads is what was stored, in a short float too.
        y.read(step, n, h, hidden);
        cells.read(step, n, h, cell);
    }
    cy.write(0, n, h, cell);
}

template <class T>
void backward(const Args& args, Compute compute) {
    const RowLoops& loops = row_tables().table[compute];
    const int64_t n = args.sizes[0], steps = args.sizes[1], gates = args.sizes[2], h = args.sizes[3];
    const auto of = [&](size_t k, size_t last) { return Steps(args.blocks[k], compute, last); };
    const Steps dy = of(0, hidden_dim), dcy = of(1, hidden_dim), cx = of(3, hidden_dim), cells = of(4, hidden_dim),
                kept = of(5, gate_dim), dx = of(6, gate_dim), dhx = of(7, hidden_dim), dcx = of(8, hidden_dim);
    thread_local Scratch weights, scratch;
    weights.begin(padded(gates * h * sizeof(T)));
    T* w = weights.take<T>(gates * h);
    read_weight(args.blocks[2], compute, gates, h, w);
    RepeatedProduct<T> product(n, h, gates, w, h, 1, false);
    scratch.begin(product.bytes() + 2 * padded(n * gates * sizeof(T)) + 5 * padded(n * h * sizeof(T)));
    product.begin(scratch);
    T *gate = scratch.take<T>(n * gates), *dgate = scratch.take<T>(n * gates), *dhidden = scratch.take<T>(n * h),
      *grad = scratch.take<T>(n * h), *dcell = scratch.take<T>(n * h), *cell = scratch.take<T>(n * h),
      *before = scratch.take<T>(n * h);
    std::fill_n(dhidden, n * h, T(0));
    std::fill_n(grad, n * h, T(0));
    std::fill_n(dcell, n * h, T(0));
    if (dcy) dcy.read(0, n, h, dcell);
    const auto step_of = [&](int64_t s) { return args.params[0].i ? steps - 1 - s : s; };
    cells.read(step_of(steps - 1), n, h, before);
    for (int64_t s = steps; s-- > 0;) {
        std::swap(before, cell);
        if (s > 0) cells.read(step_of(s - 1), n, h, before);
        else cx.read(0, n, h, before);
        if (dy) dy.read(step_of(s), n, h, grad);
        for (int64_t j = 0; j < n * h; ++j) dhidden[j] += grad[j];
        kept.read(step_of(s), n, gates, gate);
        for (int64_t r = 0; r < n; ++r)
            loops.lstm_backward(gate + r * gates, before + r * h, cell + r * h, dhidden + r * h, h, dcell + r * h,
                                dgate + r * gates);
        dx.write(step_of(s), n, gates, dgate);
        product(dgate, dhidden);
    }
    dhx.write(0, n, h, dhidden);
    dcx.write(0, n, h, dcell);
}

}  // namespace

int lstm_sequence(const Args& args) {
    if (args.sizes[0] == 0) return 0;
    const Compute compute = compute_of(args.blocks[0].dtype);
    compute == compute_f64 ? forward<double>(args, compute) : forward<float>(args, compute);
    return 0;
}

int lstm_sequence_backward(const Args& args) {
    if (args.sizes[0] == 0) return 0;
    const Compute compute = compute_of(args.blocks[2].dtype);
    compute == compute_f64 ? backward<double>(args, compute) : backward<float>(args, compute);
    return 0;
}

}  // namespace nntile::kernels
