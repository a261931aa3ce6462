# SPDX-License-Identifier: BSD-3-Clause
"""Collectives of processes: what they give, what they refuse, and what happens when one is lost."""

from __future__ import annotations

from collections.abc import Iterator

import collective_calls
import lost_processes
import pytest
from ranks import TREE, Answer, Ranks

PROGRAM, LOSSES = (TREE / "tests" / f"{m.__name__}.py" for m in (collective_calls, lost_processes))
OK = Answer("ok")

pytestmark = pytest.mark.multi


@pytest.fixture(scope="module")
def two() -> Iterator[Ranks]:
    with Ranks(2, PROGRAM) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def three() -> Iterator[Ranks]:
    with Ranks(3, LOSSES) as ranks:
        yield ranks


@pytest.mark.parametrize("name", collective_calls.CALLS)
def test_two_processes(two: Ranks, name: str) -> None:
    assert two.ask(name, limit=60) == [OK] * 2


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 4])
def test_other_numbers_of_processes(size: int) -> None:
    with Ranks(size, PROGRAM) as ranks:
        found = {name: ranks.ask(name, limit=120) for name in collective_calls.CALLS}
    assert found == {name: [OK] * size for name in found}


@pytest.mark.parametrize("name", [n for n in lost_processes.LOSSES if "killed" not in n])
def test_operands_that_are_lost(three: Ranks, name: str) -> None:
    """All end within seconds, and the next group works."""
    assert three.ask(name, limit=60) == [OK] * 3


@pytest.mark.parametrize("name", [n for n in lost_processes.LOSSES if "killed" in n])
def test_a_process_that_is_killed(three: Ranks, name: str) -> None:
    """The others end within seconds with an error that says where, and go on as a group of two."""
    *others, killed = three.ask(name, limit=60, others=40)
    assert others == [OK] * 2
    assert killed.state == "ended" and killed.text.startswith("exit code -9"), killed
