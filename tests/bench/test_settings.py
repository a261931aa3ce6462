# SPDX-License-Identifier: BSD-3-Clause
"""The names of settings, and what is found wrong with their steps."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from bench import models
from bench.models import Setting

OFF = {"NNTILE_AUTOMATIC_CUTS": "0"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("cpu-w1", {"device": "cpu", "ncpu": 1}),
        ("graph", {"mode": "graph"}),
        ("cuda", {"device": "cuda"}),
        ("eager-off-g1", {"mode": "eager", "environment": OFF | {"STARPU_NCUDA": "1"}}),
        ("eager-off-n4", {"mode": "eager", "environment": OFF, "batches": 4}),
        ("eager-b4-w1", {"mode": "eager", "environment": OFF, "tile": 2, "ncpu": 1}),
        ("eager-b3", {"mode": "eager", "environment": OFF, "tile": 3}),
    ],
)
def test_a_name_gives_its_options(name: str, options: dict[str, Any]) -> None:
    assert models.options_of("gpt2", name) == {"work": "gpt2"} | options


@pytest.mark.parametrize(
    "name", ["", "tpu", "cpu-off", "cpu-b2", "cuda-g1", "eager-b", "eager-w0", "eager-"]
)
def test_another_name_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="setting"):
        models.options_of("gpt2", name)


def setting(*losses: float, **fields: Any) -> Setting:
    return Setting(SimpleNamespace(losses=list(losses)), **fields)  # type: ignore[arg-type]


def test_wrong_losses_are_an_error() -> None:
    found = {"cpu": setting(3.0, 2.0, 1.0), "eager": setting(3.0001, 2.001, 1.01)}
    models.check_losses("gpt2", found)
    found["graph"] = setting(3.0, 2.1, 1.0)
    with pytest.raises(AssertionError, match="gpt2, graph: losses"):
        models.check_losses("gpt2", found)
    found["graph"].batches = 2  # nothing to compare with
    models.check_losses("gpt2", found)


def test_no_number_is_a_wrong_loss() -> None:
    found = {"cpu": setting(3.0, 2.0, 1.0), "eager": setting(3.0, float("nan"), 1.0)}
    with pytest.raises(AssertionError, match="gpt2, eager: losses"):
        models.check_losses("gpt2", found)


def test_tasks_of_all_steps_are_counted() -> None:
    counted = [(2, {"tasks": 10, "plans": 1}), (4, {"tasks": 20, "plans": 0})]
    found = setting(settled={"tasks": 5}, counted=counted)
    assert found.steady
    assert found.a_step("plans") == pytest.approx(1 / 6)
    counted.append((1, {"tasks": 6, "plans": 0}))
    assert not found.steady
