# SPDX-License-Identifier: BSD-3-Clause
"""The helper of the benchmarks: it compares what it says, and says when a goal is missed."""

from __future__ import annotations

import pytest
from bench import timing
from bench.timing import Goal, Row


def test_runs_take_turns() -> None:
    order: list[str] = []
    runs = {name: lambda n=name: order.append(n) or float(len(order)) for name in "abc"}
    found = timing.interleaved(runs, 3)
    assert "".join(order) == "abcbcacab"
    assert found == {"a": [1, 6, 8], "b": [2, 4, 9], "c": [3, 5, 7]}
    assert timing.medians({"x": iter([9.0, 1.0, 2.0]).__next__}, 3) == {"x": 2}


def test_a_loop_counts_its_calls() -> None:
    calls: list[str] = []
    run = timing.loop(lambda: calls.append("call"), 5, lambda: calls.append("after"))
    assert run() > 0
    assert calls == ["call"] * 5 + ["after"]


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("value", "us", 3.0, 1.0, goal=Goal(3)), True),
        (Row("value", "us", 3.1, 9.0, goal=Goal(3)), False),
        (Row("ratio", "ms", 10.0, 10.0, goal=Goal(1, of_ratio=True)), True),
        (Row("ratio", "ms", 10.1, 10.0, goal=Goal(1, of_ratio=True)), False),
        (Row("speed-up", "x", 1.8, goal=Goal(1.7, at_least=True)), True),
        (Row("speed-up", "x", 1.6, goal=Goal(1.7, at_least=True)), False),
        (Row("shown", "us", 5.0), None),
    ],
)
def test_a_goal_is_met_or_not(row: Row, met: bool | None) -> None:
    assert row.met is met
    line = timing.table([row]).splitlines()[2]
    assert ("NO" in line) is (met is False)
    assert ("yes" in line) is (met is True)


def test_repetitions_are_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNTILE_BENCH_REPEAT", "0.1")
    assert (timing.repeats(60), timing.repeats(3)) == (6, 1)
