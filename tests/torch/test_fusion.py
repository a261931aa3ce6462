# SPDX-License-Identifier: BSD-3-Clause
"""Fused nodes: the bits of separate ones, fewer tasks, less memory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from fusion_programs import (
    SHAPES_OF_PARAMETERS,
    Input,
    Layers,
    Program,
    Step,
    layers,
    layers_of,
    optimizer_step,
    programs,
    results_of,
    without_fusion,
)
from hypothesis import example, given, settings
from parity import runtime_mode

import torch_nntile
from torch_nntile import explain

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def plain() -> Iterator[Ask]:
    with without_fusion() as ask:
        yield ask


F32 = Input((6, 5), torch.float32)
CHAIN = Program((F32, F32), (Step("mul"), Step("exp"), Step("add"), Step("tanh")))


@settings(max_examples=100)
@example(CHAIN)
@example(Program((F32,), (Step("dropout"), Step("mul", (0, 1, 1)), Step("relu", kept=True)), 7))
@example(Program((Input((6, 5), torch.uint8),), (Step("add"), Step("mul"), Step("sub", (0, 1, 1)))))
@example(
    Program((Input((6, 5), torch.bfloat16),) * 3, (Step("addcmul"), Step("exp"), Step("lerp")))
)
@given(programs())
def test_a_program_has_the_same_bits_with_and_without_fusion(plain: Ask, program: Program) -> None:
    found, taken, tasks = results_of(program)
    wanted, taken_there, tasks_there = plain("results_of", program)
    assert taken == taken_there
    for k, (own, other) in enumerate(zip(found, wanted, strict=True)):
        assert own == other, f"result {k} of {program}"
    assert tasks <= tasks_there


MLP = Layers((53,), (17, 41, 7), (("gelu", "residual"), ("scale",)))


@settings(max_examples=100)
@example(MLP)
@example(Layers((3, 17), (17, 41, 17), (("relu",), ("residual",)), torch.bfloat16, cuts=(2, 4, 7)))
@example(Layers((3, 17), (17, 41), (("dropout", "norm"),), cuts=(2, None, None)))
@example(Layers((53,), (41, 17), (("relu", "residual"),), torch.float16, cuts=(None, 9, 3)))
@example(Layers((53,), (41, 1), (("dropout", "row"),), cuts=(None, 4, None), kept=True))
@example(Layers((3, 17), (17, 41), (("tanh", "f32"),), batched=True, cuts=(2, 4, None)))
@example(
    Layers(
        (53,),
        (17, 41, 41),
        (("relu",), ("residual",)),
        cuts=(None, None, 7),
        train=False,
        kept=True,
    )
)
@given(layers())
def test_layers_have_the_same_bits_with_and_without_epilogues(plain: Ask, program: Layers) -> None:
    found, tasks = layers_of(program)
    wanted, tasks_there = plain("layers_of", program)
    for k, (own, other) in enumerate(zip(found, wanted, strict=True)):
        assert own == other, f"result {k} of {program}"
    assert tasks <= tasks_there


@pytest.mark.parametrize(
    ("program", "tasks", "tasks_there"),
    [
        pytest.param(MLP, 2 + 7, 4 + 9, id="forward, and back through two layers"),
        pytest.param(
            Layers((3, 17), (17, 41), (("gelu", "softmax"),), train=False), 2, 3, id="3 dims"
        ),
        pytest.param(
            Layers((53,), (36, 56), (("relu",),), cuts=(None, 9, 7), train=False),
            8 * 4,
            8 * 4 + 8,
            id="with the last of four parts of a sum",
        ),
        pytest.param(
            Layers((53,), (36, 5), (("relu",),), cuts=(None, 9, None), train=False),
            4 + 3,
            4 + 3 + 1,
            id="with the last join of four lanes",
        ),
        pytest.param(
            Layers((53,), (36, 5), (("relu",),), cuts=(None, 9, None), train=False, kept=True),
            4 + 3 + 1,
            4 + 3 + 1,
            id="after the joins, where the product is a result",
        ),
        pytest.param(
            Layers((53,), (36, 5), (("relu",),), torch.bfloat16, cuts=(None, 9, None), train=False),
            4 + 3,
            4 + 3 + 2,
            id="16-bit floats are summed in f32, and rounded by the last join",
        ),
    ],
)
def test_an_epilogue_is_no_task(plain: Ask, program: Layers, tasks: int, tasks_there: int) -> None:
    assert layers_of(program)[1] == tasks
    assert plain("layers_of", program)[1] == tasks_there


def test_a_chain_is_one_task(plain: Ask) -> None:
    assert results_of(CHAIN)[1:] == (4, 1)
    assert plain("results_of", CHAIN)[1:] == (4, 4)


OPTIMIZERS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD, momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "SGD, nesterov and decay": (
        "SGD",
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
    ),
    "SGD, maximize": ("SGD", {"lr": 0.1, "momentum": 0.9, "maximize": True}),
    "Adam": ("Adam", {}),
    "Adam, decay": ("Adam", {"weight_decay": 0.1}),
    "Adam, amsgrad": ("Adam", {"amsgrad": True}),
    "AdamW": ("AdamW", {}),
    "AdamW, amsgrad, maximize": ("AdamW", {"amsgrad": True, "maximize": True}),
}
FORMS: dict[str, dict[str, bool]] = {
    "loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["f32", "bf16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer(plain: Ask, name: str, form: str, dtype: torch.dtype) -> None:
    optimizer, options = OPTIMIZERS[name]
    options = {**options, **FORMS[form]}
    found, tasks = optimizer_step(optimizer, options, dtype)
    wanted, tasks_there = plain("optimizer_step", optimizer, options, dtype)
    assert found == wanted
    count = len(SHAPES_OF_PARAMETERS)  # a fused Adam has step counters on the device
    assert tasks == count * (2 if form == "fused" and optimizer != "SGD" else 1)
    assert tasks_there == tasks if form == "fused" else tasks_there > 2 * tasks


def test_explain_shows_each_pass() -> None:
    with runtime_mode("graph"):
        x = torch.randn(4, 3).to("nntile")
        y = (x.exp() * 2).sqrt()
        dead = x.neg()
        del dead
        torch_nntile.compile_graph()
        text = explain("passes")
        torch_nntile.run_graph()
    stages = [line.partition(": ") for line in text.splitlines() if line[:1] not in " }"]
    assert [name for name, _, _ in stages] == [
        "recorded",
        "remove_dead",
        "own_outputs",
        "fuse_maps",
        "fuse_writes",
        "fuse_epilogues",
    ]
    changes = ["graph {", "graph {", "no change", "graph {", "no change", "no change"]
    assert [rest for _, _, rest in stages] == changes
    recorded, after_dead = text.split("remove_dead: ")[0], text.split("remove_dead: ")[1]
    assert "neg(" in recorded and "neg(" not in after_dead
    assert "exp(r" in text.split("fuse_maps: ")[1]
    assert y.cpu().shape == (4, 3)


CHAIN_IN_MEMORY = "x.exp() * x.tanh() + x.sigmoid() * x.neg()"
LAYER_IN_MEMORY = "F.gelu(x @ w) * 2"
MEMORY = """
import sys
import torch, torch_nntile as nt
import torch.nn.functional as F
nt.init_context(ncpu=2)
x = torch.ones(1024, 1024).to("nntile")
w = torch.full((1024, 1024), 1 / 1024).to("nntile")
nt.wait()
torch.nntile.reset_peak_memory_stats()
nt.modes.set_mode(1)
y = eval(sys.argv[1])
nt.run_graph()
nt.wait()
print(torch.nntile.memory_stats()["peak_bytes"] / (x.numel() * 4))
nt.modes.set_mode(0)
assert y[3, 5].cpu() < 3
"""


def peak(code: str, **environment: str) -> float:
    """Bytes of tiles at their highest, in those of one tensor, but for the two that are there before."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return float(done.stdout) - 2


