# SPDX-License-Identifier: BSD-3-Clause
"""Inputs for calls of rows, made from the rows: a new row of aten.py needs no line here.

A call is `AtenCall`; its inputs are CPU tensors as parity.py wants them: dense, or a view of a
dense tensor. Values come from a seed, so that an example is small and shrinks fast.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import samples
import torch
from hypothesis import strategies as st
from torch import Tensor

from torch_nntile import _c, aten
from torch_nntile.schemas import is_in_place, is_written, schema_of

__all__ = [
    "AtenCall",
    "Op",
    "Slot",
    "aten_calls",
    "cuts_of",
    "layouts",
    "op_of",
    "shapes",
    "tensors",
]

DTYPES = tuple(_c.DTYPES)
EXTENTS = st.sampled_from((1, 2, 3, 4, 5, 7, 8, 13, 17))


# ---- rows of libnntile_c, read back


@dataclass(frozen=True)
class Op:
    """A row: nntile_op_* as a value."""

    name: str
    rule: str
    inputs: tuple[tuple[str, str], ...]  # name, type; '?' and '*' as in nntile/op.h
    outputs: tuple[tuple[str, str], ...]
    attributes: tuple[str, ...]
    choices: dict[str, tuple[str, ...]]
    dtypes: tuple[torch.dtype, ...]


@functools.cache
def op_of(name: str) -> Op:
    slot = _c.new("uint32_t *")
    _c.call("nntile_op_find", name.encode(), slot)
    op = slot[0]

    def text(function: str, *args: int) -> str:
        return _c.text(_c.get(f"nntile_op_{function}", op, *args))

    def operands(kind: str) -> tuple[tuple[str, str], ...]:
        count = _c.get(f"nntile_op_{kind}_count", op)
        return tuple((text(f"{kind}_name", i), text(f"{kind}_type", i)) for i in range(count))

    attributes = tuple(text("attr_name", i) for i in range(_c.get("nntile_op_attr_count", op)))
    words = {name: text("attr_choices", i) for i, name in enumerate(attributes)}
    return Op(
        name,
        text("rule"),
        operands("input"),
        operands("output"),
        attributes,
        {name: tuple(all_words.split("|")) for name, all_words in words.items() if all_words},
        tuple(dtype for dtype in DTYPES if _c.get("nntile_op_takes", op, _c.DTYPES[dtype])),
    )


# ---- shapes, layouts, values, cuts


@st.composite
def shapes(draw: st.DrawFn, max_dims: int = 3, may_be_empty: bool = True) -> tuple[int, ...]:
    """Primes, powers of two, 1, a scalar; now and then an extent of 0."""
    shape = draw(st.lists(EXTENTS, max_size=max_dims).map(tuple))
    if may_be_empty and shape and draw(st.integers(0, 9)) == 0:
        empty = draw(st.integers(0, len(shape) - 1))
        return (*shape[:empty], 0, *shape[empty + 1 :])
    return shape


SPECIAL = (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 0.5, -1e-4, 30.0, -30.0)


def values(shape: Sequence[int], dtype: torch.dtype, seed: int, special: bool = False) -> Tensor:
    """Numbers of a seed; `special` mixes in infinities, nan, zeros of both signs and ties."""
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        low = 0 if dtype == torch.uint8 else -6
        return torch.randint(low, 7, shape, generator=generator).to(dtype)
    data = torch.randn(shape, generator=generator, dtype=torch.float64)
    if special:
        table = torch.tensor(SPECIAL, dtype=torch.float64)
        choice = torch.randint(len(SPECIAL), shape, generator=generator)
        data = torch.where(torch.rand(shape, generator=generator) < 0.4, table[choice], data)
    return data.to(dtype)


def nonzero(tensor: Tensor) -> Tensor:
    return torch.where(tensor == 0, torch.ones_like(tensor), tensor)


@dataclass(frozen=True)
class Layout:
    """How a tensor of a shape lies in dense data: see make()."""

    kind: str = "dense"
    permutation: tuple[int, ...] = ()
    border: tuple[tuple[int, int, int], ...] = ()  # by dim: elements before, after, step
    expanded: tuple[bool, ...] = ()

    def make(self, shape: Sequence[int], fill: Callable[[Sequence[int]], Tensor]) -> Tensor:
        if self.kind == "permuted":
            inverse = sorted(range(len(shape)), key=self.permutation.__getitem__)
            return fill([shape[d] for d in self.permutation]).permute(inverse)
        if self.kind == "sliced":
            sizes = [a + n * k + b for n, (a, b, k) in zip(shape, self.border, strict=True)]
            view = fill(sizes)
            for d, (before, _, step) in enumerate(self.border):
                view = view.narrow(d, before, shape[d] * step)
                index = [slice(None)] * d + [slice(None, None, step)]
                view = view[tuple(index)]
            return view
        if self.kind == "expanded":
            sizes = [1 if e else n for n, e in zip(shape, self.expanded, strict=True)]
            return fill(sizes).expand(*shape)
        return fill(list(shape))


@st.composite
def layouts(draw: st.DrawFn, ndim: int, written: bool = False) -> Layout:
    """Dense, transposed, a slice with steps and borders, or expanded (if nobody writes it)."""
    kinds = (
        ["dense", "permuted", "sliced"] if written else ["dense", "permuted", "sliced", "expanded"]
    )
    kind = draw(st.sampled_from(kinds)) if ndim else "dense"
    if kind == "permuted":
        return Layout(kind, permutation=tuple(draw(st.permutations(range(ndim)))))
    if kind == "sliced":
        border = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 2))
        return Layout(kind, border=tuple(draw(st.lists(border, min_size=ndim, max_size=ndim))))
    if kind == "expanded":
        flags = draw(st.lists(st.booleans(), min_size=ndim, max_size=ndim))
        return Layout(kind, expanded=tuple(flags))
    return Layout()


@st.composite
def tensors(
    draw: st.DrawFn,
    shape: Sequence[int],
    dtype: torch.dtype,
    *,
    written: bool = False,
    special: bool = False,
    divisor: bool = False,
) -> Tensor:
    """A tensor of this shape in some layout."""
    layout = draw(layouts(len(shape), written))
    seed = draw(st.integers(0, 999))

    def fill(sizes: Sequence[int]) -> Tensor:
        data = values(sizes, dtype, seed, special)
        return nonzero(data) if divisor else data

    return layout.make(shape, fill)


@st.composite
def cuts_of(draw: st.DrawFn, inputs: Sequence[Tensor]) -> dict[int, dict[int, Any]]:
    """Cuts of the data of some inputs: uniform, or lists of unequal sizes."""
    cuts: dict[int, dict[int, Any]] = {}
    for k, tensor in enumerate(inputs):
        data = tensor if tensor._base is None else tensor._base
        for dim, extent in enumerate(data.shape):
            if extent < 2 or not draw(st.booleans()):
                continue
            first = draw(st.integers(1, extent - 1))
            second = draw(st.integers(first, extent - 1))
            ragged = [size for size in (first, second - first, extent - second) if size > 0]
            sizes = first if draw(st.booleans()) else tuple(ragged)
            cuts.setdefault(k, {})[dim] = sizes
    return cuts


# ---- calls of rows


@dataclass(frozen=True)
class Slot:
    """Stands for input `number` of a call."""

    number: int


@dataclass(frozen=True)
class AtenCall:
    """A call of an overload; its repr can be pasted."""

    overload: str  # "aten::add.Tensor"
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __call__(self, *inputs: Tensor) -> Any:
        def fill(value: Any) -> Any:
            if isinstance(value, Slot):
                return inputs[value.number]
            return [fill(v) for v in value] if isinstance(value, list) else value

        namespace, _, name = self.overload.partition("::")
        name, _, overload = name.partition(".")
        packet = getattr(getattr(torch.ops, namespace), name)
        function = getattr(packet, overload or "default")
        return function(*map(fill, self.args), **{k: fill(v) for k, v in self.kwargs.items()})

    def __repr__(self) -> str:
        return f"strategies.AtenCall({self.overload!r}, {self.args!r}, {self.kwargs!r})".replace(
            "Slot(", "strategies.Slot("
        )


@dataclass(frozen=True)
class Example:
    """A call, its inputs, and whether inputs are written or special (no gradient then)."""

    call: AtenCall
    inputs: tuple[Tensor, ...]
    grad: bool


def words_of(row: aten.Row) -> dict[str, str]:
    """Argument -> operand or attribute of the op."""
    pairs = (word.partition(":") for word in row.arguments.split() if "=" not in word)
    return {argument: target or argument for argument, _, target in pairs}


@st.composite
def aten_calls(draw: st.DrawFn, row: aten.Row, overload: str) -> Example:
    """A call of one form of an element-wise row, every argument drawn from schema and op row."""
    op, words, schema = op_of(row.op), words_of(row), schema_of(overload)
    types = {name.rstrip("?*"): type_ for name, type_ in op.inputs}
    name = schema.name.partition("::")[2].rstrip("_")
    in_place = is_in_place(schema) or any(is_written(a) and not a.is_out for a in schema.arguments)
    foreach = bool(row.flags & aten.FOREACH)
    dtype = draw(st.sampled_from(op.dtypes))
    mixed = not in_place and not foreach and draw(st.integers(0, 7)) == 0
    special = dtype.is_floating_point and draw(st.integers(0, 3)) == 0
    special = special and row.op not in samples.UNLIKE_AT_NAN
    shape = draw(shapes())
    inputs: list[Tensor] = []

    def operand(argument: Any, target: str) -> Slot:
        # A condition or a mask; a row that takes any dtype there takes this one.
        fixed = torch.bool if types.get(target, "T") == "any" else None
        own = fixed or (draw(st.sampled_from(op.dtypes)) if mixed else dtype)
        written = is_written(argument)
        inputs.append(
            draw(
                tensors(
                    shape if written or foreach else draw(parts_of(shape)),
                    own,
                    written=written,
                    special=special,
                    divisor=name in samples.DIVISIONS,
                )
            )
        )
        return Slot(len(inputs) - 1)

    def value(argument: Any) -> Any:
        target, type_ = words.get(argument.name, argument.name), str(argument.type)
        if type_ == "List[Tensor]":
            return [operand(argument, target) for _ in range(2)]
        if type_ == "Tensor":
            if foreach:  # a lone tensor of a list op is a scalar
                inputs.append(values((), dtype, draw(st.integers(0, 99))))
                return Slot(len(inputs) - 1)
            return operand(argument, target)
        if type_.startswith("List["):
            return [number(argument, target) for _ in range(2)]
        if type_ == "str":
            return draw(st.sampled_from(op.choices[target]))
        if type_ == "bool":
            return draw(st.booleans())
        return number(argument, target)

    def number(argument: Any, target: str) -> Any:
        choices = samples.NUMBERS.get(argument.name, samples.NUMBERS[""])
        if dtype in (torch.bool, torch.uint8):  # PyTorch wraps numbers that the dtype lacks
            choices = tuple(c for c in choices if c in (0, 1) or (c > 0 and dtype != torch.bool))
        if not dtype.is_floating_point:
            choices = tuple(c for c in choices if c == int(c)) or choices
            choices = tuple(int(c) for c in choices)
        return draw(st.sampled_from(choices))

    args = tuple(value(a) for a in schema.arguments if not a.kwarg_only)
    kwargs = {
        a.name: value(a)
        for a in schema.arguments
        if a.kwarg_only and not a.is_out and a.name not in ("dtype", "generator")
    }
    example = Example(AtenCall(overload, args, kwargs), tuple(inputs), False)
    outs = [a for a in schema.arguments if a.is_out]
    if outs:
        return with_out(draw, example, outs)
    grad = not in_place and not foreach and not special and dtype in (torch.float32, torch.float64)
    return Example(example.call, example.inputs, grad)


@st.composite
def parts_of(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`; mostly itself."""
    if not shape or draw(st.integers(0, 3)):
        return shape
    dropped = draw(st.integers(0, len(shape)))
    ones = draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    kept = [1 if one else n for n, one in zip(shape, ones, strict=True)]
    return tuple(kept[dropped:])


