# SPDX-License-Identifier: BSD-3-Clause
"""Steps without data: what they would hold and move, beside what a run then shows; errors."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from emulated_devices import GPUS
from torch import Tensor, nn

import torch_nntile
from torch_nntile import Estimate, estimate, estimate_only

TESTS = Path(__file__).parents[1]
BUDGETS = {"mlp": 24, "transformer": 24, "convolutions": 24, "lstm": 20, "gpt": 40}  # MiB
PAGE = 2 << 20  # memory comes from the system in huge pages


def program(what: str, name: str, budget: str, folder: Path) -> dict[str, float]:
    ended = subprocess.run(
        [sys.executable, TESTS / "torch/estimated_models.py", what, name, budget, folder],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return found


NAMES = [name if name == "mlp" else pytest.param(name, marks=pytest.mark.slow) for name in BUDGETS]


@pytest.mark.parametrize("name", NAMES)
def test_a_run_shows_what_was_estimated(name: str, tmp_path: Path) -> None:
    said = program("estimate", name, "", tmp_path)
    was = program("run", name, "", tmp_path)
    for what in ("peak", "reserved"):
        assert said[what] == pytest.approx(was[what], rel=0.1), (said, was)
    assert said["read"] == said["written"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_budget_moves_what_was_estimated(name: str, tmp_path: Path) -> None:
    budget = f"{BUDGETS[name]}MiB"
    said = program("estimate", name, budget, tmp_path)
    was = program("run", name, budget, tmp_path)
    for what in ("read", "written"):
        assert said[what] == pytest.approx(was[what], rel=0.1), (said, was)
    assert said["reserved"] == pytest.approx(was["reserved"], rel=0.1, abs=PAGE), (said, was)
    assert 0 < said["least"] <= said["read"] + said["written"]


# ---- in this process


@pytest.fixture
def without_data() -> Iterator[None]:
    gc.collect()  # tensors of other tests would be a part of what is estimated
    with estimate_only():
        yield


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(256, 512), nn.Linear(512, 256)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x).relu())
        return y


def trained(memory: str | None = None) -> Estimate:
    with torch.device("nntile"):
        model, x = Two(), torch.ones(64, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return estimate(step, 2, memory=memory)


WEIGHTS = 4 * (2 * 256 * 512 + 256 + 512)


@pytest.mark.usefixtures("without_data")
def test_what_a_step_holds() -> None:
    before = torch.nntile.memory_stats()
    e = trained()
    after = torch.nntile.memory_stats()
    assert (after["tasks"], after["tiles"]) == (before["tasks"], before["tiles"])
    assert 2 * WEIGHTS < e.peak_bytes < 3.5 * WEIGHTS
    assert e.peak_bytes <= e.reserved_peak_bytes
    assert sum(holder.bytes for holder in e.holders) == e.peak_bytes
    assert (e.memory, e.read_bytes, e.fits) == (0, 0, True)
    here = Path(__file__).name
    (weights,) = (h for h in e.holders if h.op == "uniform")
    assert WEIGHTS <= weights.bytes < 1.02 * WEIGHTS
    assert here in weights.line
    assert any(h.module == "Two.first" and here in h.line for h in e.holders)


@pytest.mark.usefixtures("without_data")
def test_a_budget() -> None:
    e = trained("2MiB")
    assert not e.fits
    assert e.memory == 2 << 20
    assert 0 < e.least_read_bytes <= e.read_bytes
    assert e.least_written_bytes <= e.written_bytes
    # Where nothing but the disk is busy, up to the rounding of a sum.
    assert e.seconds >= (e.read_bytes + e.written_bytes) / 1e9 - 1e-12
    assert "in 2 MiB: does not fit without a disk" in str(e)
    large = trained("64MiB")
    assert large.fits
    assert large.seconds < e.seconds
    assert str(large).splitlines()[-1] == "in 64 MiB: fits"


@pytest.mark.usefixtures("without_data")
def test_a_model_larger_than_the_machine() -> None:
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(65536, 65536, bias=False) for _ in range(16)))
    model = model.to_empty(device="nntile")  # 256 GiB
    x = torch.ones(64, 65536, device="nntile")
    with torch.no_grad():
        e = estimate(lambda: model(x), memory="40GiB", swap_gbps=10)
    assert e.peak_bytes > 16 * 2**34
    assert 16 * 2**34 - 40 * 2**30 < e.read_bytes < 17 * 2**34
    # GPUs have other cuts: results of a layer wait for the next one.
    assert e.written_bytes <= (e.read_bytes / 1000 if GPUS else 0)
    assert e.least_read_bytes <= e.read_bytes <= 1.2 * e.least_read_bytes
    assert e.seconds >= e.read_bytes / 10e9


@pytest.mark.usefixtures("without_data")
def test_a_task_too_large_names_op_and_line() -> None:
    x = torch.ones(1024, 1024, device="nntile")
    loaded = torch.ones(2**20).to("nntile")
    torch_nntile.set_axis_group_name(x, {0: "estimated_whole", 1: "estimated_too"})
    for name in ("estimated_whole", "estimated_too"):
        torch_nntile.set_axis_group_tiling(name, 1024)
    with pytest.raises(
        torch.OutOfMemoryError, match=r"a task of add needs .*test_estimate_only\.py"
    ):
        estimate(lambda: x + 1, memory="6MiB")
    with pytest.raises(
        torch.OutOfMemoryError, match=r"a task that brings data .*test_estimate_only\.py"
    ):
        estimate(lambda: loaded + 1, memory="2MiB")


def test_data_is_cut_for_the_budget_that_it_is_made_in() -> None:
    gc.collect()  # exceptions of other tests hold tensors
    with estimate_only(memory="2MiB"):
        loaded = torch.ones(2**20).to("nntile")
        e = estimate(lambda: loaded.mul_(2))
    assert (e.memory, e.fits) == (2 * 2**20, False)
    assert 2**22 - 2**21 < e.read_bytes < 1.1 * 2**22


@pytest.mark.usefixtures("without_data")
@pytest.mark.parametrize("look", [Tensor.item, Tensor.cpu, bool, str])
def test_a_step_that_looks_at_numbers(look: object) -> None:
    x = torch.ones(4, 4, device="nntile")
    made_and_read = r"read: the result of .* \[.*:\d+.*\], .* has no data.* \[.*:\d+\]"
    with pytest.raises(RuntimeError, match=made_and_read):
        estimate(lambda: look(x.sum()))  # type: ignore[operator]
    assert estimate(lambda: x + 1).tasks > 0


def test_data_and_no_data_do_not_meet() -> None:
    x = torch.ones(3, device="nntile")
    with estimate_only():
        y = torch.ones(3, device="nntile")
        for call in (lambda: x + y, lambda: x.add_(1)):
            with pytest.raises(RuntimeError, match=r"add: a tensor f32 \(3,\) has data.*\.py:\d+"):
                call()
        assert x.tolist() == [1, 1, 1]
        y.add_(1)
    with pytest.raises(RuntimeError, match=r"mul: a tensor f32 \(3,\) has no data"):
        y * 2
    with pytest.raises(RuntimeError, match="has no data"):
        y.cpu()
    assert (x + 1).tolist() == [2, 2, 2]
    y = torch.zeros(3, device="nntile")
    assert (x + y).tolist() == [1, 1, 1]


@pytest.mark.parametrize("memory", [0, -1, "much", "1KiB", 2.5, True])
def test_wrong_budgets(memory: object) -> None:
    with estimate_only(), pytest.raises(ValueError, match="estimate: memory"):
        estimate(lambda: None, memory=memory)  # type: ignore[arg-type]


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), True, "fast"])
def test_wrong_disks(rate: float) -> None:
    with pytest.raises(ValueError, match="estimate: swap_gbps must be a number above 0, got"):
        estimate(lambda: None, swap_gbps=rate)


def test_a_budget_is_for_tensors_without_data() -> None:
    with pytest.raises(RuntimeError, match="estimate: a budget is for tensors without data"):
        estimate(lambda: None, memory="1GiB")


def test_an_estimate_only_in_another() -> None:
    with (
        estimate_only(),
        pytest.raises(RuntimeError, match="estimate_only: another"),
        estimate_only(),
    ):
        pass
    assert torch.ones(2, device="nntile").sum().item() == 2
