# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic, casts, comparisons, reductions, products of matrices, and writes in place."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from fuzz.draw import DTYPES, Draw, NoTensorError
from fuzz.machine import Nature, overlaps_itself, storage_of
from fuzz.program import Var
from fuzz.row import (
    ANY,
    EXACT,
    JUMPS,
    PRODUCTS,
    ROUNDED,
    SMALL,
    SPREAD,
    UNCHECKED,
    WRITES,
    Args,
    Row,
    rows,
)
from fuzz.rows_views import gathered, indexed

__all__ = ["ROWS"]

ADDS = replace(SMALL, writes=True)
SAME = replace(WRITES, repeats=True)  # the same number wherever it writes
BYTES = Nature(limit=100, exact=True)  # casts to every dtype


def one(d: Draw) -> tuple[Any, ...]:
    return (d.real(),)


def floating(d: Draw) -> tuple[Any, ...]:
    return (d.floating(),)


def with_number(d: Draw) -> tuple[Any, ...]:
    x = d.real()
    # PyTorch wraps numbers that the dtype lacks.
    return x, d.number(x if d.value(x).dtype == torch.uint8 else None)


def with_nonzero(d: Draw) -> tuple[Any, ...]:
    return d.real(), d.choice((1, 2, 3, 4, -2))


def two(d: Draw) -> tuple[Any, ...]:
    return (x := d.tensor(), d.operand(x))


def two_bools(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: not x.is_floating_point())
    return x, d.operand(x, into=True)


def cast(d: Draw) -> tuple[Any, ...]:
    x = d.tensor()
    # A negative number has no answer as uint8.
    choices = (
        DTYPES if not d.value(x).is_floating_point() else [t for t in DTYPES if t != torch.uint8]
    )
    return x, d.choice(choices)


def clamp(d: Draw) -> tuple[Any, ...]:
    x = d.real()
    # PyTorch wraps numbers that the dtype lacks.
    choices = ((None, 3), (0, None), (1, 4), (-2, 2))
    return x, *d.choice(choices[: 3 if d.value(x).dtype == torch.uint8 else 4])


def where(d: Draw) -> tuple[Any, ...]:
    x = d.tensor()
    return d.mask(x), x, d.operand(x)


def third(d: Draw) -> tuple[Any, ...]:
    """For addcmul(): three floating tensors."""
    x = d.floating()
    shape = tuple(d.value(x).shape)
    return x, d.like(x, shape), d.like(x, shape[d.choice((0, 0, 1)) :])


def lerp(d: Draw) -> tuple[Any, ...]:
    x = d.floating()
    return x, d.like(x, tuple(d.value(x).shape)), d.choice((0.5, 0.25, 1.0))


def reduced(d: Draw) -> tuple[Any, ...]:
    x = d.real(least=1)
    n = d.value(x).dim()
    dims: Any = (
        d.dim(x) if d.chance(0.6) else tuple(d.random.sample(range(n), d.random.randint(1, n)))
    )
    return x, dims, d.chance(0.4)


def reduced_float(d: Draw) -> tuple[Any, ...]:
    x = d.floating(1)
    return x, d.dim(x), d.chance(0.4)


def reduced_one(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.dim() > 0 and x.numel() > 0 and x.dtype != torch.bool)
    return x, d.dim(x)


def several(d: Draw) -> tuple[Any, ...]:
    return (d.tensor(lambda x: x.is_floating_point() and x.numel() > 1),)


def nonempty(d: Draw) -> tuple[Any, ...]:
    return (d.tensor(lambda x: x.numel() > 0 and x.dtype != torch.bool),)


def product(d: Draw, least: int, most: int, right: int) -> tuple[Any, ...]:
    """Two matrices, or batches of them, of one dtype; `right`: dims of the second, at least 1."""
    x = d.real(least=least, most=most)
    shape = tuple(d.value(x).shape)
    n = d.choice((1, 2, 3, 5))
    other = {1: (shape[-1],), 2: (shape[-1], n), 3: (*shape[:-2], shape[-1], n)}[right]
    y = d.like(x, other)
    if right == 2 and d.chance(0.4):  # a transposed operand costs nothing, so it should be tried
        made = d.call("t", "Tensor.t", (d.like(x, (n, shape[-1])),))
        y = made if isinstance(made, Var) else y
    return x, y


def matmul(d: Draw) -> tuple[Any, ...]:
    return product(d, *d.choice(((1, 4, 2), (1, 4, 1), (2, 4, 3))))


def linear(d: Draw) -> tuple[Any, ...]:
    x = d.floating(1)
    n, k = d.choice((1, 2, 4)), d.value(x).shape[-1]
    weight = d.like(x, (n, k))
    return (x, weight, d.like(x, (n,))) if d.chance(0.6) else (x, weight)


