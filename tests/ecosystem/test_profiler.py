# SPDX-License-Identifier: BSD-3-Clause
"""torch.profiler: tasks as kernels of the device, linked to ops; waiting as waiting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from parity import runtime_mode
from torch.profiler import ProfilerActivity, profile

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def profiled(mode: str = "eager") -> Any:
    x = torch.randn(400, 400, device="nntile")
    torch.nntile.synchronize()
    with runtime_mode(mode), profile(activities=BOTH) as profiler:
        torch.nn.functional.gelu(x @ x).sum().item()
        torch.nntile.synchronize()
    return profiler


def device_time(profiler: Any, op: str) -> float:
    return sum(row.device_time_total for row in profiler.key_averages() if row.key == op)


def test_tasks_are_device_time_of_their_op(tmp_path: Path) -> None:
    profiler = profiled()
    tasks = [e for e in profiler.events() if e.device_type == torch.autograd.DeviceType.PrivateUse1]
    assert {"matmul", "gelu"} <= {task.name for task in tasks}
    assert all(0 < task.time_range.elapsed_us() < 10e6 for task in tasks)
    matmul = sum(t.time_range.elapsed_us() for t in tasks if t.name == "matmul")
    whole = sum(t.time_range.elapsed_us() for t in tasks)
    assert 0 < matmul <= device_time(profiler, "aten::mm") < whole
    assert 0 < device_time(profiler, "aten::gelu") < whole
    waits = [e for e in profiler.events() if e.name == "nntile::wait"]
    assert len(waits) >= 2

    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert {"matmul", "gelu"} <= {e["name"] for e in kernels}
    span = next(e for e in events if e.get("cat") == "Trace")
    for kernel in kernels:  # one clock
        assert span["ts"] <= kernel["ts"] <= kernel["ts"] + kernel["dur"]
        assert kernel["ts"] + kernel["dur"] <= span["ts"] + span["dur"]
    names = [e["args"]["name"] for e in events if e.get("name") == "thread_name"]
    assert any("worker" in name for name in names)


def test_a_graph_is_profiled_where_it_runs() -> None:
    profiler = profiled("graph")
    assert device_time(profiler, "aten::mm") == 0
    names = {e.name for e in profiler.events()}
    assert "matmul+gelu" in names


def test_nothing_is_collected_of_the_host_alone() -> None:
    x = torch.ones(4, device="nntile")
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        (x + 1).cpu()
    names = {e.name for e in profiler.events()}
    assert "aten::add" in names and "nntile::wait" in names and "add" not in names


def test_the_older_profiler_prints_a_table_and_no_stack() -> None:
    code = """
import torch
x = torch.randn(300, 300, device="nntile")
with torch.autograd.profiler.profile(use_device="nntile") as profiler:
    (x @ x).relu().cpu()
rows = {row.key: row for row in profiler.key_averages()}
assert 0 < rows["aten::mm"].device_time_total < 10e6, rows["aten::mm"]
print(profiler.key_averages().table(row_limit=3))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert "frame #" not in done.stderr and "Exception" not in done.stderr
    assert len(done.stdout.splitlines()) < 20
