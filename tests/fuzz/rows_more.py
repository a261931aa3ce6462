# SPDX-License-Identifier: BSD-3-Clause
"""Layers, lists of tensors, scatters, and copies that leave the program for a moment."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from fuzz.draw import DTYPES, Draw, NoTensorError
from fuzz.machine import Nature, overlaps_itself
from fuzz.program import DEVICE, Var
from fuzz.row import EXACT, JUMPS, PRODUCTS, ROUNDED, SMALL, SPREAD, UNCHECKED, Row, rows

__all__ = ["ROWS"]


def floating(d: Draw) -> tuple[Any, ...]:
    return (d.floating(),)


def shape_of(d: Draw, x: Var) -> list[int]:
    return list(d.value(x).shape)


def dim_of(d: Draw) -> tuple[Var, int]:
    x = d.tensor(lambda x: x.dim() > 0 and x.numel() > 0)
    return x, d.random.randrange(d.value(x).dim())


def conv2d(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.dim() == 4 and x.dtype == torch.float32 and 0 not in x.shape)
    kernel = [d.random.randint(1, min(n, 3)) for n in shape_of(d, x)[2:]]
    images, channels, *pixels = shape_of(d, x)
    few = images * math.prod(pixels) <= 16  # beside many channels: another kernel
    made = d.choice((1, 2, 32) if few else (1, 2))
    weight = d.new((made, channels, *kernel), torch.float32, d.chance(0.3))
    return x, weight, d.choice((1, 2)), d.choice((0, 1))


def pooled(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.dim() == 4 and x.dtype == torch.float32 and min(x.shape) > 1)
    return x, 2


def cross_entropy(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(
        lambda x: x.dim() == 2 and x.dtype in (torch.float32, torch.float64) and x.numel() > 0
    )
    rows, classes = shape_of(d, x)
    labels = [d.random.randrange(classes) for _ in range(rows)]
    made = d.call("indices", "torch.tensor", (labels, {"dtype": torch.int64, "device": DEVICE}))
    return x, made


def attention(d: Draw) -> tuple[Any, ...]:
    """The CPU's fast kernel is wrong where an input overlaps itself."""
    q = d.tensor(lambda x: x.dim() in (3, 4) and x.dtype == torch.float32 and x.numel() > 0)
    shape = shape_of(d, q)
    shape[-2] = d.choice((1, 2, 5))
    k, v = d.like(q, tuple(shape)), d.like(q, tuple(shape))
    if any(overlaps_itself(d.value(x)) for x in (q, k, v)):
        raise NoTensorError
    return q, k, v


def batch_norm(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: 2 <= x.dim() <= 4 and x.dtype == torch.float32 and x.numel() > 0)
    n = shape_of(d, x)[1]
    mean, var = d.new((n,), torch.float32), d.new((n,), torch.float32)
    d.call("abs_", "Tensor.abs_", (var,))
    return x, mean, var


def group_norm(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: 2 <= x.dim() <= 5 and x.dtype == torch.float32 and x.numel() > 0)
    n = shape_of(d, x)[1]
    groups = d.choice([g for g in (1, 2, 3) if n % g == 0])
    return x, groups, d.new((n,), torch.float32), d.new((n,), torch.float32)


def shuffled(d: Draw) -> tuple[Any, ...]:
    """The gradient of no elements has a wrong shape on the CPU."""
    return d.tensor(lambda x: x.dim() >= 3 and x.shape[-3] == 4 and x.numel() > 0), 2


def einsum(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.dim() == 3 and x.is_floating_point())
    b, _, k = shape_of(d, x)
    if d.chance(0.5):
        return "bik,bjk->bij", x, d.like(x, (b, d.choice((1, 3)), k))
    return "bik,kj->jbi", x, d.like(x, (k, d.choice((1, 3))))


def matrix_vector(d: Draw) -> tuple[Any, ...]:
    x = d.real(least=2, most=2)
    return x, d.like(x, (shape_of(d, x)[1],))


def outer(d: Draw) -> tuple[Any, ...]:
    x = d.real(least=1, most=1)
    return x, d.like(x, (d.choice((1, 2, 5)),))


def foreach(d: Draw) -> tuple[Any, ...]:
    x = d.floating()
    y = d.like(x, tuple(shape_of(d, x)))
    return x, y, d.choice(("_foreach_add_", "_foreach_mul_", "_foreach_sub_"))


def scattered(d: Draw) -> tuple[Any, ...]:
    """One index per line, so that none comes twice."""
    x, dim = dim_of(d)
    shape = shape_of(d, x)
    extent, shape[dim] = shape[dim], 1
    index = d.call(
        "full", "torch.full", (tuple(shape), d.random.randrange(extent), {"device": DEVICE})
    )
    return x, dim, index, d.like(x, tuple(shape)) if d.chance(0.5) else 2


