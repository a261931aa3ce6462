# SPDX-License-Identifier: BSD-3-Clause
"""Training steps of models: automatic cuts beside CPU PyTorch, none, and the batch cut by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from bench import models, timing
from bench.sized_models import MODELS
from bench.timing import Goal, Row
from parity import assert_close, runtime_mode
from torch import Tensor
from torch.nn import functional

import torch_nntile

pytestmark = pytest.mark.bench

MODES = ("eager", "graph")
BY_HAND = (2, 4, 8)  # in how many the batch is cut; one is the setting "off"
LATER = 100  # the step that must have as many tasks as the third
TO_CPU = dict.fromkeys(("vit", "mixer", "llama", "gpt2", "mlp_deep", "vae"), 0.95)
TO_CPU |= {"resnet18": 1.1, "unet": 1.1, "lstm": 1.9}
SPEED_UP = ("resnet18", "gpt2", "bert", "vit", "mixer", "unet")

TILES = (1, 2, 4, 8, 16, 32, 64)
ROWS, WIDTH = 8192, 512
OPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda x, w: x @ w,
    "element-wise chain": lambda x, w: functional.gelu(x * 0.5 + 1) * x,
    "softmax": lambda x, w: x.softmax(1),
}


def later(setting: models.Setting, step: int) -> int:
    """Tasks of step number `step`, or of the next one, if more were made."""
    setting.block(max(1, step - 1 - len(setting.process.losses)))
    setting.block(1)
    return setting.counted[-1][1]["tasks"]


@pytest.mark.multi
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("work", MODELS)
def test_model(rows: list[Row], work: str, mode: str) -> None:
    by_hand = {f"{mode}-off": "no cut"}
    by_hand |= {f"{mode}-b{count}": f"batch in {count}" for count in BY_HAND}
    names = ["cpu", mode, *by_hand]
    if work in SPEED_UP:
        names.append(f"{mode}-w1")
    with models.settings(work, names) as found:
        models.time_blocks(work, found, timing.repeats(7))
        tasks = later(found[mode], timing.repeats(LATER))
    ms = {name: setting.ms for name, setting in found.items()}
    best = min(by_hand, key=ms.__getitem__)
    name = f"{work} step, {mode}"
    limit = TO_CPU.get(work)
    to_cpu = None if limit is None else Goal(limit, of_ratio=True)
    rows += [
        Row(name, "ms", ms[mode], ms["cpu"], goal=to_cpu),
        Row(name, "ms", ms[mode], ms[f"{mode}-off"], "no cut", Goal(1.03, of_ratio=True)),
        Row(name, "ms", ms[mode], ms[best], f"best, {by_hand[best]}", Goal(1.05, of_ratio=True)),
    ]
    if work in SPEED_UP:
        speed_up = ms[f"{mode}-w1"] / ms[mode]
        rows.append(
            Row(f"{name}, speed-up by worker 2", "x", speed_up, goal=Goal(1.8, at_least=True))
        )
    third = found[mode].settled["tasks"]
    other = sum(counted["tasks"] != steps * third for steps, counted in found[mode].counted)
    rows += [
        Row(f"{name}, tasks", "", tasks, third, "the third step's"),
        Row(f"{name}, blocks of steps with other tasks", "", other, goal=Goal(0)),
    ]


def cut_by_hand(count: int) -> tuple[Tensor, Tensor]:
    """Operands whose rows are cut in `count`, and nothing else."""
    x = torch.linspace(0, 3, ROWS * WIDTH).reshape(ROWS, WIDTH).to("nntile")
    w = torch.linspace(0, 1, WIDTH * WIDTH).reshape(WIDTH, WIDTH).to("nntile")
    extents = {f"tiles_{count}": ROWS, f"whole_{count}": WIDTH, f"out_{count}": WIDTH}
    cut, whole, out = extents
    torch_nntile.set_axis_group_name(x, {0: cut, 1: whole})
    torch_nntile.set_axis_group_name(w, {0: whole, 1: out})
    for axis, extent in extents.items():
        torch_nntile.set_axis_group_tiling(axis, extent // count if axis == cut else extent)
    return x, w


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", OPS)
def test_tiles_of_an_op(rows: list[Row], name: str, mode: str) -> None:
    op = OPS[name]

    def call(x: Tensor, w: Tensor) -> Tensor:
        result = op(x, w)
        torch_nntile.run_graph()
        torch_nntile.wait()
        return result

    operands = {count: cut_by_hand(count) for count in TILES}
    with runtime_mode(mode):
        for x, w in operands.values():
            assert_close(call(x, w).cpu(), op(x.cpu(), w.cpu()), length=WIDTH)
        before = torch_nntile.stats().tasks
        call(*operands[64])
        assert torch_nntile.stats().tasks - before >= 64, "the op was not cut"
        us = timing.medians(
            {
                str(count): timing.loop(lambda pair=pair: call(*pair), 4)
                for count, pair in operands.items()
            },
            timing.repeats(21),
        )
    best = min(us, key=us.__getitem__)
    rows.append(
        Row(
            f"{name} in 64 tiles, {mode}",
            "us",
            us["64"],
            us[best],
            f"best, {best} tile{'s' * (best != '1')}",
            Goal(1.1, of_ratio=True),
        )
    )
