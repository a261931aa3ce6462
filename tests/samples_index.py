# SPDX-License-Identifier: BSD-3-Clause
"""Samples of rows that read and write by index, or whose dim has an order; see samples.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["samples_of"]

_DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)


def _numbers(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """No two alike, where the dtype can: what is gathered or sorted says where it was."""
    count = 1
    for n in shape:
        count *= n
    mixed = torch.arange(count) * 7919 % 127 - 60
    if dtype == torch.uint8:
        mixed = mixed + 60
    return (mixed % 2 == 1 if dtype == torch.bool else mixed).to(dtype).reshape(shape)


def _places(high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    generator = torch.Generator().manual_seed(high + sum(shape))
    return torch.randint(high, shape, generator=generator).to(dtype)


def samples_of(make: Callable[..., Any]) -> dict[str, list[Any]]:
    """`make` is samples.Sample: a call, its inputs, whether it has a gradient."""
    names = ("gather", "scatter", "scatter_add", "index_select", "index_add", "index_copy")
    more = ("index_fill", "cumsum", "cumprod", "sort", "topk", "flip")
    found: dict[str, list[Any]] = {name: [] for name in (*names, *more)}

    def add(name: str, call: Callable[..., Any], *inputs: Tensor, grad: bool | None = None) -> None:
        real = inputs[0].dtype in (torch.float32, torch.float64)
        found[name].append(make(call, inputs, real if grad is None else grad))

    few, many = _places(7, 5, 3, 4), _places(7, 5, 9, 4)
    for dtype in _DTYPES:
        x, y = _numbers(5, 7, 4, dtype=dtype), _numbers(5, 9, 4, dtype=dtype)
        add("gather", lambda x, i: x.gather(1, i), x, many)
        add("scatter", lambda x, i, y: x.scatter(1, i, y), x, few, y, grad=False)
        add("scatter", lambda x, i: x.scatter(1, i, 1), x, few)
        add("index_select", lambda x, i: x.index_select(-2, i), x, _places(7, 9))
        add("index_copy", lambda x, i, y: x.index_copy(1, i, y), x, torch.randperm(7)[:4],
            _numbers(5, 4, 4, dtype=dtype))  # fmt: skip
        add("index_fill", lambda x, i: x.index_fill(2, i, 1), x, torch.tensor([3, -3]))
        add("scatter_add", lambda x, i, y: x.scatter_add(1, i, y), x, many, y)
        add("index_add", lambda x, i, y: x.index_add(1, i, y), x, _places(7, 9), y)
        add("flip", lambda x: x.flip(0, 2), x)
        add("sort", lambda x: torch.sort(x, dim=1, stable=True), x, grad=False)
        if dtype != torch.bool:
            add("topk", lambda x: x.topk(3, 1), x, grad=False)
            add("cumsum", lambda x: x.cumsum(1), x)
            add("cumprod", lambda x: x.cumprod(2), x, grad=False)

    x, y = _numbers(6, 8), _numbers(6, 8)
    strided, expanded = _numbers(8, 12)[:, ::2].t(), _numbers(6, 1).expand(6, 8)
    for table in (strided, expanded):
        add("gather", lambda x, i: x.gather(0, i), table, _places(6, 4, 8))
        add("index_select", lambda x, i: x.index_select(0, i), table, _places(6, 3))
        add("cumsum", lambda x: x.cumsum(0), table)
        add("flip", lambda x: x.flip(1), table)
    narrow = _places(6, 9, 5, dtype=torch.int32)
    add("gather", lambda x, i: x.gather(0, i.long()), x, narrow)
    add("gather", lambda x, i: x.gather(0, i), x, _places(6, 2, 3))  # less than all of x
    add("gather", lambda x, i: x.gather(0, i), x, _places(6, 0, 8), grad=False)
    add("gather", lambda x, i: x.gather(0, i), _numbers(), torch.tensor([0]))
    add("scatter", lambda x, i, y: x.scatter(0, i, y), x, _places(6, 2, 3), y, grad=False)
    add("scatter", lambda x, i, y: x.scatter_(0, i, y), x, _places(6, 0, 8), y, grad=False)
    add("scatter_add", lambda x, i, y: x.scatter_add_(1, i, y), x, _places(8, 6, 8), y, grad=False)
    add("scatter_add", lambda x, i, y: x.scatter_add(0, i, y), x, _places(1, 6, 8), y)  # all to one
    add("index_select", lambda x, i: x.index_select(1, i), x, torch.tensor(3))
    add("index_select", lambda x, i: x.index_select(1, i), x, _places(8, 5, dtype=torch.int32))
    add("index_add", lambda x, i, y: x.index_add(0, i, y, alpha=0.5), x, _places(2, 6), y)
    add(
        "index_add", lambda x, i, y: x.index_add(0, i, y), _numbers(), torch.tensor([0]), _numbers()
    )
    add("index_fill", lambda x, i, v: x.index_fill(0, i, v), x, _places(6, 3), torch.tensor(2.5))
    special = torch.tensor([[2.0, torch.nan, -1.0, torch.inf, 2.0, -torch.inf, -0.0, 0.0]])
    for dim in (0, 1):
        add("cumsum", lambda x, d=dim: x.cumsum(d), special, grad=False)
        add("cumprod", lambda x, d=dim: x.cumprod(d), special, grad=False)
        add("sort", lambda x, d=dim: torch.sort(x, dim=d, stable=True), special, grad=False)
    add("sort", lambda x: torch.sort(x, stable=True, descending=True), special, grad=False)
    for largest in (False, True):
        add("topk", lambda x, k=largest: x.topk(3, largest=k), special, grad=False)
        add("topk", lambda x, k=largest: x.topk(1, largest=k), _numbers(3, 100), grad=False)
    add("topk", lambda x: x.topk(0), x, grad=False)
    for name in ("cumsum", "sort"):
        add(name, lambda x, n=name: getattr(torch, n)(x, dim=0), _numbers(0, 3), grad=False)
        add(name, lambda x, n=name: getattr(torch, n)(x, dim=0), _numbers(), grad=False)
    add("cumsum", lambda x: x.cumsum(1, dtype=torch.float64), _numbers(3, 5, dtype=torch.int32))
    add("cumsum", lambda x: (x > 0).cumsum(0), x, grad=False)
    return found
