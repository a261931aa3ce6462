# SPDX-License-Identifier: BSD-3-Clause
"""Ever new shapes: what a process holds and what an op costs do not grow after the first tenth.

`python tests/long/test_long_shapes.py ops 200000` and `... lengths 500` print a line for each tenth.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional

import torch_nntile

MIB = 1 << 20
TENTHS = 10


class State(NamedTuple):
    """At the end of a tenth. us: CPU time of a step of it, of all threads."""

    us: float
    own: int  # resident bytes without tiles: plans, signatures, Python
    tiles: int
    plans: int
    lowerings: int
    threads: int

    def __str__(self) -> str:
        return (
            f"{self.us:10.1f} us of CPU a step, {self.own / MIB:.0f} MiB beside {self.tiles} tiles, "
            f"plans {self.plans} lowerings {self.lowerings} threads {self.threads}"
        )


def state(us: float) -> State:
    torch_nntile.wait()
    stats = torch.nntile.memory_stats()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    threads = len(list(Path("/proc/self/task").iterdir()))
    tiles, bytes_ = stats["tiles"], stats["tile_bytes"]
    return State(us, resident - bytes_, tiles, stats["plans"], stats["lowerings"], threads)


def watch(steps: int, step: Callable[[int], None]) -> list[State]:
    found = []
    for tenth in range(TENTHS):
        before = time.process_time()
        for i in range(steps // TENTHS):
            step(tenth * (steps // TENTHS) + i)
        torch_nntile.wait()
        found.append(state((time.process_time() - before) / (steps // TENTHS) * 1e6))
        print(tenth + 1, found[-1], flush=True)
    return found


def check(found: list[State]) -> None:
    first, later = found[0], found[1:]
    steady = sorted(s.us for s in later)[len(later) // 2]
    assert max(s.us for s in later) < 1.5 * steady, "a tenth is slower than 1.5 x the others"
    assert max(s.own for s in later) < first.own + 96 * MIB, "memory beside tiles grows"
    assert all(s.plans <= 4096 for s in found), "plans are not bounded"
    assert max(s.threads for s in later) <= first.threads, "threads grow"


def ops(count: int) -> None:
    """Four eager ops a step, of a shape that hardly comes again."""
    choice = random.Random(0)

    def step(i: int) -> None:
        a, b = choice.randint(1, 400), choice.randint(1, 400)
        x = torch.full((a, b), 0.5, device="nntile")
        z = (x * 2 + 1).sum(dim=0)
        if i % 500 == 0:
            assert abs(z[0].item() - 2.0 * a) < 1e-2 * a

    check(watch(count // 4, step))


def lengths(count: int) -> None:
    """Steps of a transformer, each of another batch and length."""
    choice = random.Random(1)
    torch.manual_seed(0)
    layers = [nn.TransformerEncoderLayer(64, 4, 256, 0.0, batch_first=True) for _ in range(2)]
    model = nn.Sequential(nn.Embedding(500, 64), *layers, nn.Linear(64, 500)).to("nntile")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def step(i: int) -> None:
        shape = choice.randint(2, 16), choice.randint(8, 256) + 1
        x = torch.randint(0, 500, shape)
        optimizer.zero_grad()
        y = model(x[:, :-1].to("nntile"))
        loss = functional.cross_entropy(y.flatten(0, 1), x[:, 1:].flatten().to("nntile"))
        loss.backward()
        optimizer.step()
        assert loss.item() < 10

    check(watch(count, step))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("ops", 200_000), ("lengths", 500)])
def test_ever_new_shapes(name: str, count: int) -> None:
    done = subprocess.run(
        [sys.executable, __file__, name, str(count)],
        text=True,
        capture_output=True,
        timeout=1800,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    torch_nntile.init_context(ncpu=2)
    {"ops": ops, "lengths": lengths}[sys.argv[1]](int(sys.argv[2]))