def put(d: Draw) -> tuple[Any, ...]:
    """x.index_put_((index,), values, accumulate=True)"""
    x = d.tensor(lambda x: x.dim() > 0 and x.numel() > 0 and x.is_floating_point())
    index = d.indices(d.choice((1, 2, 3)), shape_of(d, x)[0], twice=True)
    count = d.value(index).numel()
    return x, (index,), d.like(x, (count, *shape_of(d, x)[1:])), True


def slice_scatter(d: Draw) -> tuple[Any, ...]:
    """Of a tensor that overlaps itself, as PyTorch keeps strides, the last write would count."""
    x, dim = dim_of(d)
    shape = shape_of(d, x)
    if overlaps_itself(d.value(x)):
        raise NoTensorError
    start, length = d.part(shape[dim])
    shape[dim] = length
    return x, d.like(x, tuple(shape)), dim, start, start + length


def diagonal_scatter(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.dim() == 2 and x.numel() > 0 and not overlaps_itself(x))
    return x, d.like(x, (min(shape_of(d, x)),))


def multiplied(d: Draw) -> tuple[Any, ...]:
    """Not of 16-bit floats: the CPU rounds each product of a prod()."""
    x = d.tensor(lambda x: x.dim() > 0 and (x.itemsize > 2 or not x.is_floating_point()))
    return x, d.dim(x)


def powers(d: Draw) -> tuple[Any, ...]:
    return d.floating(), d.choice((2, 3, 1, 0))


def topk(d: Draw) -> tuple[Any, ...]:
    x, dim = dim_of(d)
    return x, d.random.randint(1, shape_of(d, x)[dim]), dim


def moved(d: Draw) -> tuple[Any, ...]:
    return d.tensor(), DEVICE


def made_like(d: Draw) -> tuple[Any, ...]:
    return (d.tensor(),)


def eye(d: Draw) -> tuple[Any, ...]:
    return d.choice((1, 3, 4)), {"dtype": d.choice(DTYPES), "device": DEVICE}


ROWS: list[Row] = [
    # layers
    *rows("helpers.conv2d", conv2d, PRODUCTS, weight=2),
    *rows("F.max_pool2d", pooled, JUMPS),
    *rows("F.avg_pool2d", pooled, PRODUCTS),
    *rows("helpers.cross_entropy", cross_entropy, ROUNDED, weight=1.5),
    *rows("helpers.attention", attention, replace(ROUNDED, scale=10.0), weight=1.5),
    *rows("helpers.batch_norm", batch_norm, replace(SPREAD, scale=400.0)),
    *rows("F.group_norm", group_norm, replace(SPREAD, scale=400.0)),
    *rows("F.pixel_shuffle", shuffled, weight=0.5),
    Row("einsum", "helpers.dense", lambda d: ("einsum", *einsum(d)), PRODUCTS),
    *rows("torch.mv", matrix_vector, PRODUCTS),
    *rows("torch.outer", outer, PRODUCTS),
    # more arithmetic
    *rows("torch.floor torch.round torch.trunc torch.isnan", floating, JUMPS, weight=0.5),
    *rows("torch.nan_to_num", floating, weight=0.5),
    *rows("torch.pow", powers, Nature(limit=2**6)),
    *rows("torch.logsumexp", lambda d: (x := d.floating(1), d.dim(x)), ROUNDED, weight=0.7),
    *rows("Tensor.prod", multiplied, Nature(limit=3), weight=0.5),
    *rows("helpers.topk", topk, JUMPS, weight=0.5),
    *rows("helpers.foreach", foreach, replace(SMALL, writes=True), weight=1.5),
    # indices
    *rows("Tensor.scatter_ Tensor.scatter", scattered, UNCHECKED),
    *rows("Tensor.index_put_ Tensor.index_put", put, replace(UNCHECKED, limit=2**12)),
    *rows("Tensor.slice_scatter", slice_scatter),
    *rows("Tensor.diagonal_scatter", diagonal_scatter, weight=0.5),
    # away and back
    *rows("helpers.round_trip", moved, weight=1.5),
    *rows("helpers.copied helpers.loaded", made_like, weight=0.7),
    *rows("torch.zeros_like torch.ones_like", made_like, weight=0.7),
    *rows("torch.full", lambda d: (d.shape(), d.choice((0, 1, 3)), {"device": DEVICE}), weight=0.3),
    *rows(
        "torch.eye",
        lambda d: (d.choice((1, 3, 4)), {"dtype": d.choice(DTYPES), "device": DEVICE}),
        weight=0.3,
    ),
    *rows("Tensor.to:to_device", moved, EXACT, weight=0.2),
]
