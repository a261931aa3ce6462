# SPDX-License-Identifier: BSD-3-Clause
"""Training steps beside CPU PyTorch's; every process computes the same losses."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

import pytest
from bench import timing, works
from bench.timing import Goal, Row

from torch_nntile.train_mnist.__main__ import LOSS_TOLERANCE

pytestmark = [pytest.mark.bench, pytest.mark.multi]


def check_losses(found: Mapping[str, works.Process], count: int) -> None:
    """Losses of the first `count` steps are PyTorch's. Later ones part: rounding grows by itself."""
    for name, process in found.items():
        twin = "torch_fused" if name.endswith("fused") else "torch"  # PyTorch's two Adams part too
        want = found[twin].losses[:count]
        losses = process.losses[:count]
        worst = max(abs(a - b) for a, b in zip(losses, want, strict=True))
        assert worst <= LOSS_TOLERANCE, f"{name}: losses differ by {worst:.2e}: {losses} {want}"


def step_times(
    found: Mapping[str, works.Process], steps: int, warm_up: int, rounds: int, checked: int
) -> dict[str, float]:
    """Milliseconds of a step, medians of interleaved runs of `steps`."""
    for process in found.values():
        process.steps(warm_up)
    runs = {name: lambda p=process: p.steps(steps) * 1e3 for name, process in found.items()}
    times = timing.interleaved(runs, rounds)
    check_losses(found, checked)
    return {name: statistics.median(values) for name, values in times.items()}


def test_deeprelu(rows: list[Row]) -> None:
    goal = Goal(0.7 if "AMD" in timing.cpu_model() else 1.0, of_ratio=True)
    with works.processes(
        torch={"work": "deeprelu", "device": "cpu"},
        eager={"work": "deeprelu"},
        graph={"work": "deeprelu", "mode": "graph"},
        one={"work": "deeprelu", "mode": "graph", "ncpu": 1},
        whole={"work": "deeprelu", "mode": "graph", "tile": 60_000},
        tiles={"work": "deeprelu", "mode": "graph", "tile": 500},
    ) as found:
        ms = step_times(found, 1, warm_up=2, rounds=timing.repeats(9), checked=3)
        bits = {name: process.losses for name, process in found.items()}
    assert bits["graph"] == bits["one"], "the number of workers changed the losses"
    name = "DeepReLU step, 60,000 rows"
    torch = ms["torch"]
    rows += [
        Row(f"{name}, eager", "ms", ms["eager"], torch, goal=goal),
        Row(f"{name}, graph", "ms", ms["graph"], torch, goal=goal),
        Row(
            f"{name}, speed-up by worker 2",
            "x",
            ms["one"] / ms["graph"],
            goal=Goal(1.7, at_least=True),
        ),
        Row(
            f"{name}, tiles of 500 rows",
            "ms",
            ms["tiles"],
            ms["whole"],
            "one tile",
            Goal(1.0, True),
        ),
        Row(f"{name}, tiles of 500 rows", "ms", ms["tiles"], ms["graph"], "automatic cuts"),
        Row(f"{name}, tiles of 500 rows", "ms", ms["tiles"], torch),
    ]


def test_mnist5(rows: list[Row]) -> None:
    with works.processes(
        torch={"work": "mnist5", "device": "cpu"},
        torch_fused={"work": "mnist5", "device": "cpu", "fused": 1},
        eager={"work": "mnist5"},
        eager_fused={"work": "mnist5", "fused": 1},
        graph={"work": "mnist5", "mode": "graph"},
        graph_fused={"work": "mnist5", "mode": "graph", "fused": 1},
    ) as found:
        ms = step_times(found, 40, warm_up=40, rounds=timing.repeats(15), checked=10)
    for mode in ("eager", "graph"):
        for fused in ("", "_fused"):
            name = f"five-layer MNIST step, {mode}{', fused Adam' if fused else ''}"
            rows.append(
                Row(name, "ms", ms[mode + fused], ms["torch" + fused], goal=Goal(1.2, True))
            )
