# SPDX-License-Identifier: BSD-3-Clause
"""Programs of element-wise ops, layers and optimizer steps, run here or in a process without fusion.

A program is data: drawn by hypothesis, sent to the other process, shrunk by leaving steps out.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from parity import Sizes, bits, runtime_mode, set_cuts
from strategies import values
from torch import Tensor

import torch_nntile
from torch_nntile import stats

__all__ = [
    "Input",
    "Layers",
    "Program",
    "Step",
    "layers",
    "layers_of",
    "optimizer_step",
    "programs",
    "results_of",
    "without_fusion",
]

DTYPES = (
    torch.float32,
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
)
# Rows, columns, and how both may be cut. The larger one has several rounds of the map engine in a tile.
SIZES = (
    (6, 5, ((None, None), (2, None), ((1, 5), None), (None, (3, 2)), (4, 2))),
    (53, 47, ((None, None), (20, None), ((3, 50), (40, 7)))),
)
NUMBERS = (0.5, 2, -1, 0, 3)

Call = Callable[[Tensor, Tensor, Tensor, Any], Any]


def part(x: Tensor) -> Tensor:
    """Half of x, a view; x itself if it has no dims."""
    return x[..., : max(1, x.shape[-1] // 2)] if x.dim() else x


CALLS: dict[str, Call] = {
    "add": lambda a, b, c, n: a + b,
    "add with alpha": lambda a, b, c, n: torch.add(a, b, alpha=2),
    "add a number": lambda a, b, c, n: a + n,
    "sub": lambda a, b, c, n: a - b,
    "mul": lambda a, b, c, n: a * b,
    "div": lambda a, b, c, n: a / b,
    "maximum": lambda a, b, c, n: torch.maximum(a, b),
    "neg": lambda a, b, c, n: -a,
    "abs": lambda a, b, c, n: a.abs(),
    "square": lambda a, b, c, n: a.square(),
    "exp": lambda a, b, c, n: a.exp(),
    "sqrt": lambda a, b, c, n: a.sqrt(),
    "tanh": lambda a, b, c, n: a.tanh(),
    "sigmoid": lambda a, b, c, n: a.sigmoid(),
    "gelu": lambda a, b, c, n: F.gelu(a, approximate="tanh"),
    "relu": lambda a, b, c, n: a.relu(),
    "pow": lambda a, b, c, n: a**2,
    "lerp": lambda a, b, c, n: torch.lerp(a, b, 0.25),
    "addcmul": lambda a, b, c, n: torch.addcmul(a, b, c, value=0.5),
    "addcdiv": lambda a, b, c, n: torch.addcdiv(a, b, c, value=-0.5),
    "gt": lambda a, b, c, n: a > b,
    "eq": lambda a, b, c, n: a == n,
    "where": lambda a, b, c, n: torch.where(a > b, b, c),
    "where of a mask": lambda a, b, c, n: torch.where(a.bool(), b, c),
    "masked fill": lambda a, b, c, n: a.masked_fill(b > 0, n),
    "clamp": lambda a, b, c, n: a.clamp(-1, 1),
    "clamp by tensors": lambda a, b, c, n: a.clamp(b, c),
    "logical not": lambda a, b, c, n: ~(a > 0),
    "to f32": lambda a, b, c, n: a.float(),
    "to bf16": lambda a, b, c, n: a.bfloat16(),
    "to f16": lambda a, b, c, n: a.half(),
    "to i32": lambda a, b, c, n: (a > n).int(),
    "to u8": lambda a, b, c, n: (a > n).to(torch.uint8) + 250,
    "to i64": lambda a, b, c, n: a.long(),
    "to i8": lambda a, b, c, n: a.to(torch.int8),
    "dropout": lambda a, b, c, n: F.dropout(a, 0.5),
    "sum of rows": lambda a, b, c, n: a.sum(-1, keepdim=True) if a.dim() else a.sum(),
    "mean of columns": lambda a, b, c, n: a.mean(0) if a.dim() else a.mean(),
    "softmax": lambda a, b, c, n: a.float().softmax(-1),
    "largest": lambda a, b, c, n: a.amax(),
    "column": lambda a, b, c, n: a[..., -1:] if a.dim() else a,
    "row": lambda a, b, c, n: a[-1] if a.dim() == 2 else a,
    "add_": lambda a, b, c, n: a.add_(b),
    "mul_": lambda a, b, c, n: a.mul_(b),
    "mul_ a number": lambda a, b, c, n: a.mul_(n),
    "clamp_": lambda a, b, c, n: a.clamp_(-1, 2),
    "copy_": lambda a, b, c, n: a.copy_(b),
    "zero_": lambda a, b, c, n: a.zero_(),
    "add_ to a part": lambda a, b, c, n: part(a).add_(n),
    "copy_ to a part": lambda a, b, c, n: part(a).copy_(part(b)),
    "a part, put back": lambda a, b, c, n: part(a).copy_(part(a).neg().abs()),
}


@dataclass(frozen=True, slots=True)
class Step:
    """Operands count backwards: 0 is the newest value."""

    call: str
    operands: tuple[int, int, int] = (0, 1, 2)
    number: float = 2
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    shape: tuple[int, ...]
    dtype: torch.dtype
    transposed: bool = False  # a view of dense data, if it has two dims

    def make(self, seed: int, special: bool) -> Tensor:
        turned = self.transposed and len(self.shape) == 2
        x = values(self.shape[::-1] if turned else self.shape, self.dtype, seed, special)
        return x.to("nntile").t() if turned else x.to("nntile")


@dataclass(frozen=True, slots=True)
class Program:
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    seed: int = 0
    cuts: tuple[Sizes | None, Sizes | None] = (None, None)  # of all rows, of all columns
    special: bool = False  # inputs with infinities, nan, zeros of both signs
    inputs_kept: bool = True  # else their memory may be taken


@st.composite
def programs(draw: st.DrawFn) -> Program:
    rows, columns, cuts = draw(st.sampled_from(SIZES))
    shapes = ((rows, columns), (rows, columns), (columns,), (rows, 1), ())
    one = st.builds(
        Input,
        st.sampled_from(shapes),
        st.sampled_from(DTYPES),
        st.sampled_from((False, False, True)),
    )
    step = st.builds(
        Step,
        st.sampled_from(sorted(CALLS)),
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 9)),
        st.sampled_from(NUMBERS),
        st.sampled_from((False, False, True)),
    )
    return Program(
        tuple(draw(st.lists(one, min_size=1, max_size=4))),
        tuple(draw(st.lists(step, min_size=1, max_size=24))),
        draw(st.integers(0, 999)),
        draw(st.sampled_from(cuts)),
        draw(st.booleans()),
        draw(st.booleans()),
    )


def results_of(program: Program) -> tuple[list[Any], int, int]:
    """What is kept, as (dtype, shape, bits); steps that PyTorch took; tasks of the graph."""
    torch.manual_seed(program.seed)
    made = [x.make(program.seed + k, program.special) for k, x in enumerate(program.inputs)]
    for x in made:
        for dim, sizes in zip((-2, -1), program.cuts, strict=True):
            if sizes is not None and x.dim() >= -dim and x.shape[dim] > 1 and x._base is None:
                set_cuts([x], {0: {x.dim() + dim: sizes}})
    x = None  # type: ignore[assignment]  # held by its name
    torch_nntile.wait()
    before = stats().tasks
    with runtime_mode("graph"):
        kept, taken = record(program, made)
        made.clear()  # what is not kept has no reader now
        torch_nntile.run_graph()
    tasks = stats().tasks - before
    return [described(x) for x in kept], taken, tasks


def record(program: Program, made: list[Tensor]) -> tuple[list[Tensor], int]:
    """Tensors that are kept, and how many steps PyTorch took; it refuses 0.5 in an integer, say."""
    kept, taken = list(made) if program.inputs_kept else [], 0
    for step in program.steps:
        a, b, c = (made[-1 - k % len(made)] for k in step.operands)
        number = step.number if a.is_floating_point() else int(step.number)
        try:
            made.append(CALLS[step.call](a, b, c, number))
        except (RuntimeError, TypeError):
            continue
        taken += 1
        if step.kept:
            kept.append(made[-1])
    return [*kept, made[-1]], taken


def described(x: Tensor) -> tuple[str, tuple[int, ...], bytes]:
    return str(x.dtype), tuple(x.shape), bits(x.cpu()).numpy().tobytes()


# What follows a product: of it, of data of its shape, and of a row.
FOLLOWERS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "relu": lambda y, r, row: y.relu(),
    "gelu": lambda y, r, row: F.gelu(y),
    "silu": lambda y, r, row: F.silu(y),
    "tanh": lambda y, r, row: y.tanh(),
    "dropout": lambda y, r, row: F.dropout(y, 0.5),
    "residual": lambda y, r, row: y + r,
    "mask": lambda y, r, row: y * (r > 0),
    "masked fill": lambda y, r, row: y.masked_fill(r > 1, -1),
    "scale": lambda y, r, row: y * 0.5,
    "row": lambda y, r, row: y * row + row,
    "rows": lambda y, r, row: y * r[..., :1],
    "double": lambda y, r, row: (y.double() * 3).to(y.dtype),
    "f32": lambda y, r, row: (y.float() * 3).to(y.dtype),
    "square": lambda y, r, row: y * y,
    "softmax": lambda y, r, row: y.softmax(-1),
    "norm": lambda y, r, row: F.layer_norm(y, y.shape[-1:]),
    "transposed": lambda y, r, row: y + y.mT if y.shape[-1] == y.shape[-2] else y,
}


@dataclass(frozen=True, slots=True)
class Layers:
    """Linear layers (or batched products) with followers, forward and backward."""

    lead: tuple[int, ...]  # all dims of the input but the last
    widths: tuple[int, ...]  # of the input, of each layer's result
    followers: tuple[tuple[str, ...], ...]  # by layer
    dtype: torch.dtype = torch.float32
    bias: bool = True
    batched: bool = False  # baddbmm with weights by batch, for an input of three dims
    cuts: tuple[Sizes | None, Sizes | None, Sizes | None] = (None, None, None)  # rows, k, n
    train: bool = True
    kept: bool = False  # the products are results too
    mode: str = "graph"
    seed: int = 0


@st.composite
def layers(draw: st.DrawFn) -> Layers:
    count = draw(st.integers(1, 3))
    follow = st.lists(st.sampled_from(sorted(FOLLOWERS)), max_size=4).map(tuple)
    return Layers(
        draw(st.sampled_from(((53,), (3, 17), (17, 3), (2, 3, 5), (1, 1), (5, 0)))),
        tuple(draw(st.lists(st.sampled_from((1, 17, 41)), min_size=count + 1, max_size=count + 1))),
        tuple(draw(follow) for _ in range(count)),
        draw(st.sampled_from((torch.float32, torch.float64, torch.bfloat16, torch.float16))),
        draw(st.booleans()),
        draw(st.booleans()),
        (
            draw(st.sampled_from((None, None, 2, 1))),
            draw(st.sampled_from((None, None, 4, 9))),
            draw(st.sampled_from((None, None, 7, 3))),
        ),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sampled_from(("graph", "graph", "eager"))),
        draw(st.integers(0, 999)),
    )


def layers_of(program: Layers) -> tuple[list[Any], int]:
    """Bits of the results and of the gradients; tasks."""
    torch.manual_seed(program.seed)
    seeds = iter(range(program.seed, program.seed + 99))

    def data(*shape: int, cuts: dict[int, Sizes | None] | None = None) -> Tensor:
        x = values(shape, program.dtype, next(seeds)).to("nntile")
        for dim, sizes in (cuts or {}).items():
            if sizes is not None and shape[dim] > 1:
                set_cuts([x], {0: {dim % x.dim(): sizes}})
        return x.mul_(1)  # its data takes the cuts

    batched = program.batched and len(program.lead) == 2
    rows, inner, columns = program.cuts
    x = data(
        *program.lead,
        program.widths[0],
        cuts={**dict.fromkeys(range(len(program.lead)), rows), -1: inner},
    )
    x.requires_grad_(program.train)
    parameters, others = [], []
    for k, n in zip(program.widths, program.widths[1:], strict=False):
        own = inner if not parameters else None
        w = (
            data(program.lead[0], k, n, cuts={-2: own, -1: columns})
            if batched
            else data(n, k, cuts={-1: own, -2: columns})
        )
        b = data(n, cuts={-1: columns}) if program.bias else None
        parameters.append(
            (w.requires_grad_(program.train), b if b is None else b.requires_grad_(program.train))
        )
        others.append((data(*program.lead, n), data(n)))
    dy = data(*program.lead, program.widths[-1])
    torch_nntile.wait()
    before = stats().tasks
    found = []
    with runtime_mode(program.mode):
        y = x
        for (w, b), (r, row), names in zip(parameters, others, program.followers, strict=True):
            if y.shape == r.shape:
                r = y  # a residual that is an operand of the product
            if batched:
                y = torch.bmm(y, w) if b is None else torch.baddbmm(b, y, w, beta=0.5, alpha=2)
            else:
                y = F.linear(y, w, b)
            if program.kept:
                found.append(y)
            for name in names:
                y = FOLLOWERS[name](y, r, row)
        if program.train:
            y.backward(dy)
        found.append(y)
        y = r = None  # type: ignore[assignment]  # nor is it kept by its name
        torch_nntile.run_graph()
    torch_nntile.wait()
    tasks = stats().tasks - before
    leaves = [x, *(p for pair in parameters for p in pair if p is not None)]
    found += [p.grad for p in leaves if p.grad is not None]
    return [described(x.detach()) for x in found], tasks


SHAPES_OF_PARAMETERS = ((7, 5), (5,), (3, 2, 2))


def optimizer_step(name: str, options: dict[str, Any], dtype: torch.dtype) -> tuple[list[Any], int]:
    """Bits of parameters and of the optimizer's state after three steps; tasks of the last one."""
    parameters = [
        values(shape, dtype, k).to("nntile").requires_grad_()
        for k, shape in enumerate(SHAPES_OF_PARAMETERS)
    ]
    optimizer = getattr(torch.optim, name)(parameters, **options)
    tasks = 0
    for step in range(3):
        for k, p in enumerate(parameters):
            p.grad = values(p.shape, dtype, 100 + 10 * step + k).to("nntile")
        torch_nntile.wait()
        before = stats().tasks
        with runtime_mode("graph"):
            optimizer.step()
            torch_nntile.run_graph()
            tasks = stats().tasks - before
    state = [x for p in parameters for x in optimizer.state[p].values() if isinstance(x, Tensor)]
    return [described(x.detach()) for x in [*parameters, *state]], tasks


@contextlib.contextmanager
def without_fusion() -> Iterator[Callable[..., Any]]:
    """A process with NNTILE_FUSE=0: give it the name of a function of this module, and arguments."""
    context = multiprocessing.get_context("spawn")
    end, other = context.Pipe()
    process = context.Process(target=serve, args=(other,), daemon=True)
    process.start()
    other.close()

    def ask(name: str, *arguments: Any) -> Any:
        end.send((name, arguments))
        if not end.poll(120):
            raise TimeoutError(f"{name}: no answer from the process without fusion")
        return end.recv()

    try:
        yield ask
    finally:
        end.close()
        process.join(30)
        process.kill()


def serve(end: Any) -> None:
    os.environ["NNTILE_FUSE"] = "0"  # read when the first graph is lowered
    torch_nntile.init_context(ncpu=2)
    while True:
        try:
            name, arguments = end.recv()
        except EOFError:
            return
        try:
            end.send(globals()[name](*arguments))
        except Exception as error:
            end.send(error)
