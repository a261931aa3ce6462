# SPDX-License-Identifier: BSD-3-Clause
"""The calibration: what it fits, the file that it writes, and what the command refuses."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_nntile import calibrate, cost_text, load_cost


def test_a_fit_finds_what_made_the_points() -> None:
    made = [(a, b, 3e-11 * a + 5e-10 * b) for a, b in ((1e6, 1e4), (2e6, 1e6), (1e3, 3e5))]
    assert calibrate.fit(made) == pytest.approx((3e-11, 5e-10))


def test_a_fit_weighs_relative_errors() -> None:
    """Ten per cent of a short point counts as much as of a long one."""
    points = [(1.0, 0.01, 1.1), (1e6, 1e4, 0.9e6)]
    x, y = calibrate.fit(points)
    assert x + 0.01 * y == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize(
    "points",
    [
        [(1.0, 1.0, 1.0), (2.0, 1.0, 0.9)],  # more flops, less time
        [(1.0, 1.0, 1.0), (1.0, 2.0, 0.9)],
        [(1.0, 2.0, 3.0)] * 2,  # nothing tells them apart
    ],
)
def test_a_fit_is_positive(points: list[tuple[float, float, float]]) -> None:
    assert all(0 < found < math.inf for found in calibrate.fit(points))


def test_a_written_file_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "cost.txt"
    found = {name: value * 1.5 for name, value in calibrate.parse(cost_text()).items()}
    calibrate.write(found, file)
    assert calibrate.parse(file.read_text()) == pytest.approx(found, rel=1e-3)
    assert [path.name for path in tmp_path.iterdir()] == ["cost.txt"]
    load_cost(file)
    try:
        assert calibrate.parse(cost_text()) == pytest.approx(found, rel=1e-3)
    finally:
        load_cost(None)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "torch_nntile.calibrate", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ,
    )


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "cost.txt"
    done = command("--seconds", "0.1", "--output", str(file))
    assert done.returncode == 0, done.stderr
    names = list(calibrate.parse(cost_text()))
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["constant", *names]
    found = calibrate.parse(file.read_text())
    assert set(found) >= set(names) - {"spread_seconds"}
    assert 1e-7 < found["task_seconds"] < 1e-2
    assert 1e8 < found["product_flops"] < 1e14
    load_cost(file)
    load_cost(None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seconds", "0"), "--seconds must be > 0"),
        (("--seconds", "nan"), "--seconds must be > 0"),
        (("--output", "no/such/folder/cost.txt"), "--output: no folder"),
        (("--gpu",), "1 CUDA workers are asked for, but"),
    ],
)
def test_what_the_command_refuses(arguments: tuple[str, ...], message: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2 and message in done.stderr
