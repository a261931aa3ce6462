# SPDX-License-Identifier: BSD-3-Clause
"""Cells of recurrent layers: of torch.nn.LSTMCell and GRUCell, and of layers that go step by step.

PyTorch takes its fused cells for this device, and its CPU has no kernels for them. The results that
only backward sees ("workspace") have the sizes that PyTorch's Meta kernels say, and our order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["COMPOSITIONS"]


def _biased(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _bias_grad(grad_gates: Tensor, has_bias: bool) -> Tensor | None:
    return grad_gates.sum(0) if has_bias else None


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    # In place: the gates are what backward wants, in one tensor.
    gates = _biased(input_gates, input_bias) + _biased(hidden_gates, hidden_bias)
    i, f, g, o = gates.chunk(4, 1)
    i.sigmoid_()
    f.sigmoid_()
    g.tanh_()
    o.sigmoid_()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, gates


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
    aten = torch.ops.aten
    i, f, g, o = workspace.chunk(4, 1)
    through = torch.zeros_like(cx) if grad_cy is None else grad_cy
    grad_o = torch.zeros_like(cx)
    if grad_hy is not None:
        y = cy.tanh()
        through = through + aten.tanh_backward(grad_hy * o, y)
        grad_o = aten.sigmoid_backward(grad_hy * y, o)
    grad_gates = torch.cat(
        (
            aten.sigmoid_backward(through * g, i),
            aten.sigmoid_backward(through * cx, f),
            aten.tanh_backward(through * i, g),
            grad_o,
        ),
        1,
    )
    return grad_gates, through * f, _bias_grad(grad_gates, has_bias)


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    x_r, x_z, x_n = _biased(input_gates, input_bias).chunk(3, 1)
    h_r, h_z, h_n = _biased(hidden_gates, hidden_bias).chunk(3, 1)
    workspace = hx.new_empty(hx.shape[0], 5 * hx.shape[1])
    r, z, n, *kept = workspace.chunk(5, 1)
    torch.add(x_r, h_r, out=r).sigmoid_()
    torch.add(x_z, h_z, out=z).sigmoid_()
    torch.addcmul(x_n, r, h_n, out=n).tanh_()
    for part, value in zip(kept, (hx, h_n), strict=True):
        part.copy_(value)
    return n + z * (hx - n), workspace


def gru_cell_backward(
    grad_hy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]:
    aten = torch.ops.aten
    r, z, n, hx, h_n = workspace.chunk(5, 1)
    grad_n = aten.tanh_backward(grad_hy * (1 - z), n)
    grad_r = aten.sigmoid_backward(grad_n * h_n, r)
    grad_z = aten.sigmoid_backward(grad_hy * (hx - n), z)
    grad_input = torch.cat((grad_r, grad_z, grad_n), 1)
    grad_hidden = torch.cat((grad_r, grad_z, grad_n * r), 1)
    return (
        grad_input,
        grad_hidden,
        grad_hy * z,
        _bias_grad(grad_input, has_bias),
        _bias_grad(grad_hidden, has_bias),
    )


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": lstm_cell_backward,
    "_thnn_fused_gru_cell": gru_cell,
    "_thnn_fused_gru_cell_backward": gru_cell_backward,
}
