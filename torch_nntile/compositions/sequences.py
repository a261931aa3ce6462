# SPDX-License-Identifier: BSD-3-Clause
"""The steps of a recurrent layer as an op, and its gradients: of LSTM, GRU and plain layers.

x: (steps, batch, gates), what the gates get from the inputs. weight: (gates, hidden). Gates are in
PyTorch's order, and a step reads the states of the one before it, (batch, hidden).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torch_nntile.compositions.registry import gradients, own_op

# ---- LSTM: its op, and the gradients


def _weight_gradient(dgates: Tensor, y: Tensor, hx: Tensor, reverse: bool) -> Tensor:
    """Each step has read what the one before it gave."""
    first, later, before = (-1, dgates[:-1], y[1:]) if reverse else (0, dgates[1:], y[:-1])
    found = dgates[first].t() @ hx
    if len(y) > 1:
        found = torch.addmm(found, later.flatten(0, 1).t(), before.flatten(0, 1))
    return found


def _by_steps(
    step: Callable[..., tuple[Tensor, ...]],
    x: Tensor,
    states: tuple[Tensor, ...],
    reverse: bool,
    others: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
) -> list[Tensor | None]:
    """Gradients of x, `others` and the states, in this order, that have gradients themselves.

    step: of the gates and the states, the next states. grads: of y, and of the last states that it lacks.
    """
    operands = (x, *others, *states)
    steps = []
    for gates in reversed(x) if reverse else x:
        states = step(gates, *states)
        steps.append(states[0])
    outs = (torch.stack(steps[::-1] if reverse else steps), *states[1:])
    given = [(out, grad) for out, grad in zip(outs, grads, strict=True) if grad is not None]
    wanted = [t for t in operands if t is not None and t.requires_grad]
    if not given or not wanted:
        return [None] * len(operands)
    outs, slopes = zip(*given, strict=True)
    found = iter(torch.autograd.grad(outs, wanted, slopes, create_graph=True, allow_unused=True))
    return [next(found) if t is not None and t.requires_grad else None for t in operands]


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
    *operands, ctx.reverse = inputs
    y, _, cells, gates = output
    ctx.mark_non_differentiable(cells, gates)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*operands, y, cells, gates)


def _lstm_gradients(
    ctx: Any, grad_y: Tensor | None, grad_cy: Tensor | None, *_: Any
) -> tuple[Tensor | None, ...]:
    x, weight, hx, cx, y, cells, gates = ctx.saved_tensors
    if torch.is_grad_enabled():

        def step(gates: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
            i, f, g, o = (gates + h @ weight.t()).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            return o.sigmoid() * c.tanh(), c

        return *_by_steps(step, x, (hx, cx), ctx.reverse, (weight,), (grad_y, grad_cy)), None
    if grad_y is None and grad_cy is None:
        return None, None, None, None, None
    dx, dhx, dcx = torch.ops.nntile.lstm_sequence_backward(
        grad_y, grad_cy, weight, cx, cells, gates, ctx.reverse
    )
    wanted = ctx.needs_input_grad[1]
    return dx, _weight_gradient(dx, y, hx, ctx.reverse) if wanted else None, dhx, dcx, None


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
    *operands, ctx.reverse = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*operands, *output)


def _gru_gradients(ctx: Any, grad_y: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    x, weight, bias, hx, y, kept = ctx.saved_tensors
    if grad_y is None:
        return None, None, None, None, None
    if torch.is_grad_enabled():

        def step(gates: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            r, z, n = gates.chunk(3, 1)
            of_r, of_z, of_n = F.linear(h, weight, bias).chunk(3, 1)
            fresh = (n + (r + of_r).sigmoid() * of_n).tanh()
            return (fresh + (z + of_z).sigmoid() * (h - fresh),)

        return *_by_steps(step, x, (hx,), ctx.reverse, (weight, bias), (grad_y,)), None
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
    *operands, ctx.reverse, ctx.nonlinearity = inputs
    ctx.save_for_backward(*operands, output)


def _rnn_gradients(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, hx, y = ctx.saved_tensors
    if torch.is_grad_enabled():

        def step(gates: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            h = gates + h @ weight.t()
            return (h.relu() if ctx.nonlinearity else h.tanh(),)

        return *_by_steps(step, x, (hx,), ctx.reverse, (weight,), (grad_y,)), None, None
    dx, dhx = torch.ops.nntile.rnn_sequence_backward(
        grad_y, weight, y, ctx.reverse, ctx.nonlinearity
    )
    wanted = ctx.needs_input_grad[1]
    return dx, _weight_gradient(dx, y, hx, ctx.reverse) if wanted else None, dhx, None, None


gradients("lstm_sequence", _lstm_gradients, _lstm_setup)
gradients("gru_sequence", _gru_gradients, _gru_setup)
gradients("rnn_sequence", _rnn_gradients, _rnn_setup)
