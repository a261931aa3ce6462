# SPDX-License-Identifier: BSD-3-Clause
"""The steps of a recurrent layer as an op, and its gradients: of LSTM, GRU and plain layers.

x: (steps, batch, gates), what the gates get from the inputs. weight: (gates, hidden). Gates are in
PyTorch's order, and a step reads the states of the one before it, (batch, hidden).

Backward reads what the functions of the gates gave, and not x. So does a derivative that can be derived
again, which is made of plain ops, step by step: what it reads are results with gradients of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import torch
from torch import Tensor

from torch_nntile.compositions.registry import gradients, own_op

# ---- LSTM: its op, and the gradients


def _weight_gradient(dgates: Tensor, y: Tensor, hx: Tensor, reverse: bool) -> Tensor:
    """Each step has read what the one before it gave."""
    first, later, before = (-1, dgates[:-1], y[1:]) if reverse else (0, dgates[1:], y[:-1])
    found = dgates[first].t() @ hx
    if len(y) > 1:
        found = torch.addmm(found, later.flatten(0, 1).t(), before.flatten(0, 1))
    return found


def _backwards(
    y: Tensor, reverse: bool, *first_and_all: tuple[Tensor, Tensor]
) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
    """Steps from the last to the first one, with the states before each: (before the first, of all)."""
    steps = range(len(y))[:: 1 if reverse else -1]
    for step, before in zip(steps, [*steps[1:], None], strict=True):
        yield step, tuple(s if before is None else each[before] for s, each in first_and_all)


@overload
def _plus(a: Tensor | None, b: Tensor) -> Tensor: ...
@overload
def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None: ...
def _plus(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """None is zeros."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


_tanh_slope, _sigmoid_slope = torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward


def _parts(grads: Tensor | None, step: int, count: int) -> Sequence[Tensor | None]:
    return [None] * count if grads is None else grads[step].chunk(count, 1)


def _all_steps(found: dict[int, Tensor]) -> Tensor:
    return torch.stack([found[step] for step in range(len(found))])


@own_op(
    "lstm_sequence(Tensor self, Tensor weight, Tensor hx, Tensor cx, bool reverse)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
def _lstm_meta(x: Tensor, weight: Tensor, hx: Tensor, cx: Tensor, _: bool) -> tuple[Tensor, ...]:
    y, cells = (x.new_empty(*x.shape[:2], weight.shape[1]) for _ in range(2))
    return y, torch.empty_like(cx), cells, x.new_empty(x.shape)


own_op(
    "lstm_sequence_backward(Tensor? grad_y, Tensor? grad_cy, Tensor weight, Tensor cx, "
    "Tensor cells, Tensor gates, bool reverse) -> (Tensor, Tensor, Tensor)",
    "gates cx cx",
)


def _lstm_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, *operands, ctx.reverse = inputs
    y, _, cells, gates = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*operands, y, cells, gates)


