# SPDX-License-Identifier: BSD-3-Clause
"""The constants of the cost module, from Python: files that are taken, files that are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from emulated_devices import on_cores
from parity import runtime_mode
from torch import nn

import torch_nntile
from torch_nntile import cost_text, load_cost, run_graph, stats, wait


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    load_cost(None)
    yield
    load_cost(None)


def test_a_file_replaces_what_it_names(tmp_path: Path) -> None:
    before = cost_text()
    file = tmp_path / "cost.txt"
    file.write_text("memory_bytes = 12345\nworkers = 4\n")
    load_cost(file)
    changed = {line for line in cost_text().splitlines() if line not in before.splitlines()}
    assert changed == {"memory_bytes = 12345  # byte/s from and to memory"}
    file.write_text(cost_text())
    load_cost(None)
    assert cost_text() == before
    load_cost(str(file))
    assert "memory_bytes = 12345 " in cost_text()


def test_workers_are_the_cores_unless_a_file_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "\nworkers = 4 " in cost_text()  # of the file that all tests have
    monkeypatch.delenv("NNTILE_COST")
    load_cost(None)
    gpus = int(os.environ.get("STARPU_NCUDA", "0"))
    assert f"\nworkers = {gpus or len(os.sched_getaffinity(0))} " in cost_text()
    file = tmp_path / "cost.txt"
    file.write_text("workers = 7\n")
    load_cost(file)
    assert "\nworkers = 7 " in cost_text()
    monkeypatch.undo()
    load_cost(None)


@on_cores
def test_a_large_machine_gets_cuts_of_its_own(tmp_path: Path) -> None:
    """Of sixteen workers most are busy, though their cuts cost one worker a fifth more."""
    file = tmp_path / "cost.txt"
    file.write_text("workers = 16\n")
    load_cost(file)
    with runtime_mode("graph"), torch_nntile.estimate_only():
        layers = (nn.TransformerEncoderLayer(256, 8, 1024, 0, batch_first=True) for _ in range(2))
        model = nn.Sequential(*layers).to("nntile")
        x = torch.empty(8, 64, 256, device="nntile")

        def step() -> None:
            model(x).square().mean().backward()
            run_graph()
            model.zero_grad()

        step()
        found = torch_nntile.estimate(step, (1, 16))
    assert found.seconds_on[1] / found.seconds_on[16] > 8


def test_new_constants_make_new_plans(tmp_path: Path) -> None:
    x = torch.ones(3, 57, device="nntile")

    def lowerings_of_a_sum() -> int:
        wait()
        before = stats().lowerings
        kept = x + 1
        run_graph()
        del kept
        wait()
        return stats().lowerings - before

    assert [lowerings_of_a_sum() for _ in range(2)] == [1, 0]
    file = tmp_path / "cost.txt"
    file.write_text("task_seconds = 1e-3\n")
    load_cost(file)
    assert [lowerings_of_a_sum() for _ in range(2)] == [1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory_bytes = 2\nwarp = 1", r'line 2: no constant is called "warp"'),
        ("memory_bytes = 0", "line 1: memory_bytes must be a finite number > 0"),
        ("memory_bytes = -inf", "line 1: memory_bytes must be a finite number > 0"),
        ("cache_size = 1\nmemory_byt", "line 2: no constant"),
        ("memory_bytes", "line 1: 'memory_bytes = value' is expected"),
        ("memory_bytes = 2\0", "is no text"),
    ],
)
def test_a_wrong_file_changes_nothing(tmp_path: Path, text: str, message: str) -> None:
    file, before = tmp_path / "cost.txt", cost_text()
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        load_cost(file)
    assert cost_text() == before


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(LookupError, match=f"load_cost: cannot read '{path}'"):
            load_cost(path)
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(LookupError, match="cannot read"):
        load_cost(binary)


def test_a_wrong_file_of_the_environment_is_an_error_until_it_is_mended(tmp_path: Path) -> None:
    file = tmp_path / "cost.txt"
    file.write_text("functions = 0\n")
    code = f"""
import pathlib, torch, torch_nntile

def first_op():
    return torch.ones(2, device="nntile").sum().item()

def wrong(call):
    try:
        call()
    except (ValueError, RuntimeError) as error:  # the latter from ops, as PyTorch has it
        assert "line 1: functions must be" in str(error) and "cost.txt" in str(error), error
    else:
        raise SystemExit("a wrong cost file was taken")

calls = [first_op, torch_nntile.init_context, torch_nntile.cost_text,
         lambda: torch.ones(2).to("nntile"), first_op]
for call in calls:
    wrong(call)
pathlib.Path({str(file)!r}).write_text("functions = 7\\n")
assert first_op() == 2
assert "functions = 7 " in torch_nntile.cost_text()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "NNTILE_COST": str(file)},
    )
    assert done.returncode == 0, done.stderr
