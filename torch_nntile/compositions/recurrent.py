# SPDX-License-Identifier: BSD-3-Clause
"""torch.nn.LSTM, GRU and RNN as one op a layer and direction: a product with all inputs, then all steps.

A packed sequence is one op for each of its batch sizes, since its data are (steps, batch, width) there.
Projections and mixed dtypes take PyTorch's formula, which goes step by step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torch_nntile.compositions.attention import is_usual
from torch_nntile.compositions.registry import composition

# Of one layer and direction: the product with the inputs, (steps, batch, gates); the states before the
# first step, (batch, hidden) each; the weights; whether it goes backwards. Gives y and the last states.
States = tuple[Tensor, ...]
Run = Callable[[Tensor, States, Sequence[Tensor], bool], tuple[Tensor, States]]


# ---- kinds of layers


def _last(y: Tensor, reverse: bool) -> Tensor:
    return y[0 if reverse else -1]


def _run_lstm(
    x: Tensor, states: States, weights: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, States]:
    y, cy, _, _ = torch.ops.nntile.lstm_sequence(x, weights[1], *states, reverse)
    return y, (_last(y, reverse), cy)


def _run_gru(
    x: Tensor, states: States, weights: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, States]:
    bias = weights[3] if len(weights) > 2 else None  # what n gets from it is multiplied by r
    y, _ = torch.ops.nntile.gru_sequence(x, weights[1], bias, *states, reverse)
    return y, (_last(y, reverse),)


def _run_rnn(relu: bool) -> Run:
    def run(
        x: Tensor, states: States, weights: Sequence[Tensor], reverse: bool
    ) -> tuple[Tensor, States]:
        y = torch.ops.nntile.rnn_sequence(x, weights[1], *states, reverse, int(relu))
        return y, (_last(y, reverse),)

    return run


def _product(x: Tensor, weights: Sequence[Tensor], run: Run) -> Tensor:
    """With all inputs; both biases are added here where the layer only adds them."""
    if len(weights) == 2:
        return F.linear(x, weights[0])
    return F.linear(x, weights[0], weights[2] if run is _run_gru else weights[2] + weights[3])


# ---- sequences of one length, and packed ones


def _whole(
    run: Run, x: Tensor, states: States, weights: Sequence[Tensor], reverse: bool
) -> tuple[Tensor, States]:
    """x: (steps, batch, width)."""
    return run(_product(x, weights, run), states, weights, reverse)


def _packed(
    run: Run,
    x: Tensor,
    batch_sizes: Sequence[int],
    states: States,
    weights: Sequence[Tensor],
    reverse: bool,
) -> tuple[Tensor, States]:
    """x: (elements, width), batch_sizes[step] of them of each step; the longest sequences come first."""
    gates = _product(x, weights, run)
    parts = [(size, len(list(steps))) for size, steps in itertools.groupby(batch_sizes)]
    ends = list(itertools.accumulate(size * steps for size, steps in parts))
    outputs: list[Tensor] = []
    ended: list[States] = []  # states of sequences that end before the first one does
    now = tuple(state[: parts[-1 if reverse else 0][0]] for state in states)
    for (size, steps), end in list(zip(parts, ends, strict=True))[:: -1 if reverse else 1]:
        before = now[0].shape[0]
        if size < before:
            ended.append(tuple(state[size:] for state in now))
            now = tuple(state[:size] for state in now)
        elif size > before:  # backwards: these sequences begin here
            pairs = zip(now, states, strict=True)
            now = tuple(torch.cat([state, first[before:size]]) for state, first in pairs)
        part = gates[end - size * steps : end].view(steps, size, -1)
        y, now = run(part, now, weights, reverse)
        outputs.append(y.flatten(0, 1))
    if ended:
        now = tuple(torch.cat(rows) for rows in zip(now, *ended[::-1], strict=True))
    return torch.cat(outputs[:: -1 if reverse else 1]), now


def _layers(
    run: Callable[[Tensor, States, Sequence[Tensor], bool], tuple[Tensor, States]],
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    width: int,
    directions: int,
    dropout: float,
) -> tuple[Tensor, ...]:
    """y, and the last states of all layers: (layers * directions, batch, hidden) each."""
    found: list[States] = []
    layers = len(params) // (width * directions)
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = params[k * width : (k + 1) * width]
            y, after = run(x, tuple(state[k] for state in states), weights, bool(direction))
            outputs.append(y)
            found.append(after)
        x = outputs[0] if directions == 1 else torch.cat(outputs, -1)
        if dropout and layer + 1 < layers:
            x = F.dropout(x, dropout, True)
    return x, *(torch.stack(rows) for rows in zip(*found, strict=True))


def _is_plain(
    x: Tensor, states: Sequence[Tensor], params: Sequence[Tensor], layers: int, width: int
) -> bool:
    tensors = [x, *states, *params]
    return (
        len(params) == layers * width
        and len(states[0]) == layers
        and all(state.dim() == 3 and state.shape == states[0].shape for state in states)
        and len({t.dtype for t in tensors}) == 1
        and x.is_floating_point()
        and x.numel() > 0
        and is_usual(*tensors)
    )


def _shaped(result: tuple[Tensor, ...], first: list[Tensor]) -> tuple[Tensor, ...]:
    """Last states have the shapes of the first ones. PyTorch's LSTM up to 2.12 gives them a dim more."""
    y, *last = result
    pairs = zip(last, first, strict=False)
    return y, *(s if s.shape == f.shape else s.reshape(f.shape) for s, f in pairs)