def _lstm_gradients(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    weight, hx, cx, y, cells, gates = ctx.saved_tensors
    grad_y, grad_cy, of_cells, of_gates = grads
    if all(grad is None for grad in grads):
        return None, None, None, None, None
    if torch.is_grad_enabled() or of_cells is not None or of_gates is not None:
        dx, dhx, dcx = _lstm_formula(grads, weight, cx, cells, gates, ctx.reverse)
    else:
        dx, dhx, dcx = torch.ops.nntile.lstm_sequence_backward(
            grad_y, grad_cy, weight, cx, cells, gates, ctx.reverse
        )
    wanted = ctx.needs_input_grad[1]
    return dx, _weight_gradient(dx, y, hx, ctx.reverse) if wanted else None, dhx, dcx, None


def _lstm_formula(
    grads: Sequence[Tensor | None],
    weight: Tensor,
    cx: Tensor,
    cells: Tensor,
    gates: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    grad_y, dc, of_cells, of_gates = grads
    dh: Tensor | None = None
    dx: dict[int, Tensor] = {}
    for step, (before,) in _backwards(gates, reverse, (cx, cells)):
        i, f, g, o = gates[step].chunk(4, 1)
        di, df, dg, do = _parts(of_gates, step, 4)
        dh = _plus(dh, None if grad_y is None else grad_y[step])
        dc = _plus(dc, None if of_cells is None else of_cells[step])
        if dh is not None:
            tanh_c = cells[step].tanh()
            do = _plus(do, dh * tanh_c)
            dc = _plus(dc, _tanh_slope(dh * o, tanh_c))
        if dc is not None:
            di, df, dg = _plus(di, dc * g), _plus(df, dc * before), _plus(dg, dc * i)
        pairs = ((di, i, _sigmoid_slope), (df, f, _sigmoid_slope), (dg, g, _tanh_slope))
        parts = [
            torch.zeros_like(value) if grad is None else slope(grad, value)
            for grad, value, slope in (*pairs, (do, o, _sigmoid_slope))
        ]
        dx[step] = torch.cat(parts, 1)
        dc = None if dc is None else dc * f
        dh = dx[step] @ weight
    assert dh is not None
    return _all_steps(dx), dh, dc


# ---- GRU: likewise


own_op(
    "gru_sequence(Tensor self, Tensor weight, Tensor? bias, Tensor hx, bool reverse)"
    " -> (Tensor, Tensor)",
    lambda x, w, *_: tuple(x.new_empty(*x.shape[:2], n * w.shape[1]) for n in (1, 4)),
)
own_op(
    "gru_sequence_backward(Tensor grad_y, Tensor weight, Tensor hx, Tensor y, Tensor kept, "
    "bool reverse) -> (Tensor, Tensor, Tensor)",
    lambda _, w, hx, y, *__: (
        *(y.new_empty(*y.shape[:2], w.shape[0]) for _ in range(2)),
        hx.new_empty(hx.shape),
    ),
)


def _gru_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, weight, _, hx, ctx.reverse = inputs
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(weight, hx, *output)


def _gru_gradients(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    weight, hx, y, kept = ctx.saved_tensors
    grad_y, of_kept = grads
    if grad_y is None and of_kept is None:
        return None, None, None, None, None
    if torch.is_grad_enabled() or of_kept is not None:
        dx, dadded, dhx = _gru_formula(grad_y, of_kept, weight, hx, y, kept, ctx.reverse)
    else:
        dx, dadded, dhx = torch.ops.nntile.gru_sequence_backward(
            grad_y, weight, hx, y, kept, ctx.reverse
        )
    wanted = ctx.needs_input_grad
    return (
        dx,
        _weight_gradient(dadded, y, hx, ctx.reverse) if wanted[1] else None,
        dadded.sum((0, 1)) if wanted[2] else None,
        dhx,
        None,
    )


def _gru_formula(
    grad_y: Tensor | None,
    of_kept: Tensor | None,
    weight: Tensor,
    hx: Tensor,
    y: Tensor,
    kept: Tensor,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """kept: r, z, n, and what the state added to n."""
    dh = torch.zeros_like(hx)
    dx: dict[int, Tensor] = {}
    dadded: dict[int, Tensor] = {}
    for step, (before,) in _backwards(y, reverse, (hx, y)):
        r, z, n, added = kept[step].chunk(4, 1)
        of_r, of_z, of_n, of_added = _parts(of_kept, step, 4)
        dh = dh if grad_y is None else dh + grad_y[step]
        dn = _tanh_slope(_plus(of_n, dh * (1 - z)), n)
        dz = _sigmoid_slope(_plus(of_z, dh * (before - n)), z)
        dr = _sigmoid_slope(_plus(of_r, dn * added), r)
        dx[step] = torch.cat((dr, dz, dn), 1)
        dadded[step] = torch.cat((dr, dz, _plus(of_added, dn * r)), 1)
        dh = dh * z + dadded[step] @ weight
    return _all_steps(dx), _all_steps(dadded), dh


# ---- plain layers: likewise


own_op(
    "rnn_sequence(Tensor self, Tensor weight, Tensor hx, bool reverse, int nonlinearity) -> Tensor",
    "self",
)
own_op(
    "rnn_sequence_backward(Tensor grad_y, Tensor weight, Tensor y, bool reverse, "
    "int nonlinearity) -> (Tensor, Tensor)",
    lambda _, weight, y, *__: (y.new_empty(y.shape), y.new_empty(y.shape[1:])),
)


def _rnn_setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _, weight, hx, ctx.reverse, ctx.nonlinearity = inputs
    ctx.save_for_backward(weight, hx, output)


def _rnn_gradients(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    weight, hx, y = ctx.saved_tensors
    if torch.is_grad_enabled():
        dx, dhx = _rnn_formula(grad_y, weight, hx, y, ctx.reverse, ctx.nonlinearity)
    else:
        dx, dhx = torch.ops.nntile.rnn_sequence_backward(
            grad_y, weight, y, ctx.reverse, ctx.nonlinearity
        )
    wanted = ctx.needs_input_grad[1]
    return dx, _weight_gradient(dx, y, hx, ctx.reverse) if wanted else None, dhx, None, None


def _rnn_formula(
    grad_y: Tensor, weight: Tensor, hx: Tensor, y: Tensor, reverse: bool, relu: int
) -> tuple[Tensor, Tensor]:
    dh = torch.zeros_like(hx)
    dx: dict[int, Tensor] = {}
    for step, _ in _backwards(y, reverse):
        dh = dh + grad_y[step]
        dx[step] = dh * (y[step] > 0) if relu else _tanh_slope(dh, y[step])
        dh = dx[step] @ weight
    return _all_steps(dx), dh


gradients("lstm_sequence", _lstm_gradients, _lstm_setup)
gradients("gru_sequence", _gru_gradients, _gru_setup)
gradients("rnn_sequence", _rnn_gradients, _rnn_setup)
