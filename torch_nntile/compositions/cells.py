# SPDX-License-Identifier: BSD-3-Clause
"""Cells of recurrent layers: of torch.nn.LSTMCell and GRUCell, and of layers that go step by step.

PyTorch takes its fused cells for this device, and its CPU has no kernels for them. The results that
only backward sees ("workspace") have the sizes that PyTorch's Meta kernels say, and our order.
Those kernels do not know cells without biases, so ours are ops with kernels of their own for that.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composition, own_op


@composition("_thnn_fused_lstm_cell")
def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.nntile.lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias)


@composition("_thnn_fused_lstm_cell_backward_impl")
def lstm_cell_backward(
    grad_hy: Tensor | None,
    grad_cy: Tensor | None,
    cx: Tensor,
    cy: Tensor,
    workspace: Tensor,
    has_bias: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    if grad_hy is None and grad_cy is None:
        return None, None, None
    gates, state = torch.ops.nntile.lstm_cell_backward(grad_hy, grad_cy, cx, cy, workspace)
    return gates, state, gates.sum(0) if has_bias else None


@composition("_thnn_fused_gru_cell")
def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return torch.ops.nntile.gru_cell(input_gates, hidden_gates, hx, input_bias, hidden_bias)


@composition("_thnn_fused_gru_cell_backward")
def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    x, hidden, state = torch.ops.nntile.gru_cell_backward(grad_hy, workspace)
    biases = (x.sum(0), hidden.sum(0)) if has_bias else (None, None)
    return x, hidden, state, *biases


_OPERANDS = (
    "Tensor input_gates, Tensor hidden_gates, Tensor {}, Tensor? input_bias, Tensor? hidden_bias"
)

own_op(
    f"lstm_cell({_OPERANDS.format('cx')}) -> (Tensor, Tensor, Tensor)",
    lambda x, _, cx, *__: tuple(cx.new_empty(shape) for shape in (cx.shape, cx.shape, x.shape)),
)
own_op(
    "lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace)"
    " -> (Tensor, Tensor)",
    "workspace cx",
)
own_op(
    f"gru_cell({_OPERANDS.format('hx')}) -> (Tensor, Tensor)",
    lambda x, hidden, hx, *_: tuple(hx.new_empty(hx.shape[0], n * hx.shape[1]) for n in (1, 5)),
)
own_op(
    "gru_cell_backward(Tensor grad_hy, Tensor workspace) -> (Tensor, Tensor, Tensor)",
    lambda dhy, _: tuple(dhy.new_empty(dhy.shape[0], n * dhy.shape[1]) for n in (3, 3, 1)),
)
