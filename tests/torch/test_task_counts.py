# SPDX-License-Identifier: BSD-3-Clause
"""Tasks and copies of reference programs, pinned: a lost cut or a new copy shows here.

A program runs as one graph, with data that is cut already. `tasks` are all of its tasks, `copies`
those that the lowering inserted because cuts, layouts or whole values asked for them; `needed` is
what the algebra (docs/concepts/tiling.md) needs, where that is less.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from emulated_devices import on_cores
from parity import runtime_mode
from torch import Tensor, nn
from torch.func import functional_call
from torch.utils import _pytree as pytree

from torch_nntile import (
    compile_graph,
    explain,
    run_graph,
    set_axis_group_name,
    set_axis_group_tiling,
    stats,
    wait,
)

Dims = Mapping[int, int | Sequence[int]]  # dim -> its cut


@dataclass(frozen=True)
class Program:
    call: Callable[..., Any]
    inputs: Sequence[tuple[tuple[int, ...], Dims]]
    tasks: int = 0
    copies: int = 0
    needed: int | None = None  # copies


ROWS = ((6, 4), {0: (3, 3)})
BOTH = ((6, 4), {0: 2, 1: (1, 3)})
TOKENS = ((6, 5, 8), {0: (3, 3)})


def written(index: Any, value: Callable[[Tensor], Any]) -> Callable[[Tensor], Tensor]:
    """A part of a temporary is changed in place."""

    def call(x: Tensor) -> Tensor:
        y = x + 1
        value(y[index])
        return y

    return call


def read_before_write(x: Tensor) -> list[Tensor]:
    """The product waits for cat(), but not beyond the write to what it reads: that would need a copy."""
    y = x + 1
    rows = y[:3] * 2
    y[5].zero_()
    return [y, torch.cat([rows, x[:3]])]


def attention(x: Tensor, qkv: Tensor, out: Tensor, heads: int = 2) -> Tensor:
    batch, length, width = x.shape
    q, k, v = (
        part.view(batch, length, heads, -1).transpose(1, 2)
        for part in F.linear(x, qkv).split(width, dim=2)
    )
    weights = (q @ k.transpose(-2, -1) * 0.5).softmax(-1)
    return F.linear((weights @ v).transpose(1, 2).reshape(batch, length, width), out)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.out = nn.Linear(8, 24, bias=False), nn.Linear(8, 8, bias=False)
        self.mlp = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = x + attention(self.before(x), self.qkv.weight, self.out.weight)
        return x + self.mlp(self.after(x))


class Fused(nn.Module):
    """Heads made, attended and merged as nearly all models do it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (y.view(batch, length, 2, 4).transpose(1, 2) for y in self.qkv(x).split(width, 2))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        result: Tensor = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return result


def trained(
    make: Callable[[], nn.Module],
    x: tuple[tuple[int, ...], Dims],
    cuts: Mapping[str, Dims] | None = None,
    **counts: int,
) -> Program:
    """Forward, mean square and backward: a program of the input and the parameters."""
    module = make()
    names = [name for name, _ in module.named_parameters()]

    def call(x: Tensor, *parameters: Tensor) -> list[Tensor]:
        leaves = [p.detach().requires_grad_() for p in parameters]
        y = functional_call(module, dict(zip(names, leaves, strict=True)), (x,))
        loss = (y[0] if isinstance(y, tuple) else y).square().mean()
        return [loss, *torch.autograd.grad(loss, leaves)]

    shapes = [(tuple(p.shape), (cuts or {}).get(n, {})) for n, p in module.named_parameters()]
    return Program(call, (x, *shapes), **counts)


def stepped(make: Callable[[list[Tensor]], torch.optim.Optimizer]) -> Callable[..., Tensor]:
    def call(weight: Tensor, grad: Tensor) -> Tensor:
        leaf = (weight + 0).requires_grad_()
        leaf.grad = grad.detach()
        make([leaf]).step()
        return leaf.detach()

    return call


