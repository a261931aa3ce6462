# SPDX-License-Identifier: BSD-3-Clause
"""Steps within a budget with a disk behind it, beside unlimited memory and the disk's own speed."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench import budgets
from bench.timing import Goal, Row, repeats

pytestmark = pytest.mark.bench


@pytest.mark.parametrize(("part", "times"), [(2, 1.15), (4, 1.5)])
@pytest.mark.parametrize("work", ["wide", "gpt2"])
def test_a_budget(work: str, part: int, times: float, rows: list[Row], tmp_path: Path) -> None:
    found = budgets.measured(work, part, tmp_path, rounds=repeats(5))
    assert found.same, "other losses than in unlimited memory"
    name = f"{work} step, 1/{part} of its memory"
    goal = Goal(max(times, found.goal / found.free), of_ratio=True)
    rows.append(Row(name, "ms", found.ms, found.free, "unlimited memory", goal))
    rows.append(Row(f"{name}, its bytes", "ms", found.ms, found.disk, "the disk alone"))
    rows.append(Row(f"{name}, page faults", "", found.faults))