def _of_input(name: str, run: Run, states: int) -> Callable[..., tuple[Tensor, ...]]:
    """The overload for sequences of one length."""

    def layers(
        input: Tensor,
        hx: Any,
        params: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, ...]:
        first = list(hx) if states > 1 else [hx]
        width, directions = 4 if has_biases else 2, 2 if bidirectional else 1
        plain = input.dim() == 3 and len(first) == states
        if not (plain and _is_plain(input, first, params, num_layers * directions, width)):
            formula = getattr(torch.ops.aten, name).input.decompose
            result: tuple[Tensor, ...] = formula(
                *(input, hx, params, has_biases, num_layers, dropout, train, bidirectional),
                batch_first,
            )
            return _shaped(result, first)

        def whole(*args: Any) -> tuple[Tensor, States]:
            return _whole(run, *args)

        x = input.transpose(0, 1) if batch_first else input
        dropout = dropout if train else 0.0
        y, *last = _layers(whole, x, first, params, width, directions, dropout)
        return y.transpose(0, 1) if batch_first else y, *last

    return layers


def _of_data(name: str, run: Run, states: int) -> Callable[..., tuple[Tensor, ...]]:
    """The overload for packed sequences; batch_sizes lie on the CPU, and never grow."""

    def layers(
        data: Tensor,
        batch_sizes: Tensor,
        hx: Any,
        params: list[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> tuple[Tensor, ...]:
        first = list(hx) if states > 1 else [hx]
        width, directions = 4 if has_biases else 2, 2 if bidirectional else 1
        plain = data.dim() == 2 and len(first) == states and batch_sizes.device.type == "cpu"
        plain = plain and _is_plain(data, first, params, num_layers * directions, width)
        sizes = batch_sizes.tolist() if plain else []
        plain = plain and sum(sizes) == data.shape[0] and sizes == sorted(sizes, reverse=True)
        if not (plain and sizes[0] == first[0].shape[1] and sizes[-1] > 0):
            formula = getattr(torch.ops.aten, name).data.decompose
            result: tuple[Tensor, ...] = formula(
                *(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train),
                bidirectional,
            )
            return _shaped(result, first)

        def packed(x: Tensor, *args: Any) -> tuple[Tensor, States]:
            return _packed(run, x, sizes, *args)

        dropout = dropout if train else 0.0
        return _layers(packed, data, first, params, width, directions, dropout)

    return layers


_KINDS: dict[str, tuple[Run, int]] = {
    "lstm": (_run_lstm, 2),
    "gru": (_run_gru, 1),
    "rnn_tanh": (_run_rnn(False), 1),
    "rnn_relu": (_run_rnn(True), 1),
}
for name, kind in _KINDS.items():
    composition(f"{name}.input", above_autograd=True)(_of_input(name, *kind))
    composition(f"{name}.data", above_autograd=True)(_of_data(name, *kind))