def encoder(batch_first: bool) -> nn.Module:
    return nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=batch_first)


def opposite(x: Tensor, w: Tensor) -> Tensor:
    return x.t() @ w


# Views whose tiles are blocks in place: one task for each tile of the result, nothing else.
ALIGNED: dict[str, Program] = {
    "the tensor itself": Program(lambda x: x.exp(), [ROWS], 2),
    "transpose": Program(lambda x: x.t().exp(), [BOTH], 6),
    "permute": Program(lambda x: x.permute(2, 0, 1).exp(), [((4, 6, 2), {1: (1, 5)})], 2),
    "columns": Program(lambda x: x[:, 1:3].exp(), [ROWS], 2),
    "every second row": Program(lambda x: x[::2].exp(), [((8, 4), {0: 4})], 2),
    "rows of two tiles": Program(lambda x: x[2:5].exp(), [ROWS], 2),
    "rows of one tile": Program(lambda x: x[3:].exp(), [ROWS], 1),
    "one row": Program(lambda x: x[4].exp(), [ROWS], 1),
    "expand": Program(lambda x: x[:, None].expand(6, 3, 4) + 1, [ROWS], 2),
    "column plus rows": Program(lambda x: x[:, :1] + x, [ROWS], 2),
    "halves of a cut dim": Program(lambda x: [p.exp() for p in x.chunk(2)], [ROWS], 2),
    "thirds of another dim": Program(
        lambda x: [p.exp() for p in x.split(2, 2)], [((4, 2, 6), {0: 2})], 6
    ),
    "heads out of a row": Program(lambda x: x.view(6, 5, 2, 4).transpose(1, 2).exp(), [TOKENS], 2),
    "heads, cut between": Program(lambda x: x.view(6, 5, 2, 4).exp(), [((6, 5, 8), {2: 4})], 2),
    "heads, cut inside": Program(lambda x: x.view(6, 5, 2, 4).exp(), [((6, 5, 8), {2: 2})], 4),
    "batch into rows": Program(lambda x: x.view(30, 8).exp(), [TOKENS], 2),
    "inner batch into rows": Program(lambda x: x.view(20, 8).exp(), [((5, 4, 8), {1: (1, 3)})], 2),
    "rows back to inner batch": Program(
        lambda x: x.view(20, 8).exp().view(5, 4, 8).transpose(0, 1).exp(), [((5, 4, 8), {1: 2})], 4
    ),
    "windows of another dim": Program(lambda x: x.unfold(1, 3, 1).exp(), [ROWS], 2),
    "diagonal of each matrix": Program(
        lambda x: x.diagonal(0, 1, 2).exp(), [((6, 3, 3), {0: 2})], 3
    ),
    "relative shift": Program(
        lambda x: x.view(6, 20)[:, 4:].view(6, 4, 4).exp(), [((6, 4, 5), {0: (2, 4)})], 2
    ),
    "product of transposed": Program(opposite, [((5, 6), {1: (2, 4)}), ((5, 3), {})], 2),
}

