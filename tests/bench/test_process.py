# SPDX-License-Identifier: BSD-3-Clause
"""What a process pays for the device: import, idling, exit."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from bench import timing
from bench.timing import Goal, Row

pytestmark = [pytest.mark.bench, pytest.mark.multi]

IDLE = """
import time
import torch, torch_nntile
torch_nntile.init_context(ncpu=2)
x = torch.ones(1000, device="nntile")
assert (x + 1).sum().item() == 2000
time.sleep(0.2)
before = time.process_time()
time.sleep(1)
print((time.process_time() - before) * 100)
"""

# No read, no wait, no shutdown: the process ends while tasks and autograd's threads are at work.
BACKWARD = """
import torch, torch_nntile
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
model.to("nntile")
model(torch.ones(256, 64, device="nntile")).sum().backward()
"""


def python(program: str) -> subprocess.CompletedProcess[str]:
    # `import torch` alone must not bring the device along.
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def seconds(program: str) -> float:
    start = time.perf_counter()
    done = python(program)
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - start


def test_import(rows: list[Row]) -> None:
    programs = {"torch": "import torch", "both": "import torch, torch_nntile"}
    for program in programs.values():
        seconds(program)  # from now on the files are in the page cache
    runs = {name: lambda p=program: seconds(p) for name, program in programs.items()}
    found = timing.interleaved(runs, max(3, timing.repeats(9)))
    added = statistics.median(
        both - alone for both, alone in zip(found["both"], found["torch"], strict=True)
    )
    rows.append(Row("import torch_nntile adds", "s", added, goal=Goal(0.3)))


def test_idle(rows: list[Row]) -> None:
    found = []
    for _ in range(timing.repeats(5)):
        done = python(IDLE)
        assert done.returncode == 0, done.stderr
        found.append(float(done.stdout))
    rows.append(Row("idle runtime, CPU", "% of a core", statistics.median(found), goal=Goal(2)))


def test_exit_after_backward(rows: list[Row]) -> None:
    count = timing.repeats(100)
    with ThreadPoolExecutor(timing.THREADS) as pool:
        done = list(pool.map(python, [BACKWARD] * count))
    failed = [d for d in done if d.returncode != 0]
    rows.append(
        Row(f"of {count} scripts that end after backward() failed", "", len(failed), goal=Goal(0))
    )
    assert not failed, (
        f"{len(failed)} of {count}; exit code {failed[0].returncode}\n{failed[0].stderr}"
    )
