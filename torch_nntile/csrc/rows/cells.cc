// SPDX-License-Identifier: BSD-3-Clause
// What autograd keeps of a cell of torch.nn.LSTMCell or GRUCell.
//
// PyTorch's nodes keep both products that the gates are sums of, which only a second derivative
// reads: in a loop over time more than all the rest. Ours leave them out. They make a derivative
// that can be derived again of what the functions of the gates gave, which the first one needs
// anyway; so that is a result with a gradient of its own.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_thnn_fused_gru_cell.h>
#include <ATen/ops/_thnn_fused_lstm_cell.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/library.h>

#include <tuple>

#include "contract/versions.h"

namespace torch_nntile {
namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

// Undefined tensors are zeros.
Tensor plus(const Tensor& a, const Tensor& b) {
    if (!a.defined()) return b;
    return b.defined() ? a + b : a;
}

Tensor or_zeros(const Tensor& grad, const Tensor& like) {
    return grad.defined() ? grad : at::zeros_like(like);
}

std::vector<Tensor> parts(const Tensor& t, int64_t count) {
    return t.defined() ? t.chunk(count, 1) : std::vector<Tensor>(count);
}

// A node of PyTorch's that computes first derivatives, and those above by a formula of ours.
// Results: states, then what the functions of the gates gave.
template <class Pytorchs>
struct Cell : Pytorchs {
    variable_list apply(variable_list&& grads) final {
        if (!at::GradMode::is_enabled() && !grads.back().defined())
            return Pytorchs::apply(std::move(grads));
        std::lock_guard lock(this->mutex_);
        for (const Tensor& grad : grads)
            if (grad.defined()) return gradients(grads);
        return variable_list(5);
    }

protected:
    virtual variable_list gradients(const variable_list& grads) = 0;

    // Of all arguments; the gates are sums of the first two and the biases.
    variable_list found(const Tensor& input_gates, const Tensor& hidden_gates,
                        const Tensor& state) {
        variable_list all{input_gates, hidden_gates, state, {}, {}};
        if (!this->input_bias_.unpack().defined()) return all;
        all[3] = input_gates.sum(0);
        all[4] = input_gates.is_same(hidden_gates) ? all[3] : hidden_gates.sum(0);
        return all;
    }
};

// i, f, g, o; cy = f cx + i g; hy = o tanh(cy)
struct LstmCell final : Cell<torch::autograd::generated::ThnnFusedLstmCellBackward0> {
    variable_list gradients(const variable_list& grads) override {
        const Tensor &dhy = grads[0], &dcy = grads[1];
        const Tensor cx = cx_.unpack(), cy = result1_.unpack(getptr()),
                     gates = result2_.unpack(getptr());
        const auto of = parts(gates, 4);
        auto d = parts(grads[2], 4);
        Tensor dc = dcy;
        if (dhy.defined()) {
            const Tensor tanh_cy = cy.tanh();
            d[3] = plus(d[3], dhy * tanh_cy);
            dc = plus(dc, at::tanh_backward(dhy * of[3], tanh_cy));
        }
        if (dc.defined()) {
            d[0] = plus(d[0], dc * of[2]);
            d[1] = plus(d[1], dc * cx);
            d[2] = plus(d[2], dc * of[0]);
        }
        std::vector<Tensor> sums;
        for (size_t k = 0; k < 4; ++k) {
            const Tensor grad = or_zeros(d[k], of[k]);
            sums.push_back(k == 2 ? at::tanh_backward(grad, of[k])
                                  : at::sigmoid_backward(grad, of[k]));
        }
        const Tensor sum = at::cat(sums, 1);
        return found(sum, sum, dc.defined() ? dc * of[1] : Tensor());
    }
};

// r, z; n = tanh(x + r a); hy = n + z (hx - n). a: what the state added to n
struct GruCell final : Cell<torch::autograd::generated::ThnnFusedGruCellBackward0> {
    variable_list gradients(const variable_list& grads) override {
        const Tensor& dhy = grads[0];
        const auto of = parts(result1_.unpack(getptr()), 5);
        const Tensor &r = of[0], &z = of[1], &n = of[2], &a = of[3], &hx = of[4];
        auto d = parts(grads[1], 5);
        if (dhy.defined()) {
            d[1] = plus(d[1], dhy * (hx - n));
            d[2] = plus(d[2], dhy * (1 - z));
            d[4] = plus(d[4], dhy * z);
        }
        const Tensor dn = at::tanh_backward(or_zeros(d[2], n), n),
                     dr = at::sigmoid_backward(plus(d[0], dn * a), r),
                     dz = at::sigmoid_backward(or_zeros(d[1], z), z);
        return found(at::cat({dr, dz, dn}, 1), at::cat({dr, dz, plus(d[3], dn * r)}, 1), d[4]);
    }
};

// Makes the node if a gradient is wanted. Before the call: see observe/places.cc.
template <class Node, class... Arguments>
auto node_for(const char* op, const MaybeTensor& input_bias, const Arguments&... arguments) {
    TORCH_CHECK_NOT_IMPLEMENTED(!(torch::autograd::isFwGradDefined(arguments) || ...),
                                "Trying to use forward AD with ", op,
                                " that does not support it because it has not been implemented "
                                "yet.");
    decltype(NNTILE_NEW_NODE(Node)) node;
    if (torch::autograd::compute_requires_grad(arguments...)) {
        node = NNTILE_NEW_NODE(Node);
        node->set_next_edges(torch::autograd::collect_next_edges(arguments...));
        node->input_bias_ = SavedVariable(input_bias, false);
    }
    return node;
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell(c10::DispatchKeySet keys, const Tensor& input_gates,
                                             const Tensor& hidden_gates, const Tensor& cx,
                                             const MaybeTensor& input_bias,
                                             const MaybeTensor& hidden_bias) {
    const auto node = node_for<LstmCell>("_thnn_fused_lstm_cell", input_bias, input_gates,
                                         hidden_gates, cx, input_bias, hidden_bias);
    if (node) node->cx_ = SavedVariable(cx, false);
    auto results = [&] {
        const at::AutoDispatchBelowAutograd below;
        return at::_ops::_thnn_fused_lstm_cell::redispatch(keys & c10::after_autograd_keyset,
                                                           input_gates, hidden_gates, cx,
                                                           input_bias, hidden_bias);
    }();
    if (!node) return results;
    auto& [hy, cy, gates] = results;
    for (const Tensor& t : {hy, cy, gates}) torch::autograd::set_history(t, node);
    node->result1_ = SavedVariable(cy, true);
    node->result2_ = SavedVariable(gates, true);
    return results;
}

std::tuple<Tensor, Tensor> gru_cell(c10::DispatchKeySet keys, const Tensor& input_gates,
                                    const Tensor& hidden_gates, const Tensor& hx,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
    const auto node = node_for<GruCell>("_thnn_fused_gru_cell", input_bias, input_gates,
                                        hidden_gates, hx, input_bias, hidden_bias);
    auto results = [&] {
        const at::AutoDispatchBelowAutograd below;
        return at::_ops::_thnn_fused_gru_cell::redispatch(keys & c10::after_autograd_keyset,
                                                          input_gates, hidden_gates, hx, input_bias,
                                                          hidden_bias);
    }();
    if (!node) return results;
    auto& [hy, kept] = results;
    for (const Tensor& t : {hy, kept}) torch::autograd::set_history(t, node);
    node->result1_ = SavedVariable(kept, true);
    return results;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
    m.impl("_thnn_fused_lstm_cell", lstm_cell);
    m.impl("_thnn_fused_gru_cell", gru_cell);
}

}  // namespace torch_nntile