def addmm(d: Draw) -> tuple[Any, ...]:
    x, y = product(d, 2, 2, 2)
    m, n = d.value(x).shape[0], d.value(y).shape[1]
    bias = d.like(x, d.choice(((m, n), (n,), (1, n))))
    return (bias, x, y, {"beta": 1, "alpha": 2}) if d.chance(0.3) else (bias, x, y)


def normed(d: Draw) -> tuple[Any, ...]:
    x = d.floating(1)
    n = d.value(x).shape[-1]
    return (x, (n,), d.like(x, (n,)), d.like(x, (n,))) if d.chance(0.5) else (x, (n,))


def embedding(d: Draw) -> tuple[Any, ...]:
    table = d.tensor(lambda x: x.dim() == 2 and x.numel() > 0 and x.is_floating_point())
    return d.indices(d.choice((1, 2, 4)), d.value(table).shape[0], twice=True), table


def into(args: Args) -> Args:
    """The same arguments, for a call that writes the first: the others must broadcast to it."""

    def drawn(d: Draw) -> tuple[Any, ...]:
        x, *rest = args(d)
        return x, *(d.operand(x, into=True) if isinstance(v, Var) else v for v in rest)

    return drawn


def filled(d: Draw) -> tuple[Any, ...]:
    return (x := d.tensor(), d.number(x))


def masked_fill(d: Draw) -> tuple[Any, ...]:
    return (x := d.tensor(), d.mask(x), d.number(x))


def set_item(d: Draw) -> tuple[Any, ...]:
    """x[...] = number or tensor"""
    x = d.tensor()
    index = d.index(x)
    if d.chance(0.5):
        return x, index, d.number(x)
    try:
        shape = tuple(d.value(x)[index].shape)
    except (IndexError, RuntimeError):  # the call will show it
        shape = ()
    value = d.like(x, shape[d.choice((0, 0, 0, 1)) :])
    if not d.value(value).dim() and storage_of(d.value(value)) == storage_of(d.value(x)):
        raise NoTensorError  # a fill on the CPU only; a copy of overlapping data elsewhere
    return x, index, value


def set_mask(d: Draw) -> tuple[Any, ...]:
    return (x := d.tensor(), d.full_mask(x), d.number(x))


def set_index(d: Draw) -> tuple[Any, ...]:
    x, dim, index = indexed_once(d)
    return x, (*((slice(None),) * dim), index), d.number(x)


def indexed_once(d: Draw) -> tuple[Any, ...]:
    """No index twice: the last write would be any of them."""
    x, dim, _ = indexed(d)
    return x, dim, d.indices(d.choice((1, 2)), d.value(x).shape[dim])


def index_source(d: Draw, twice: bool) -> tuple[Any, ...]:
    x, dim, index = indexed(d) if twice else indexed_once(d)
    shape = list(d.value(x).shape)
    if d.chance(0.3):  # of all of a dim, and of x itself
        return x, dim, d.indices(shape[dim], shape[dim]), x
    shape[dim] = d.value(index).numel()
    return x, dim, index, d.like(x, tuple(shape))


def scattered(d: Draw) -> tuple[Any, ...]:
    x, dim, index = gathered(d)
    return x, dim, index, d.like(x, tuple(d.value(index).shape))


def extreme(name: str, args: Args) -> Args:
    return lambda d: (name, *args(d))


def out_of_place(d: Draw) -> tuple[Any, ...]:
    """op(x, y, out=z): helpers.into("add", z, x, y)."""
    x = d.real()
    shape = tuple(d.value(x).shape)
    return d.like(x, shape), d.choice(("add", "mul", "sub")), x, d.like(x, shape)


def part(d: Draw) -> tuple[Any, ...]:
    """For select_scatter()."""
    x = d.tensor(lambda x: x.dim() > 0 and x.numel() > 0 and not overlaps_itself(x))
    dim = d.random.randrange(d.value(x).dim())
    shape = list(d.value(x).shape)
    extent = shape.pop(dim)
    return x, d.like(x, tuple(shape)), dim, d.random.randrange(extent)


