# SPDX-License-Identifier: BSD-3-Clause
"""Views, changes of layout, storages, and calls that move numbers without computing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fuzz.draw import DTYPES, Draw, NoTensorError
from fuzz.machine import Nature
from fuzz.program import DEVICE, Var
from fuzz.row import EXACT, WRITES, Row, rows

__all__ = ["ROWS"]


def two_dims(d: Draw) -> tuple[Any, ...]:
    return (x := d.dims(1), d.dim(x), d.dim(x))


def permutation(d: Draw) -> tuple[Any, ...]:
    x = d.dims(1)
    n = d.value(x).dim()
    return x, tuple(d.random.sample(range(n), n))


def narrow(d: Draw) -> tuple[Any, ...]:
    x = d.dims(1)
    dim = d.random.randrange(d.value(x).dim())
    return x, dim, *d.part(d.value(x).shape[dim])


def select(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: x.dim() > 0 and x.numel() > 0)
    dim = d.random.randrange(d.value(x).dim())
    extent = d.value(x).shape[dim]
    return x, dim, d.random.randrange(-extent, extent)


def larger(d: Draw) -> tuple[Any, ...]:
    """For expand()."""
    x = d.tensor(lambda x: x.dim() < 5 and x.numel() < 100)
    shape = [d.choice((2, 3)) if n == 1 and d.chance(0.7) else n for n in d.value(x).shape]
    shape = [-1 if d.chance(0.2) else n for n in shape]
    return x, tuple([d.choice((1, 2, 3))] * d.choice((0, 0, 1)) + shape)


def flatten(d: Draw) -> tuple[Any, ...]:
    x = d.tensor()
    n = max(d.value(x).dim(), 1)
    first = d.random.randrange(n)
    return x, first, d.random.randrange(first, n)


def unflatten(d: Draw) -> tuple[Any, ...]:
    x = d.dims(1, 4)
    dim = d.random.randrange(d.value(x).dim())
    extent = d.value(x).shape[dim]
    divisors = [n for n in range(1, extent + 1) if extent % n == 0] or [1]
    return x, dim, (d.choice(divisors), -1)


def unfold(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: 0 < x.dim() < 5 and x.numel() > 0)
    dim = d.random.randrange(d.value(x).dim())
    return x, dim, d.random.randint(1, d.value(x).shape[dim]), d.choice((1, 1, 2, 3))


def diagonal(d: Draw) -> tuple[Any, ...]:
    x = d.dims(2)
    first, second = d.random.sample(range(d.value(x).dim()), 2)
    return x, d.choice((0, 0, 1, -1)), first, second


def strided(d: Draw) -> tuple[Any, ...]:
    """A layout inside the storage of x; rarely one outside."""
    x = d.tensor(lambda x: x.numel() > 0)
    value = d.value(x)
    last = value.untyped_storage().nbytes() // value.element_size() - 1
    offset = left = 0
    if last > 0:
        offset = d.random.randint(0, last) if d.chance(0.5) else 0
        left = last - offset
    shape, strides = [], []
    for _ in range(d.choice((0, 1, 1, 2, 2, 3))):
        n, stride = d.random.randint(1, 4), d.choice((0, 1, 1, 2, 3, 4, 6))
        if stride * (n - 1) > left and not d.chance(0.02):
            n = 1
        left -= stride * (n - 1)
        shape.append(n)
        strides.append(stride)
    return x, tuple(shape), tuple(strides), offset


def set_(d: Draw) -> tuple[Any, ...]:
    """Not of indices: see data()."""
    y, shape, strides, offset = strided(d)
    dtype = d.value(y).dtype
    if not dtype.is_floating_point:
        raise NoTensorError
    x = d.tensor(lambda x: x.dtype == dtype and not x.requires_grad)
    return x, y, offset, shape, strides


def parts(d: Draw) -> tuple[Any, ...]:
    """For split(): a size or a list."""
    x = d.tensor(lambda x: x.dim() > 0)
    dim = d.random.randrange(d.value(x).dim())
    extent = d.value(x).shape[dim]
    return x, d.sizes(extent), dim


def several(d: Draw, same: bool) -> tuple[Any, ...]:
    """For cat() and stack(): tensors that differ at most in the dim."""
    x = d.tensor(lambda x: x.numel() <= 120 and (x.dim() > 0 or same))
    shape = list(d.value(x).shape)
    dim = d.random.randrange(len(shape) + same)
    found = [x]
    for _ in range(d.choice((0, 1, 1, 2))):
        other = (
            shape
            if same
            else [d.choice((0, 1, 2, 3)) if k == dim else n for k, n in enumerate(shape)]
        )
        found.append(d.like(x, tuple(other)))
    d.random.shuffle(found)
    return found, dim


def indexed(d: Draw) -> tuple[Any, ...]:
    """A dim and a tensor of indices."""
    x = d.tensor(lambda x: x.dim() > 0 and 0 < x.numel() <= 300)
    dim = d.random.randrange(d.value(x).dim())
    return x, dim, d.indices(d.choice((1, 2, 3)), d.value(x).shape[dim], twice=d.chance(0.5))


def gathered(d: Draw) -> tuple[Any, ...]:
    x, dim, index = indexed(d)
    rank = d.value(x).dim()
    one = tuple(-1 if k == dim else 1 for k in range(rank))
    index = d.call("view", "Tensor.view", (index, one))
    index = d.call(
        "expand",
        "Tensor.expand",
        (index, tuple(-1 if k == dim else n for k, n in enumerate(d.value(x).shape))),
    )
    return x, dim, index


def advanced(d: Draw) -> tuple[Any, ...]:
    """x[..., index, ...] with an index, a mask, or both ends of a pair of indices."""
    x, dim, index = indexed(d)
    before: tuple[Any, ...] = (slice(None),) * dim
    if d.chance(0.3) and dim + 1 < d.value(x).dim():
        count = d.value(index).numel()
        other = d.indices(count, d.value(x).shape[dim + 1], twice=True)
        if d.value(other).numel() == count:
            return x, (*before, index, other)
    return x, (*before, index)


def other_type(d: Draw) -> tuple[Any, ...]:
    """A dtype to see the bytes as. Of floats no zeros: a sum says nothing of their signs."""
    x = d.tensor(
        lambda x: (
            x.dtype != torch.bool
            and not x.requires_grad
            and not (x.is_floating_point() and (x == 0).any())
            and x.numel() > 0
            and (x.dim() == 0 or x.shape[-1] > 1)  # else an error is of a stride of no meaning
        )
    )
    size = d.value(x).element_size()
    # No floats from integers: their bits would be any number.
    choices = {8: "int64 int32 int16", 4: "int32 int16 uint8", 2: "int16 uint8", 1: "uint8 int8"}
    return x, getattr(torch, d.choice(choices[size].split()))


def channels_last(d: Draw) -> tuple[Any, ...]:
    """Without elements it depends on strides of no meaning whether the result is x itself."""
    x = d.tensor(lambda x: x.dim() == 4 and x.numel() > 0)
    return x, {"memory_format": torch.channels_last}


def padded(d: Draw) -> tuple[Any, ...]:
    x = d.tensor(lambda x: 0 < x.dim() < 5 and x.numel() < 100)
    return (
        x,
        [d.choice((0, 1, 2, -1)) for _ in range(2 * d.choice((1, d.value(x).dim())))],
        "constant",
        1,
    )


def rolled(d: Draw) -> tuple[Any, ...]:
    return ("roll", x := d.dims(1), d.choice((1, -1, 2)), d.dim(x))


def filled(d: Draw) -> tuple[Any, ...]:
    shape = d.shape()
    order = d.random.sample(range(len(shape)), len(shape))
    strides, step = [0] * len(shape), d.choice((1, 1, 2))
    for k in order:
        strides[k] = step
        step *= max(shape[k], 1)
    return shape, tuple(strides), d.number(), DEVICE


def owner(d: Draw) -> Var:
    """A tensor whose storage may change."""
    return d.tensor(lambda x: not x.requires_grad and x.dtype != torch.bool)


def resized(d: Draw) -> tuple[Any, ...]:
    return owner(d), d.shape(), d.choice((1, 2, 3))


def data(d: Draw) -> tuple[Any, ...]:
    """x.data = y; not of indices, which autograd may have saved: it would not see the write.

    In programs of gradients of the same shape: no library says what a formula of autograd does with
    data of other shapes.
    """
    x = d.floating()
    dtype, shape = d.value(x).dtype, d.value(x).shape
    tracked = any(y.requires_grad for y in d.machine.tensors.values())

    def fits(y: Tensor) -> bool:
        return y.dtype == dtype and not y.requires_grad and (y.shape == shape or not tracked)

    return x, d.tensor(fits)


def one(d: Draw) -> tuple[Any, ...]:
    return (d.tensor(),)


def one_dim(d: Draw) -> tuple[Any, ...]:
    return (x := d.tensor(), d.dim(x))


def deleted(d: Draw) -> tuple[Any, ...]:
    if len(d.machine.tensors) < 4:
        raise NoTensorError
    return (d.tensor(),)


ROWS: list[Row] = [
    Row(
        "numbers",
        "helpers.numbers",
        lambda d: (d.shape(), d.choice(DTYPES), d.random.randint(1, 10), DEVICE),
        weight=2,
    ),
    Row("empty", "helpers.filled", filled),
    Row(
        "indices",
        "torch.tensor",
        lambda d: ([1, 2], {"dtype": torch.int64, "device": DEVICE}),
        weight=0,
    ),
    Row("del", "del", deleted, weight=3),
    # views
    *rows("Tensor.transpose Tensor.swapaxes Tensor.movedim", two_dims, weight=1.5),
    Row("permute", "Tensor.permute", permutation, weight=2),
    *rows("Tensor.t", lambda d: (d.dims(0, 2),)),
    *rows("get.mT", lambda d: (d.dims(2),)),
    *rows("Tensor.narrow", narrow, weight=2),
    *rows("Tensor.select", select, weight=2),
    Row("getitem", "operator.getitem", lambda d: (x := d.tensor(), d.index(x)), weight=5),
    *rows("Tensor.expand Tensor.broadcast_to", larger, weight=1.5),
    *rows("Tensor.unsqueeze Tensor.squeeze Tensor.unbind", one_dim),
    *rows("Tensor.squeeze:squeeze_all Tensor.ravel Tensor.detach", one),
    *rows("get.data", lambda d: (d.floating(),)),
    *rows("Tensor.view Tensor.reshape", lambda d: (x := d.tensor(), d.shape_of(x)), weight=2),
    *rows("Tensor.flatten", flatten),
    *rows("Tensor.unflatten", unflatten),
    *rows("Tensor.unfold", unfold),
    *rows("Tensor.diagonal", diagonal),
    *rows("Tensor.as_strided", strided, weight=1.5),
    *rows("Tensor.chunk", lambda d: (x := d.dims(1), d.choice((1, 2, 3)), d.dim(x))),
    *rows("Tensor.split", parts, weight=1.5),
    Row("view_dtype", "Tensor.view", other_type, Nature(exact=True)),
    # in place, but no number changes
    *rows("Tensor.transpose_", two_dims, weight=0.5),
    *rows("Tensor.unsqueeze_ Tensor.squeeze_", one_dim, weight=0.5),
    *rows("Tensor.t_", lambda d: (d.dims(0, 2),), weight=0.3),
    *rows("Tensor.as_strided_", strided, weight=0.3),
    *rows("Tensor.detach_", one, weight=0.3),
    # storages
    *rows("helpers.resized", resized, WRITES),
    *rows("helpers.regrown", lambda d: (owner(d), d.choice((1, 2))), WRITES, weight=0.5),
    *rows("helpers.set_", set_, weight=0.7),
    *rows("set.data:set_data", data, weight=0.7),
    # copies
    *rows("Tensor.clone Tensor.contiguous", one, weight=1.5),
    *rows(
        "Tensor.contiguous:channels_last Tensor.clone:clone_channels_last",
        channels_last,
        weight=0.5,
    ),
    *rows("torch.cat", lambda d: several(d, False), weight=2),
    *rows("torch.stack", lambda d: several(d, True)),
    *rows("Tensor.flip", one_dim),
    Row("roll", "helpers.dense", rolled),
    *rows("F.pad", padded),
    *rows("Tensor.tril Tensor.triu", lambda d: (d.dims(2), d.choice((0, 1, -1)))),
    *rows(
        "Tensor.repeat_interleave",
        lambda d: (x := d.tensor(lambda x: 0 < x.dim() and x.numel() < 100), 2, d.dim(x)),
    ),
    *rows("Tensor.index_select", indexed),
    *rows("Tensor.gather", gathered),
    Row("getitem_index", "operator.getitem", advanced, weight=2),
    Row("getitem_mask", "operator.getitem", lambda d: (x := d.tensor(), d.full_mask(x))),
    *rows("Tensor.masked_select", lambda d: (x := d.tensor(), d.mask(x)), weight=0.5),
    *rows("Tensor.nonzero", one, EXACT, weight=0.5),
]
