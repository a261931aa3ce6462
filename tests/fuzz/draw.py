# SPDX-License-Identifier: BSD-3-Clause
"""Draws programs: picks a row, draws its arguments from the tensors there are, runs it on the CPU."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fuzz.machine import DONE, SKIPPED, Machine
from fuzz.program import DEVICE, Program, Step, Var, variables

__all__ = ["Draw", "NoTensorError", "draw_program"]

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
DTYPES = (*FLOATS, *FLOATS, *INTEGERS, torch.bool)
LARGEST = 600  # elements
# Of some programs, some extents: beyond a register of maps, a chunk, a cache line, what is packed
LARGEST_OF_LONG, LONG = 2**18, (16, 32, 48, 65, 100, 128, 256, 257, 512, 1000, 1024, 2048)
KEPT_ERRORS = 0.2  # share of the calls that PyTorch refuses

Condition = Callable[[Tensor], bool]


class NoTensorError(Exception):
    """The program has no tensor that a row could use."""


class Draw:
    """Source of arguments; each call is run at once, so that later ones know what it made."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.long = self.chance(0.25)
        self.largest = LARGEST_OF_LONG if self.long else LARGEST
        self.machine = Machine("cpu")
        self.steps: list[Step] = []
        self.next = 0
        self.grad = True
        self.over = False

    # ---- steps

    def call(self, kind: str, call: str, args: tuple[Any, ...]) -> Any:
        """Append a step; calls that have no one answer are left out, and most errors."""
        from fuzz.rows import NATURES

        results = tuple(range(self.next, self.next + 12))
        step = Step(kind, call, args, results, self.grad)
        if self.long and self.is_too_large(step):
            return None
        self.machine.try_step(step, NATURES[kind])
        outcome = self.machine.outcomes[-1]
        failed = outcome not in (DONE, SKIPPED)
        if failed and "could not create a primitive" in self.machine.message:
            self.machine.outcomes.pop()  # oneDNN does not broadcast: an error of the CPU's alone
            self.over = True
            return None
        refused = failed and not NATURES[kind].gradients
        read_later, self.machine.lost = self.machine.lost, False
        self.over |= read_later and not refused  # some gradients were written
        unwanted = read_later or (refused and self.random.random() > KEPT_ERRORS)
        if outcome == SKIPPED or unwanted:
            self.machine.outcomes.pop()
            return None
        made = tuple(n for n in results if n in self.machine.tensors)
        self.next += len(made)
        self.steps.append(dataclasses.replace(step, results=made))
        return Var(made[0]) if made else None

    def is_too_large(self, step: Step) -> bool:
        """Whether a result would be far larger than what a program begins with, as PyTorch's Meta
        kernels have it."""
        meta = Machine("meta")
        for v in variables(step.args):
            x = self.machine.tensors.get(v.number)
            if x is not None:
                size = sum(max(n - 1, 0) * k for n, k in zip(x.shape, x.stride(), strict=True)) + 1
                room = torch.empty(size, dtype=x.dtype, device="meta")
                meta.tensors[v.number] = room.as_strided(x.shape, x.stride())
        meta.do(step)  # what reads data fails here
        return any(x.numel() > 4 * self.largest for x in meta.tensors.values())

    def new(self, shape: tuple[int, ...], dtype: torch.dtype, leaf: bool = False) -> Var:
        kind = "leaf" if leaf else "numbers"
        args = (shape, dtype, self.random.randint(1, 10), DEVICE)
        found = self.call(kind, f"helpers.{kind}", args)
        if not isinstance(found, Var):
            raise NoTensorError  # it would be too large
        return found

    # ---- tensors

    def value(self, x: Var) -> Tensor:
        return self.machine.tensors[x.number]

    def tensor(self, condition: Condition = lambda x: True) -> Var:
        """A tensor of the program, newer ones more often."""
        found = [n for n, x in sorted(self.machine.tensors.items()) if condition(x)]
        if not found:
            raise NoTensorError
        k = int(max(self.random.random(), self.random.random()) * len(found))
        return Var(found[k])

    def real(self, *, least: int = 0, most: int = 9, float_only: bool = False) -> Var:
        """A tensor of numbers that are not bool, with so many dims."""
        return self.tensor(
            lambda x: (
                x.dtype != torch.bool
                and least <= x.dim() <= most
                and (x.is_floating_point() or not float_only)
            )
        )

    def floating(self, least: int = 0, most: int = 9) -> Var:
        return self.real(least=least, most=most, float_only=True)

    def dims(self, least: int, most: int = 9) -> Var:
        return self.tensor(lambda x: least <= x.dim() <= most)

    def operand(self, x: Var, *, into: bool = False) -> Var:
        """Something that broadcasts with x (`into`: to x): a tensor of the program, or a new one."""
        shape = self.value(x).shape
        integral = not self.value(x).is_floating_point()

        def fits(y: Tensor) -> bool:
            if into and integral and y.is_floating_point():
                return False
            if into or broadcasts(y.shape, shape):
                return broadcasts(y.shape, shape)
            return broadcasts(shape, y.shape) and y.numel() <= self.largest

        if self.random.random() < 0.75:
            return self.tensor(fits)
        smaller = tuple(1 if self.chance(0.3) else n for n in shape)
        dtype = self.value(x).dtype if into or self.chance(0.7) else self.choice(DTYPES)
        return self.new(smaller[self.random.choice((0, 0, 0, 1)) :], dtype)

    def like(self, x: Var, shape: tuple[int, ...]) -> Var:
        """A tensor of this shape and of the dtype of x."""
        wanted = self.value(x).dtype
        if self.chance(0.5):
            try:
                return self.tensor(lambda y: y.dtype == wanted and tuple(y.shape) == shape)
            except NoTensorError:
                pass
        return self.new(shape, wanted)

    def indices(self, count: int, extent: int, *, twice: bool = False) -> Var:
        """Of a dim; `twice`: they may repeat."""
        if extent == 0:
            raise NoTensorError
        if twice:
            numbers = [self.random.randrange(extent) for _ in range(count)]
        else:
            numbers = self.random.sample(range(extent), min(count, extent))
        found = self.call(
            "indices", "torch.tensor", (numbers, {"dtype": torch.int64, "device": DEVICE})
        )
        assert isinstance(found, Var)
        return found

    def mask(self, x: Var) -> Var:
        """Bools that broadcast to x."""
        shape = self.value(x).shape
        if self.chance(0.5):
            try:
                return self.tensor(lambda y: y.dtype == torch.bool and broadcasts(y.shape, shape))
            except NoTensorError:
                pass
        return self.new(tuple(1 if self.chance(0.2) else n for n in shape), torch.bool)

    def full_mask(self, x: Var) -> Var:
        """Bools of the shape of x."""
        return self.new(tuple(self.value(x).shape), torch.bool)

    # ---- plain arguments

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def choice(self, values: Any) -> Any:
        return self.random.choice(values)

    def dim(self, x: Var) -> int:
        """Of x; sometimes counted from the end, rarely wrong."""
        n = self.value(x).dim()
        if self.chance(0.02):
            return n
        return self.random.randrange(-n, n) if n else self.choice((0, -1))

    def number(self, x: Var | None = None) -> Any:
        """Small; fractions rarely, and only if x has them."""
        if x is None or self.value(x).is_floating_point():
            return self.choice((1, 2, 3, -1, -2, 0, 0.5, -1.5))
        return self.choice((1, 2, 3, 4, 0, 1, 2, 5))

    def shape(self, least: int = 0) -> tuple[int, ...]:
        """Extents with 0, 1, primes; not too many elements."""
        rank = max(least, self.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)))
        shape = [self.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)) for _ in range(rank)]
        if rank and self.chance(0.04):
            shape[self.random.randrange(rank)] = 0
        for _ in range(min(rank, 2) if self.long else 0):
            shape[self.random.randrange(rank)] = self.choice(LONG)
        while torch.Size(shape).numel() > self.largest:
            shape[shape.index(max(shape))] = 2
        return tuple(shape)

    def shape_of(self, x: Var) -> tuple[int, ...]:
        """Another shape with the elements of x."""
        count, shape = self.value(x).numel(), []
        if count == 0:
            return (0, *self.choice(((), (3,), (2, 1))))
        while count > 1 and len(shape) < 4 and self.chance(0.8):
            factor = self.choice([f for f in range(1, count + 1) if count % f == 0])
            shape.append(factor)
            count //= factor
        shape.append(count)
        self.random.shuffle(shape)
        if self.chance(0.2):
            shape[self.random.randrange(len(shape))] = -1
        return tuple(shape) if not self.chance(0.03) else (*shape, 2)

    def part(self, extent: int) -> tuple[int, int]:
        """Start and length of a part of a dim."""
        start = self.random.randint(0, extent)
        return start, self.random.randint(
            0 if self.chance(0.1) else min(1, extent - start), extent - start
        )

    def index(self, x: Var) -> tuple[Any, ...]:
        """As in x[...]: numbers, slices with steps, new dims."""
        found: list[Any] = []
        for extent in self.value(x).shape:
            kind = self.choice(("all", "all", "slice", "slice", "step", "number", "new", "rest"))
            if kind == "rest":
                found.append(Ellipsis)
                break
            if kind == "new":
                found.append(None)
            if kind == "number" and extent:
                found.append(self.random.randrange(-extent, extent))
            elif kind in ("slice", "step"):
                start, length = self.part(extent)
                step = self.choice((2, 3)) if kind == "step" else None
                found.append(slice(start, start + length, step))
            else:
                found.append(slice(None))
        return tuple(found)

    def sizes(self, extent: int) -> Any:
        """Of tiles: uniform, or a ragged list."""
        if extent < 2 or (self.chance(0.1) and extent <= 64):
            return self.choice((1, extent or 1))
        first = self.random.randint(1 if extent <= 8 else extent // 8, extent - 1)
        if self.chance(0.4):
            return first
        second = self.random.randint(0, extent - first)
        return [n for n in (first, second, extent - first - second) if n]

    def cut(self, x: Var) -> tuple[Any, ...]:
        """Arguments of helpers.cut(): a dim gets a name, an old one or a new one, and a cut."""
        dims = [k for k, n in enumerate(self.value(x).shape) if n > 1]
        if not dims:
            raise NoTensorError
        dim = self.choice(dims)
        extent = self.value(x).shape[dim]
        # Names are of one extent: a list of sizes must sum to it.
        return (
            x,
            dim,
            f"axis{self.random.randrange(3)}_of_{extent}",
            ("auto" if self.chance(0.1) else self.sizes(extent)),
        )


def broadcasts(shape: torch.Size, to: torch.Size) -> bool:
    pairs = zip(reversed(shape), reversed(to), strict=False)
    return len(shape) <= len(to) and all(n in (1, extent) for n, extent in pairs)


def draw_program(seed: str) -> Program:
    """The program of a seed: 5 to 60 steps, some tensors first."""
    from fuzz.rows import ROWS

    draw = Draw(seed)
    cuts = draw.chance(0.75)
    gradients = draw.chance(0.4)
    rows = [row for row in ROWS if cuts or row.name != "cut"]
    weights = [row.weight * (5 if gradients and row.of_autograd else 1) for row in rows]
    length = draw.random.randint(5, 60)
    for _ in range(draw.random.randint(1, 3)):
        dtype = draw.choice((torch.float32, torch.float64)) if gradients else draw.choice(DTYPES)
        x = draw.new(draw.shape(), dtype, gradients)
        if cuts and any(n > 1 for n in draw.value(x).shape) and draw.chance(0.7):
            draw.call("cut", "helpers.cut", draw.cut(x))
    attempts = 0
    while len(draw.steps) < length and attempts < 5 * length and not draw.over:
        attempts += 1
        row = draw.random.choices(rows, weights)[0]
        try:
            args = row.args(draw)
        except NoTensorError:
            continue
        draw.call(row.name, row.call, args)
    if draw.chance(0.5):  # what nobody holds when a graph runs may give its memory away
        for number in list(draw.machine.tensors)[:-1]:
            if draw.chance(0.7):
                draw.call("del", "del", (Var(number),))
    return Program(tuple(draw.steps))