# Where fewer copies are needed: (1) what is written into a part of other data could be computed there
# even if others read it too, or if it is no element-wise result (the gates of an LSTM, the gradients
# of queries, keys and values); (2) parameters and gradients that only layer norms use need no cut if
# those want them whole.
PROGRAMS: dict[str, Program] = {
    "reduce a cut dim": Program(lambda x: x.sum(0), [ROWS], tasks=3, copies=0),
    "softmax along rows": Program(lambda x: x.softmax(-1), [ROWS], tasks=2, copies=0),
    "softmax along the cut": Program(lambda x: x.softmax(0), [ROWS], tasks=5, copies=4),
    "reshape into other rows": Program(
        lambda x: x.reshape(4, 6).exp(), [((6, 4), {0: 2})], tasks=4, copies=3
    ),
    "reshape, columns cut": Program(
        lambda x: x.reshape(4, 6).exp(), [((6, 4), {1: 2})], tasks=2, copies=2
    ),
    "two operands, cut unlike": Program(
        torch.add, [((12, 2), {0: 4}), ((12, 2), {0: 6})], tasks=7, copies=4
    ),
    # One tile of the view is a block of the longer tile and stays there; the other is put together.
    "cut unlike behind a view": Program(
        lambda x, y: x.view(12, 2) + y,
        [((24,), {0: (10, 14)}), ((12, 2), {0: 6})],
        tasks=4,
        copies=2,
    ),
    "diagonal over tiles": Program(
        lambda x: x.diagonal().exp(), [((6, 6), {0: 3})], tasks=3, copies=2
    ),
    "windows of the cut dim": Program(
        lambda x: x.unfold(0, 3, 1).sum(-1), [((6,), {0: 3})], tasks=3, copies=2
    ),
    "cat of columns": Program(lambda x, y: torch.cat([x, y], 1), [ROWS, ROWS], tasks=4, copies=4),
    "cat of rows": Program(lambda x, y: torch.cat([x, y]), [ROWS, ROWS], tasks=4, copies=4),
    "stack": Program(lambda x, y: torch.stack([x, y], 1), [ROWS, ROWS], tasks=4, copies=4),
    "columns in place": Program(
        written((slice(None), slice(1, 3)), lambda v: v.mul_(2)),
        [ROWS],
        tasks=4,
        copies=0,
    ),
    "a tile in place": Program(
        written(slice(3, None), lambda v: v.mul_(2)), [ROWS], tasks=3, copies=0
    ),
    "zero a row": Program(written(1, lambda v: v.zero_()), [ROWS], tasks=3, copies=0),
    "a part of a part in place": Program(
        written(slice(1, 5), lambda v: v[1:3, ::2].add_(1)), [ROWS], tasks=4, copies=0
    ),
    "a part from another part": Program(
        written(slice(None), lambda v: v[:3].copy_(v[3:])), [ROWS], tasks=3, copies=0
    ),
    "a part plus another part": Program(
        written(slice(None), lambda v: v[:, :2].add_(v[:, 2:])), [ROWS], tasks=4, copies=0
    ),
    "two parts, read between": Program(
        lambda x: (y := x + 1, y[:, 0].mul_(2), y.sum(), y[:, 1].mul_(3)), [ROWS], tasks=9, copies=0
    ),
    "cat of results": Program(
        lambda x, y: torch.cat([x + 1, y.exp().view(6, 4)], 1), [ROWS, ROWS], tasks=4, copies=0
    ),
    "read, then written, then put elsewhere": Program(read_before_write, [ROWS], tasks=6, copies=2),
    "all of it in place": Program(
        written(slice(None), lambda v: v.mul_(2)), [ROWS], tasks=2, copies=0
    ),
    "attention": Program(attention, [TOKENS, ((24, 8), {}), ((8, 8), {})], tasks=18, copies=0),
    "attention, heads cut": Program(
        attention, [((6, 5, 8), {}), ((24, 8), {0: 4}), ((8, 8), {1: 4})], tasks=23, copies=0
    ),
    "layer norm": trained(lambda: nn.LayerNorm(8), TOKENS, tasks=13, copies=0),
    "layer norm, hidden cut": trained(
        lambda: nn.LayerNorm(8), ((6, 8), {0: 3, 1: 4}), tasks=39, copies=24, needed=12
    ),
    "linear": trained(lambda: nn.Linear(8, 3), TOKENS, tasks=15, copies=0),
    "linear, inner batch": trained(
        lambda: nn.Linear(8, 3), ((5, 6, 8), {1: 3}), tasks=15, copies=0
    ),
    "two layers, batch and hidden": trained(
        lambda: nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 8)),
        ((6, 8), {0: 3}),
        {"0.weight": {0: (5, 7)}, "0.bias": {0: (5, 7)}, "2.weight": {1: (5, 7)}},
        tasks=42,
        copies=0,
    ),
    "encoder layer": trained(lambda: encoder(True), TOKENS, tasks=101, copies=0),
    "encoder layer, inner batch": trained(
        lambda: encoder(False), ((5, 6, 8), {1: 3}), tasks=95, copies=0
    ),
    "fused attention": trained(Fused, TOKENS, tasks=35, copies=6, needed=0),
    "GPT block": trained(Block, TOKENS, tasks=91, copies=2, needed=0),
    "GPT block, batch and mlp": trained(
        Block,
        TOKENS,
        {
            "mlp.0.weight": {0: (5, 7)},
            "mlp.0.bias": {0: (5, 7)},
            "mlp.2.weight": {1: (5, 7)},
        },
        tasks=110,
        copies=2,
        needed=0,
    ),
    "LSTM": trained(
        lambda: nn.LSTM(3, 4, batch_first=True), ((6, 5, 3), {0: 3}), tasks=34, copies=0
    ),
    "sgd with momentum": Program(
        stepped(lambda p: torch.optim.SGD(p, 0.1, 0.9)), [ROWS, ROWS], tasks=4, copies=0
    ),
    "adam": Program(
        stepped(lambda p: torch.optim.Adam(p, 0.1, foreach=True)), [ROWS, ROWS], tasks=2, copies=0
    ),
    "fused adam": Program(
        stepped(lambda p: torch.optim.AdamW(p, 0.1, fused=True)), [ROWS, ROWS], tasks=3, copies=0
    ),
}