ROWS: list[Row] = [
    *rows("Tensor.to Tensor.type", cast, BYTES, weight=3),
    *rows("Tensor.float Tensor.double", lambda d: (d.tensor(),)),
    # element by element
    *rows("Tensor.neg", one, SMALL),
    *rows("Tensor.abs Tensor.relu Tensor.sign", one, JUMPS),  # or their gradients jump
    *rows("Tensor.square", one, SMALL),
    *rows("Tensor.add Tensor.sub Tensor.mul", two, SMALL, weight=2),
    *rows("Tensor.add:add_number Tensor.mul:mul_number torch.rsub", with_number, SMALL, weight=1.5),
    *rows("Tensor.div:div_number", with_nonzero, SMALL),
    *rows("Tensor.floor_divide Tensor.remainder", with_nonzero, JUMPS),
    *rows("Tensor.clamp", clamp, JUMPS),
    *rows("Tensor.eq Tensor.lt Tensor.ge Tensor.ne", two, EXACT),
    *rows("Tensor.gt:gt_number Tensor.le:le_number", with_number, EXACT),
    Row(
        "logical",
        "helpers.dense",
        lambda d: (d.choice(("logical_and", "logical_xor")), *two(d)),
        EXACT,
    ),
    *rows("Tensor.bitwise_and Tensor.bitwise_or", two_bools, EXACT),
    *rows("Tensor.logical_not", lambda d: (d.tensor(),), EXACT),
    *rows("torch.where", where, weight=2),
    *rows("torch.addcmul", third, SMALL),
    *rows("torch.lerp", lerp, SMALL),
    *rows("torch.sigmoid torch.tanh torch.exp F.gelu F.silu", floating, ROUNDED, weight=0.7),
    # reductions
    *rows("Tensor.sum Tensor.mean", reduced, SMALL, weight=1.5),
    *rows("Tensor.sum:sum_all Tensor.any Tensor.all", lambda d: (d.tensor(),), EXACT),
    *(Row(name, "helpers.extreme", extreme(name, reduced), JUMPS) for name in ("amax", "amin")),
    Row("max_dim", "helpers.extreme", extreme("max", reduced_one), JUMPS),
    *rows("Tensor.argmax", reduced_one, JUMPS),
    *rows("Tensor.cumsum", reduced_one, SMALL),
    Row("max_all", "helpers.extreme", extreme("max", nonempty), JUMPS, weight=0.5),
    Row("min_all", "helpers.extreme", extreme("min", nonempty), JUMPS, weight=0.5),
    Row("maximum", "helpers.extreme", extreme("maximum", two), JUMPS, weight=2),
    *rows(
        "Tensor.sort", lambda d: (x := d.real(least=1), {"dim": d.dim(x), "stable": True}), JUMPS
    ),
    *rows("Tensor.var", several, ROUNDED, weight=0.5),
    *rows("Tensor.norm", several, SPREAD, weight=0.5),
    *rows(
        "torch.softmax F.log_softmax", lambda d: (x := d.floating(), d.dim(x)), ROUNDED, weight=1.5
    ),
    *rows("F.layer_norm", normed, replace(SPREAD, scale=400.0)),
    # products
    *rows("torch.matmul", matmul, PRODUCTS, weight=3),
    *rows("torch.mm", lambda d: product(d, 2, 2, 2), PRODUCTS),
    *rows("torch.bmm", lambda d: product(d, 3, 3, 3), PRODUCTS),
    *rows("torch.addmm", addmm, PRODUCTS),
    *rows("F.linear", linear, PRODUCTS, weight=2),
    *rows("helpers.embedding", embedding),
    # in place
    *rows("Tensor.add_ Tensor.sub_ Tensor.mul_", into(two), ADDS, weight=2.5),
    *rows("Tensor.add_:add_number_ Tensor.mul_:mul_number_", filled, ADDS, weight=2),
    *rows("Tensor.neg_ Tensor.square_", one, ADDS, weight=0.7),
    *rows("Tensor.abs_ Tensor.relu_", one, replace(JUMPS, writes=True), weight=0.7),
    *rows("Tensor.clamp_", clamp, replace(JUMPS, writes=True), weight=0.7),
    *rows("Tensor.tanh_", floating, replace(ROUNDED, writes=True), weight=0.3),
    *rows("Tensor.fill_", filled, SAME, weight=2),
    *rows("Tensor.zero_", lambda d: (d.tensor(),), SAME),
    *rows("Tensor.copy_", into(two), replace(BYTES, writes=True), weight=4),
    *rows("Tensor.addcmul_", into(third), ADDS),
    *rows("Tensor.lerp_", into(lerp), ADDS, weight=0.5),
    *rows("Tensor.tril_", lambda d: (d.dims(2),), UNCHECKED, weight=0.5),
    *rows("Tensor.masked_fill_", masked_fill, SAME, weight=1.5),
    Row("setitem", "operator.setitem", set_item, replace(WRITES, partial=True), weight=5),
    Row("setitem_mask", "operator.setitem", set_mask, SAME),
    Row("setitem_index", "operator.setitem", set_index, UNCHECKED),
    *rows("Tensor.index_fill_", lambda d: (*(a := indexed_once(d)), d.number(a[0])), SAME),
    *rows(
        "Tensor.index_copy_ Tensor.index_copy",
        lambda d: index_source(d, False),
        UNCHECKED,
        weight=0.7,
    ),
    *rows(
        "Tensor.index_add_ Tensor.index_add",
        lambda d: index_source(d, True),
        replace(ADDS, unchecked=True),
    ),
    *rows(
        "Tensor.scatter_add_ Tensor.scatter_add",
        scattered,
        replace(ADDS, unchecked=True),
        weight=0.7,
    ),
    *rows("Tensor.masked_fill", masked_fill, ANY),
    *rows("Tensor.select_scatter", part),
    *rows("helpers.into", out_of_place, ADDS, weight=1.5),
]
