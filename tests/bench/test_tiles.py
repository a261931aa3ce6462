# SPDX-License-Identifier: BSD-3-Clause
"""What cuts and views cost: access maps, views of an op's operand, data cut anew, memory that stays."""

from __future__ import annotations

import gc
import os
import statistics
import subprocess
import time
from pathlib import Path

import pytest
import torch
from bench import timing
from bench.timing import Goal, Row
from parity import runtime_mode
from torch import Tensor

import torch_nntile

pytestmark = pytest.mark.bench

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "dev"
OPS = 20_000
CALLS = 200


def test_access_map(rows: list[Row]) -> None:
    if not (BUILD / "build.ninja").exists():
        pytest.skip(f"{BUILD} is no build folder")
    program = "tests/tests-tile-test_access_map_time"
    subprocess.run(["ninja", "-C", str(BUILD), program], check=True, capture_output=True)
    done = subprocess.run([BUILD / program, "time"], check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        name, _, nanoseconds = line.partition(": ")
        rows.append(Row(f"access map of {name}", "us", float(nanoseconds) / 1000, goal=Goal(0.1)))


def test_view_of_an_operand(rows: list[Row]) -> None:
    """What recording an op costs more if an operand is a view, its making (PyTorch's) not counted."""

    def finish() -> None:
        torch_nntile.run_graph()
        torch_nntile.wait()

    with runtime_mode("graph"):
        x = torch.eye(4, device="nntile")
        operands = {"dense": torch.ones(4, 4, device="nntile"), "view": (x + 1).t()}
        copies = torch_nntile.stats().copies
        us = timing.medians(
            {
                name: timing.loop(lambda y=y: torch.add(x, y), CALLS, finish)
                for name, y in operands.items()
            },
            timing.repeats(60),
        )
        assert torch_nntile.stats().copies == copies
    rows.append(Row("record a view, more", "us", us["view"] - us["dense"], goal=Goal(1)))


def test_retile(rows: list[Row]) -> None:
    """64 MiB from row tiles to column tiles, against a copy of as many bytes by PyTorch."""
    n = 4096
    x = torch.arange(n * n, dtype=torch.float32).reshape(n, n)
    source, target = x.clone(), torch.empty_like(x)
    y = x.to("nntile")
    torch_nntile.set_axis_group_name(y, {0: "retile_rows", 1: "retile_columns"})
    cuts = [("retile_rows", 1024), ("retile_columns", 1024)]
    turn = 0

    def retile() -> float:
        nonlocal turn
        for (name, size), wanted in zip(cuts, (turn, 1 - turn), strict=True):
            torch_nntile.set_axis_group_tiling(name, size if wanted else n)
        turn = 1 - turn
        torch_nntile.wait()
        start = time.perf_counter()
        y[:1, :1].add(0)  # the next use of the data
        torch_nntile.run_graph()
        torch_nntile.wait()
        return time.perf_counter() - start

    def copy() -> float:
        start = time.perf_counter()
        target.copy_(source)
        return time.perf_counter() - start

    threads = torch.get_num_threads()
    torch.set_num_threads(timing.THREADS)
    try:
        before = torch_nntile.stats().copies
        for _ in range(4):
            retile()
        assert torch_nntile.stats().copies >= before + 4 * 4  # tiles do move
        found = timing.medians({"nntile": retile, "cpu": copy}, timing.repeats(31))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(y.cpu(), x)
    ms = {name: seconds * 1000 for name, seconds in found.items()}
    rows.append(
        Row("retile 64 MiB", "ms", ms["nntile"], ms["cpu"], "memcpy", Goal(2, of_ratio=True))
    )


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def chain(length: int, seed: int) -> Tensor:
    x = torch.zeros(4, device="nntile")
    for k in range(length):
        x = x + 1 if k * seed % 3 else x * 1.5
    return x


@pytest.mark.parametrize("kind", ["known", "new"])
def test_memory_of_a_graph(rows: list[Row], kind: str) -> None:
    """What stays of 20,000 recorded ops after their run: of a new one its plan, to be used again."""
    found = []
    with runtime_mode("graph"):
        for turn in range(2 + timing.repeats(6)):
            gc.collect()
            before = resident()
            # Chains of another length are other graphs.
            chain(OPS + (turn if kind == "new" else 0), 1).sum().item()
            torch_nntile.wait()
            gc.collect()
            if turn > 1:
                found.append((resident() - before) / OPS)
    rows.append(
        Row(
            f"memory that a {kind} graph leaves, an op",
            "bytes",
            statistics.median(found),
            goal=Goal(400),
        )
    )
