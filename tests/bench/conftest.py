# SPDX-License-Identifier: BSD-3-Clause
"""The rows that the benchmarks measured, printed as one table at the end."""

from __future__ import annotations

import pytest
from bench import timing

_rows = pytest.StashKey[list[timing.Row]]()


@pytest.fixture(scope="session")
def rows(pytestconfig: pytest.Config) -> list[timing.Row]:
    """Append to it what was measured."""
    return pytestconfig.stash.setdefault(_rows, [])


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    rows = config.stash.get(_rows, [])
    if not rows:
        return
    terminalreporter.section("times")
    terminalreporter.write_line(f"{timing.cpu_model()}, {timing.THREADS} threads, medians\n")
    terminalreporter.write_line(timing.table(rows))
    terminalreporter.write_line(f"\nwritten to {timing.write_json(rows)}")