def with_out(draw: st.DrawFn, example: Example, outs: list[Any]) -> Example:
    """Adds out= arguments: of the right shape in some layout, or empty, to be resized."""
    call, inputs, kwargs = example.call, list(example.inputs), dict(example.call.kwargs)
    functional = {a.name: torch.empty(0) for a in outs}
    try:
        results = call_out(call, inputs, functional)
    except RuntimeError:  # PyTorch has no such result: the caller finds out by itself
        results = list(functional.values())
    for a, result in zip(outs, results, strict=True):
        fits = draw(st.booleans())
        shape = tuple(result.shape) if fits else (0,)
        # The layout of a resized one is a matter of the library: no data around it to look at.
        layout = (
            tensors(shape, result.dtype, written=True)
            if fits
            else st.just(torch.empty(0, dtype=result.dtype))
        )
        inputs.append(draw(layout))
        kwargs[a.name] = Slot(len(inputs) - 1)
    return Example(AtenCall(call.overload, call.args, kwargs), tuple(inputs), False)


def call_out(call: AtenCall, inputs: list[Tensor], outs: dict[str, Tensor]) -> list[Tensor]:
    kwargs = {**call.kwargs, **outs}
    full = AtenCall(call.overload, call.args, kwargs)
    # The first that PyTorch takes. A wider target than the inputs shows where a library rounds or
    # wraps, which is its own business.
    for dtype in (inputs[0].dtype, *DTYPES):
        for name in outs:
            full.kwargs[name] = torch.empty(0, dtype=dtype)
        try:
            result = full(*inputs)
        except RuntimeError:
            continue
        return list(result) if isinstance(result, (tuple, list)) else [result]
    raise RuntimeError("no dtype fits")
