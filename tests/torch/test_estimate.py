# SPDX-License-Identifier: BSD-3-Clause
"""Estimates of steps on workers that are not there: steps whose times are known, and errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from parity import runtime_mode
from torch import Tensor

from torch_nntile import (
    Estimate,
    estimate,
    has_pending_graph,
    load_cost,
    set_axis_group_name,
    set_axis_group_tiling,
)

TASK = 0.25  # seconds, beside which all else is little
NAMES = itertools.count()


@pytest.fixture(autouse=True)
def tasks_that_take_long(tmp_path: Path) -> Iterator[None]:
    file = tmp_path / "cost.txt"
    file.write_text(f"task_seconds = {TASK}\nspread_seconds = 1e-9\n")
    load_cost(file)
    yield
    load_cost(None)


def rows(count: int) -> Tensor:
    """A fresh shape, so that plans are new, in `count` tiles."""
    x = torch.ones(count, 40 + next(NAMES), device="nntile")
    name = f"estimated_rows_{next(NAMES)}"
    set_axis_group_name(x, {0: name})
    set_axis_group_tiling(name, 1)
    (x + 0).cpu()  # now it is cut
    return x


def tasks(seconds: float) -> float:
    return pytest.approx(seconds / TASK, rel=1e-2)  # type: ignore[no-any-return]


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_independent_tasks(mode: str) -> None:
    x = rows(12)
    with runtime_mode(mode):
        kept: list[Tensor] = []
        e = estimate(lambda: kept.append(x * 2), workers=(5, 1, 64, 12))
    assert list(e.seconds_on) == [1, 5, 12, 64] and e.workers == 64
    assert [round(s / TASK) for s in e.seconds_on.values()] == [12, 3, 1, 1]
    assert e.tasks == 12
    assert e.seconds == e.seconds_on[64]
    assert e.idle == pytest.approx(1 - 12 / 64, abs=0.01)
    assert 12 == tasks(e.work_seconds) and 1 == tasks(e.critical_seconds)


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_chain(mode: str) -> None:
    x = torch.ones(3, 40 + next(NAMES), device="nntile")

    def step() -> Tensor:
        y = x
        for _ in range(4):
            y = y @ torch.ones(y.shape[1], y.shape[1], device="nntile")
        return y

    with runtime_mode(mode):
        e = estimate(step, workers=2)
    assert e.tasks == 8  # the ones do not wait
    assert 5 == tasks(e.critical_seconds)
    assert 5 == tasks(e.seconds)
    assert e.idle == pytest.approx(0.2, abs=0.01)


def test_a_read_in_a_step_holds_back_what_follows() -> None:
    x, y = rows(1), rows(1)
    assert 1 == tasks(estimate(lambda: [x + 1, y + 1]).seconds)
    assert 2 == tasks(estimate(lambda: [(x + 1).cpu(), y + 1]).seconds)


def test_what_was_recorded_before_is_not_of_the_step() -> None:
    x, y = rows(3), rows(3)
    with runtime_mode("graph"):
        before = x + 1
        assert has_pending_graph()
        e = estimate(lambda: y * 2)
        assert e.tasks == 3
        before.cpu()


def test_the_text() -> None:
    x = rows(4)
    text = str(estimate(lambda: x + 1, workers=[1, 8]))
    assert text.splitlines() == [
        "4 tasks of 1 s, longest chain 250 ms",
        "on 1 worker: 1 s, idle 0%",
        "on 8 workers: 250 ms, idle 50%",
    ]


@pytest.mark.parametrize("workers", [0, -3, 65537, (), (4, 0), 2.5, True, "many"])
def test_wrong_workers(workers: int) -> None:
    def step() -> None:
        raise AssertionError("the step has run")

    with pytest.raises(ValueError, match="estimate: workers must be"):
        estimate(step, workers)


def test_a_step_that_submits_nothing() -> None:
    with pytest.raises(ValueError, match="estimate: nothing was submitted"):
        estimate(lambda: torch.ones(2) + 1)


def test_an_estimate_in_an_estimate() -> None:
    x = rows(2)
    inner: list[Estimate] = []
    with pytest.raises(RuntimeError, match="estimate: another one has begun"):
        estimate(lambda: inner.append(estimate(lambda: x + 1)))
    assert not inner
    assert estimate(lambda: x + 1).tasks == 2


def test_an_exception_of_a_step_goes_on() -> None:
    x = rows(2)

    def step() -> None:
        x.add(1)
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            estimate(step)
    assert estimate(lambda: x + 1).tasks == 2


def test_a_training_step() -> None:
    layers = [torch.nn.Linear(16, 16) for _ in range(3)]
    model = torch.nn.Sequential(*layers).to("nntile")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 16).to("nntile")

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    step()
    one = estimate(step, 1)
    many = estimate(step, 64)
    assert one.tasks == many.tasks > 20
    assert one.seconds == pytest.approx(one.work_seconds, rel=1e-3)
    assert many.critical_seconds <= many.seconds * 1.001 < one.seconds
