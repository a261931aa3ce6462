// SPDX-License-Identifier: BSD-3-Clause
// What recurrent layers share: a product that is done at each step, and the rows of a step.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "kernels/gemm.hh"
#include "kernels/row.hh"
#include "kernels/scratch.hh"
#ifdef NNTILE_HAVE_ONEDNN
#include "kernels/onednn.hh"
#endif

namespace nntile::kernels {

// y (m, n) = [y +] a (m, k) @ b (k, n), of one b many times. a and y are row-major; b has these
// strides.
template <class T>
class RepeatedProduct {
public:
    RepeatedProduct(int64_t m, int64_t n, int64_t k, const T* b, int64_t row, int64_t column,
                    bool accumulate)
        : m_(m), n_(n), k_(k), b_(b), row_(row), column_(column), accumulate_(accumulate) {}

    size_t bytes() const { return 0; }
    void begin(Scratch&) {}
    void operator()(const T* a, T* y) {
        constexpr DType type = std::is_same_v<T, float> ? DType::f32 : DType::f64;
        const auto matrix = [](const T* p, int64_t row, int64_t column) {
            return Matrix{reinterpret_cast<std::byte*>(const_cast<T*>(p)), type, row, column};
        };
        multiply({m_,
                  n_,
                  k_,
                  matrix(a, k_, 1),
                  matrix(b_, row_, column_),
                  {nullptr, type, 0, 0},
                  matrix(y, n_, 1),
                  1,
                  0,
                  accumulate_});
    }

private:
    int64_t m_, n_, k_;
    const T* b_;
    int64_t row_, column_;
    bool accumulate_;
};

#ifdef NNTILE_HAVE_ONEDNN
inline constexpr size_t most_products = 64;  // that a thread keeps ready

template <>
class RepeatedProduct<float> {
public:
    RepeatedProduct(int64_t m, int64_t n, int64_t k, const float* b, int64_t row, int64_t column,
                    bool accumulate)
        : b_(b) {
        using namespace dnnl;
        const std::array<int64_t, 6> key{m, n, k, row, column, accumulate};
        thread_local std::map<std::array<int64_t, 6>, std::shared_ptr<Known>> known;
        if (known.size() >= most_products && !known.count(key)) known.clear();
        auto& made = known[key];
        if (!made) made = std::make_shared<Known>();
        Known& slot = *made;
        if (!slot.product) {
            const auto plain = [](int64_t rows, int64_t columns, int64_t by_row,
                                  int64_t by_column) {
                return memory::desc({rows, columns}, memory::data_type::f32,
                                    memory::dims{by_row, by_column});
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
            slot.reorder =
                reorder(reorder::primitive_desc(dnn_engine(), slot.b, dnn_engine(), slot.packed));
        }
        known_ = made;
    }

    size_t bytes() const {
        return padded(known_->packed.get_size()) + padded(known_->scratchpad.get_size());
    }
    void begin(Scratch& scratch) {
        packed_ = {known_->packed, dnn_engine(), scratch.take(known_->packed.get_size())};
        scratchpad_ = {known_->scratchpad, dnn_engine(),
                       scratch.take(known_->scratchpad.get_size())};
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
    const OneDnnThread one_thread_;
    std::shared_ptr<Known> known_;
    const float* b_;
    dnnl::memory a_, y_, packed_, scratchpad_;
};
#endif

// Rows of a block at a step, in the compute type.
class Steps {
public:
    Steps(const Block& block, Compute compute, size_t last)
        : block_(block),
          last_(last),
          load_(loader(block.dtype, compute)),
          store_(storer(compute, block.dtype)) {}

    explicit operator bool() const { return block_.data; }
    template <class T>
    void read(int64_t step, int64_t rows, int64_t n, T* to) const {
        for (int64_t r = 0; r < rows; ++r) load_(at(step, r), to + r * n, block_.strides[last_], n);
    }
    template <class T>
    void write(int64_t step, int64_t rows, int64_t n, const T* from) const {
        for (int64_t r = 0; r < rows; ++r)
            store_(from + r * n, at(step, r), block_.strides[last_], n);
    }

private:
    std::byte* at(int64_t step, int64_t row) const {
        return block_.data +
               (step * block_.strides[1] + row * block_.strides[0]) * size_of(block_.dtype);
    }
    const Block& block_;
    size_t last_;
    Convert load_, store_;
};

// Kernel dims n, t, gates, h come first.
inline constexpr size_t gate_dim = 2, hidden_dim = 3;

// The weight (gates, h), dense in the compute type.
template <class T>
void read_weight(const Block& w, Compute compute, int64_t gates, int64_t h, T* to) {
    const Convert load = loader(w.dtype, compute);
    for (int64_t g = 0; g < gates; ++g)
        load(w.data + g * w.strides[gate_dim] * size_of(w.dtype), to + g * h, w.strides[hidden_dim],
             h);
}

}  // namespace nntile::kernels
