# SPDX-License-Identifier: BSD-3-Clause
"""torch.nn.LSTM as one op a layer and direction; the cells of torch.nn.GRU and of other LSTMs.

PyTorch takes its fused cells for this device, and its CPU has no kernels for them. The results that
only backward sees ("workspace") have the sizes that PyTorch's Meta kernels say, and our order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

__all__ = ["AUTOGRAD", "COMPOSITIONS", "DIFFERENTIABLE", "OWN_OPS"]


# ---- whole layers


def lstm(
    input: Tensor,
    hx: list[Tensor],
    params: list[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """All steps of a layer in one op: a product with all inputs, and the recurrence after it.

    Projections, mixed dtypes and autocast take PyTorch's formula, which goes step by step.
    """
    directions = 2 if bidirectional else 1
    width = 4 if has_biases else 2
    plain = (
        input.dim() == 3
        and len(hx) == 2
        and hx[0].dim() == 3
        and hx[0].shape == hx[1].shape
        and len(params) == width * num_layers * directions
        and len({x.dtype for x in (input, *hx, *params)}) == 1
        and input.is_floating_point()
        and not torch.is_autocast_enabled(input.device.type)
        and all(n > 0 for n in input.shape)
    )
    if not plain:
        formula = torch.ops.aten.lstm.input.decompose
        found: tuple[Tensor, Tensor, Tensor] = formula(
            *(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        )
        return found
    x = input.transpose(0, 1) if batch_first else input
    last: list[Tensor] = []
    cells: list[Tensor] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            w_ih, w_hh, *biases = params[k * width : (k + 1) * width]
            bias = biases[0] + biases[1] if biases else None
            y, cy, _, _ = torch.ops.nntile.lstm_sequence(
                F.linear(x, w_ih, bias), w_hh, hx[0][k], hx[1][k], bool(direction)
            )
            outputs.append(y)
            last.append(y[0 if direction else -1])
            cells.append(cy)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and train and layer + 1 < num_layers:
            x = F.dropout(x, dropout, True)
    return x.transpose(0, 1) if batch_first else x, torch.stack(last), torch.stack(cells)


def _lstm_meta(
    self: Tensor, weight: Tensor, hx: Tensor, cx: Tensor, reverse: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    steps = self.new_empty(*self.shape[:2], weight.shape[1])
    return steps, torch.empty_like(cx), torch.empty_like(steps), self.new_empty(self.shape)


def _lstm_backward_meta(
    grad_y: Tensor | None,
    grad_cy: Tensor | None,
    weight: Tensor,
    cx: Tensor,
    cells: Tensor,
    gates: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    return gates.new_empty(gates.shape), cx.new_empty(cx.shape), cx.new_empty(cx.shape)


def _lstm_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *operands, ctx.reverse = inputs
    y, _, cells, gates = output
    ctx.mark_non_differentiable(cells, gates)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*operands, y, cells, gates)


def _lstm_gradients(
    ctx: Any, grad_y: Tensor | None, grad_cy: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    x, weight, hx, cx, y, cells, gates = ctx.saved_tensors
    if torch.is_grad_enabled():  # gradients of gradients, by a formula that has them
        return (*_lstm_by_steps(grad_y, grad_cy, x, weight, hx, cx, ctx.reverse), None)
    if grad_y is None and grad_cy is None:
        return None, None, None, None, None
    dx, dhx, dcx = torch.ops.nntile.lstm_sequence_backward(
        grad_y, grad_cy, weight, cx, cells, gates, ctx.reverse
    )
    if not ctx.needs_input_grad[1]:
        return dx, None, dhx, dcx, None
    # Each step has read what the one before it gave.
    first, later, before = (-1, dx[:-1], y[1:]) if ctx.reverse else (0, dx[1:], y[:-1])
    dweight = dx[first].t() @ hx
    if len(y) > 1:
        dweight = torch.addmm(dweight, later.flatten(0, 1).t(), before.flatten(0, 1))
    return dx, dweight, dhx, dcx, None


def _lstm_by_steps(
    grad_y: Tensor | None,
    grad_cy: Tensor | None,
    x: Tensor,
    weight: Tensor,
    hx: Tensor,
    cx: Tensor,
    reverse: bool,
) -> tuple[Tensor | None, ...]:
    h, c, steps = hx, cx, []
    for gates in reversed(x) if reverse else x:
        i, f, g, o = (gates + h @ weight.t()).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        steps.append(h)
    y = torch.stack(steps[::-1] if reverse else steps)
    given = [(out, grad) for out, grad in ((y, grad_y), (c, grad_cy)) if grad is not None]
    operands = (x, weight, hx, cx)
    wanted = [t for t in operands if t.requires_grad]
    if not given or not wanted:
        return None, None, None, None
    outs, grads = zip(*given, strict=True)
    found = iter(torch.autograd.grad(outs, wanted, grads, create_graph=True, allow_unused=True))
    return tuple(next(found) if t.requires_grad else None for t in operands)


# ---- cells


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

OWN_OPS: dict[str, Callable[..., Any] | None] = {
    "lstm_sequence(Tensor self, Tensor weight, Tensor hx, Tensor cx, bool reverse)"
    " -> (Tensor, Tensor, Tensor, Tensor)": _lstm_meta,
    "lstm_sequence_backward(Tensor? grad_y, Tensor? grad_cy, Tensor weight, Tensor cx, "
    "Tensor cells, Tensor gates, bool reverse) -> (Tensor, Tensor, Tensor)": _lstm_backward_meta,
}

# Of own ops: the gradients, and what of a call they need.
AUTOGRAD: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {
    "lstm_sequence": (_lstm_gradients, _lstm_setup)
}

DIFFERENTIABLE: dict[str, Callable[..., Any]] = {"lstm.input": lstm}
