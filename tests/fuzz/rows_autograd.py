# SPDX-License-Identifier: BSD-3-Clause
"""Autograd, host reads, and what only the device knows: cuts and the ends of graphs."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from fuzz.draw import Draw
from fuzz.machine import Nature, is_leaf
from fuzz.program import DEVICE, Var
from fuzz.row import EXACT, SMALL, Row, rows

__all__ = ["ROWS"]

GRADIENTS = Nature(limit=2**8, gradients=True)


def leaf(d: Draw) -> tuple[Any, ...]:
    dtype = d.choice((torch.float32, torch.float32, torch.float64))
    return d.shape(), dtype, d.random.randint(1, 10), DEVICE


def tracked(d: Draw) -> Var:
    """A result that has a graph; rarely one that has none."""
    if d.chance(0.03):
        return d.floating()
    return d.tensor(lambda x: x.requires_grad and not is_leaf(x))


def root(d: Draw) -> tuple[Any, ...]:
    return tracked(d), d.random.randint(1, 4), d.chance(0.5)


def pair(d: Draw) -> tuple[Any, ...]:
    return tracked(d), d.tensor(lambda x: x.requires_grad and is_leaf(x)), d.chance(0.3)


def checkpointed(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.requires_grad)
    return x, d.like(x, tuple(d.value(x).shape))


def hooked(d: Draw) -> Var:
    return d.tensor(lambda x: x.requires_grad and not x._is_view())


def graph_leaf(d: Draw) -> tuple[Any, ...]:
    return (d.tensor(lambda x: x.requires_grad and is_leaf(x)),)


def one(d: Draw) -> tuple[Any, ...]:
    return (d.tensor(),)


GRADIENT_ROWS: list[Row] = [
    *rows("helpers.leaf", leaf, weight=3),
    *rows("Tensor.requires_grad_", lambda d: (d.tensor(lambda x: x.is_floating_point()),)),
    *rows("helpers.backward", root, GRADIENTS, weight=3),
    *rows("helpers.gradient", pair, GRADIENTS, weight=1.5),
    *rows("helpers.doubled", lambda d: (d.floating(),), SMALL),
    *rows("helpers.checkpointed", checkpointed, Nature(limit=2**8, exact=True)),  # a relu
    *rows("helpers.hook", lambda d: (hooked(d), d.choice((2, -1)))),
    *rows("helpers.hook_view", lambda d: (hooked(d),), weight=0.5),
    *rows("Tensor.retain_grad", lambda d: (hooked(d),), weight=0.5),
    *rows(
        "helpers.step", lambda d: (*graph_leaf(d), 2), dataclasses.replace(GRADIENTS, writes=True)
    ),
    *rows("get.grad", graph_leaf),
]

ROWS: list[Row] = [
    *(dataclasses.replace(row, of_autograd=True) for row in GRADIENT_ROWS),
    # the host reads
    Row("tolist", "helpers.tolist", one, weight=1.5),
    *rows("Tensor.item", lambda d: (d.tensor(lambda x: x.numel() == 1),), weight=0.5),
    *rows(
        "torch.equal",
        lambda d: (x := d.tensor(), d.like(x, tuple(d.value(x).shape))),
        EXACT,
        weight=0.5,
    ),
    # the device
    *rows("helpers.cut", lambda d: d.cut(d.tensor()), weight=5),
    *rows("helpers.run helpers.compile_graph", one, weight=0.7),
    *rows("helpers.mode", lambda d: (d.tensor(), d.choice(("eager", "graph"))), weight=0.3),
]