def test_inner_values_take_no_memory() -> None:
    """Seven nodes hold what they read and what they give; alone, one after the other, they need more."""
    assert peak(CHAIN_IN_MEMORY) == pytest.approx(1, abs=0.1)
    assert peak(CHAIN_IN_MEMORY, NNTILE_FUSE="0") > 1.5


def test_an_epilogue_writes_where_the_product_was() -> None:
    assert peak(LAYER_IN_MEMORY, NNTILE_AUTOMATIC_CUTS="0") == pytest.approx(1, abs=0.1)


def test_print_shows_each_pass_of_each_lowering() -> None:
    code = """
import torch, torch_nntile
x = torch.ones(3, device="nntile")
print((x + 1).sum().item())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NNTILE_PRINT": "passes"},
    )
    assert done.returncode == 0 and done.stdout == "6.0\n", done.stderr
    lines = done.stderr.splitlines()
    lowered = lines.count("recorded: graph {")
    assert lowered >= 1
    assert sum(line.startswith("fuse_maps: ") for line in lines) == lowered
    assert any("= sum(" in line for line in lines)


def test_a_node_that_fails_stays_alone_and_names_its_op() -> None:
    """No op in a program can fail: those that check an operand are left out of it."""
    x = torch.arange(6).to("nntile")
    with runtime_mode("graph"):
        y = ((x + 1).neg() // (x * 2).abs()).neg().abs()
        with pytest.raises(RuntimeError, match=r"^div_floor: ZeroDivisionError"):
            y.cpu()
        z = torch.bernoulli(x.float().mul(3).add(1)).neg().mul(2)
        with pytest.raises(RuntimeError, match=r"^bernoulli: all elements of input should be"):
            z.cpu()
        w = (x + 1).neg().abs()
        assert w.tolist() == [1, 2, 3, 4, 5, 6]
        assert "abs(r" in explain("graph")