def data(program: Program) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator) / 2 for shape, _ in program.inputs]


def on_device(program: Program, cpu: list[Tensor]) -> list[Tensor]:
    """Copies that are cut before the program begins."""
    found = []
    groups: dict[tuple[int, str], str] = {}  # equal cuts of equal dims are one group
    for x, (_, cuts) in zip(cpu, program.inputs, strict=True):
        y = x.to("nntile")
        for dim, sizes in cuts.items():
            name = groups.setdefault((x.shape[dim], str(sizes)), f"axis_{uuid.uuid4().hex[:8]}")
            set_axis_group_name(y, {dim: name})
            set_axis_group_tiling(name, sizes)
        found.append(y.mul_(1))
    wait()
    return found


def counted(program: Program) -> tuple[int, int, str]:
    """Tasks and copies, and the text of the tiles; the results are compared with the CPU's."""
    cpu = data(program)
    expected = pytree.tree_leaves(program.call(*(x.clone() for x in cpu)))
    inputs = on_device(program, cpu)
    with runtime_mode("graph"):
        results = pytree.tree_leaves(program.call(*inputs))
        wait()
        before = stats()
        compile_graph()
        text = explain("tiles")
        run_graph()
        wait()
        after = stats()
    for found, wanted in zip(results, expected, strict=True):
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
    assert after.graphs == before.graphs + 1, "a reference program is one graph"
    return after.tasks - before.tasks, after.copies - before.copies, text


@pytest.mark.parametrize("name", ALIGNED)
def test_an_aligned_view_adds_no_task(name: str) -> None:
    tasks, copies, text = counted(ALIGNED[name])
    assert (tasks, copies) == (ALIGNED[name].tasks, 0), text
    assert not re.search(r"^  retile", text, re.MULTILINE), text


@on_cores  # whose reductions compute what they read: on a GPU that is a task before them
@pytest.mark.parametrize("name", PROGRAMS)
def test_tasks_and_copies_are_those_of_this_table(name: str) -> None:
    program = PROGRAMS[name]
    tasks, copies, text = counted(program)
    assert (tasks, copies) == (program.tasks, program.copies), text
    assert program.needed is None or program.needed < copies, "needed is for copies too many"
