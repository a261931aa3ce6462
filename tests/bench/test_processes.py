# SPDX-License-Identifier: BSD-3-Clause
"""Two processes of one worker each, beside CPU PyTorch's over gloo with one thread each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.timing import Goal, Row

pytestmark = [pytest.mark.bench, pytest.mark.multi]
FILE = Path(__file__).with_name("processes.py")
ALONE: list[str] = []
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def measured(what: str, launcher: list[str], folder: Path) -> dict[str, float]:
    out = folder / "out.json"
    command = [sys.executable, "-W", "ignore", *launcher, str(FILE), str(out), what]
    environment = {**os.environ, "OMP_NUM_THREADS": "1" if launcher else "2"}
    subprocess.run(command, check=True, timeout=900, env=environment, capture_output=True)
    found: dict[str, float] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_steps(rows: list[Row], tmp_path: Path) -> None:
    both = measured("steps", [*TORCHRUN, "2"], tmp_path)
    alone = measured("steps", ALONE, tmp_path)
    for name in ("gpt2", "resnet18"):
        ours = both[f"{name} nntile"]
        goals = Goal(0.95, of_ratio=True), Goal(1.15, of_ratio=True)
        theirs = both[f"{name} cpu"], alone[f"{name} nntile"]
        for other, against, goal in zip(
            theirs, ("PyTorch's DDP", "one process"), goals, strict=True
        ):
            rows.append(Row(f"DDP, 2 processes: {name}, a step", "ms", ours, other, against, goal))
        captured = both[f"{name} captured"]
        rows.append(
            Row(f"DDP, 2 processes: {name}, captured", "ms", captured, theirs[0], "PyTorch's DDP")
        )


def test_transfers(rows: list[Row], tmp_path: Path) -> None:
    found = measured("transfers", [*TORCHRUN, "2"], tmp_path)
    for size, text in ((2**10, "1 KiB"), (4 * 2**20, "4 MiB"), (64 * 2**20, "64 MiB")):
        ours, theirs = found[f"{size} nntile"], found[f"{size} cpu"]
        goal = Goal(1.1 if size > 2**10 else 1 + 0.06 / theirs, of_ratio=True)  # + 60 us
        rows.append(Row(f"all_reduce of {text}", "ms", ours, theirs, "gloo", goal))


def test_memory(rows: list[Row], tmp_path: Path) -> None:
    """The machine has two cores: four processes are about memory, not time."""
    parts = measured("memory", [*TORCHRUN, "4"], tmp_path)
    whole = measured("memory", ALONE, tmp_path)
    for what in ("tensors", "reserved"):
        ours, theirs = parts[what] / 2**20, whole[what] / 2**20
        goal = Goal(0.4, of_ratio=True)
        name = f"FSDP2, 4 processes: {what} of one at most"
        rows.append(Row(name, "MiB", ours, theirs, "one process", goal))
