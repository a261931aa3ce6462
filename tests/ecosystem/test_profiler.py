# SPDX-License-Identifier: BSD-3-Clause
"""torch.profiler: tasks as kernels of the device, linked to ops; waiting as waiting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

BOTH = [ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]


def profiled(mode: str = "eager") -> Any:
    x = torch.randn(400, 400, device="nntile")

    def step() -> None:
        torch.nn.functional.gelu(x @ x).sum().item()

    step()  # a composition is Python's the first time, with ops of the same name in each other
    torch.nntile.synchronize()
    with runtime_mode(mode), profile(activities=BOTH) as profiler:
        step()
        torch.nntile.synchronize()
    return profiler


def device_time(profiler: Any, op: str) -> float:
    return sum(row.device_time_total for row in profiler.key_averages() if row.key == op)


def test_tasks_are_device_time_of_their_op(tmp_path: Path) -> None:
    profiler = profiled()
    tasks = [e for e in profiler.events() if e.device_type == DeviceType.PrivateUse1]
    assert "matmul+gelu" in {task.name for task in tasks}
    assert all(0 < task.time_range.elapsed_us() < 10e6 for task in tasks)
    matmul = sum(t.time_range.elapsed_us() for t in tasks if t.name == "matmul+gelu")
    whole = sum(t.time_range.elapsed_us() for t in tasks)
    assert 0 < matmul <= device_time(profiler, "aten::mm") < whole
    assert device_time(profiler, "aten::gelu") == 0, "it is in the product's task"
    ops = [row for row in profiler.key_averages() if row.device_type == DeviceType.CPU]
    own = sum(row.self_device_time_total for row in ops)
    assert own == pytest.approx(whole), "each task is of one op"
    waits = [e for e in profiler.events() if e.name == "nntile::wait"]
    assert len(waits) >= 2

    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in events if e.get("cat") == "kernel"]
    assert "matmul+gelu" in {e["name"] for e in kernels}
    span = next(e for e in events if e.get("cat") == "Trace")
    for kernel in kernels:  # one clock
        assert span["ts"] <= kernel["ts"] <= kernel["ts"] + kernel["dur"]
        assert kernel["ts"] + kernel["dur"] <= span["ts"] + span["dur"]
    names = [e["args"]["name"] for e in events if e.get("name") == "thread_name"]
    assert any("worker" in name for name in names)


def test_tasks_of_a_graph_are_of_the_ops_that_recorded_them() -> None:
    profiler = profiled("graph")
    tasks = [e for e in profiler.events() if e.device_type == DeviceType.PrivateUse1]
    assert "matmul+gelu" in {task.name for task in tasks}
    assert device_time(profiler, "aten::mm") > 0
    assert device_time(profiler, "nntile::wait") == 0, "what waits for them is not what they are of"


def test_a_window_is_of_the_ops_in_it_and_not_of_the_one_that_ends_it() -> None:
    x = torch.randn(300, 300, device="nntile")
    torch.nntile.synchronize()
    with profile(activities=BOTH) as profiler:
        y = torch.erfinv(x * 0.5)  # one task, whose graph the product ends
        z = y @ x
    tasks = [e for e in profiler.events() if e.device_type == DeviceType.PrivateUse1]
    of_map = sum(t.time_range.elapsed_us() for t in tasks if "erfinv" in t.name)
    of_product = sum(t.time_range.elapsed_us() for t in tasks if t.name == "matmul")
    assert 0 < of_map == pytest.approx(device_time(profiler, "aten::erfinv"))
    assert 0 < of_product == pytest.approx(device_time(profiler, "aten::mm"))
    assert z.shape == x.shape


def test_a_replay_is_of_the_call_that_makes_it() -> None:
    import torch_nntile

    x = torch.randn(64, 64, device="nntile")
    step = torch_nntile.capture(lambda x: torch.tanh(x @ x))
    for _ in range(3):
        step(x)
    with profile(activities=BOTH) as profiler, torch.profiler.record_function("the step"):
        y = step(x)
    assert 0 < device_time(profiler, "nntile::_replay") == device_time(profiler, "the step")
    assert y.shape == x.shape


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
