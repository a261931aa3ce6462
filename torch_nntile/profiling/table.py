# SPDX-License-Identifier: BSD-3-Clause
"""A profile as a table, and how long workers had nothing to do."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from torch_nntile.errors import InvalidArgumentError
from torch_nntile.profiling.events import Move, Task

__all__ = ["KEYS", "Row", "as_text", "covered", "moves_as_text", "rows_by"]

KEYS: dict[str, Callable[[Task], str]] = {
    "op": lambda t: t.op,
    "module": lambda t: t.module or "(no module)",
    "kernel": lambda t: t.kernel,
    "line": lambda t: ("backward of " if t.backward else "") + (t.line or "(no line)"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Tasks that have something in common."""

    name: str
    calls: int  #: recorded calls that they are tasks of
    tasks: int
    seconds: float  #: sum over the tasks, of all workers
    share: float  #: of the seconds of all tasks, from 0 to 1
    flops: int
    bytes: int

    @property
    def gflops(self) -> float:
        """Of one worker, in 10^9 a second; 0 where none are known."""
        return self.flops / self.seconds * 1e-9 if self.seconds > 0 else 0.0


def rows_by(tasks: Sequence[Task], by: str) -> list[Row]:
    """The longest first.

    Raises:
        ValueError: `by` is no column of this table.
    """
    if by not in KEYS:
        words = ", ".join(repr(key) for key in KEYS)
        raise InvalidArgumentError(f"profile: by must be one of {words}, got {by!r}")
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(KEYS[by](task), []).append(task)
    total = sum(task.seconds for task in tasks) or 1.0
    rows = []
    for name, group in groups.items():
        seconds = sum(t.seconds for t in group)
        calls = len({(t.run, t.node) for t in group})
        flops, nbytes = sum(t.flops for t in group), sum(t.bytes for t in group)
        rows.append(Row(name, calls, len(group), seconds, seconds / total, flops, nbytes))
    return sorted(rows, key=lambda row: (-row.seconds, row.name))


def covered(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds that are in one span at least."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def moves_as_text(moves: Sequence[Move]) -> list[str]:
    """By tensor: what was evicted, written and read, and how soon it was used again."""
    groups: dict[str, list[Move]] = {}
    for move in moves:
        groups.setdefault(move.what, []).append(move)
    lines = []
    for what, group in sorted(groups.items(), key=lambda item: -sum(m.bytes for m in item[1])):
        nbytes = {k: sum(m.bytes for m in group if m.kind == k) for k in ("write", "read", "evict")}
        again = sorted(m.again for m in group if m.again < math.inf)
        soon = f"; used again in {again[len(again) // 2] * 1e3:.3g} ms (median)" if again else ""
        evicted, written, read = (nbytes[k] / 1e6 for k in ("evict", "write", "read"))
        lines.append(
            f"  {what}: {evicted:.1f} MB left memory, {written:.1f} MB written, {read:.1f} MB read"
            f"{soon}"
        )
    return lines


def as_text(rows: Sequence[Row], by: str) -> list[str]:
    """Lines; columns are as wide as what stands in them."""
    head = (by, "calls", "tasks", "ms", "share", "GFLOP/s", "GB/s")
    cells = [head]
    for row in rows:
        rate = f"{row.gflops:.1f}" if row.flops else ""
        moved = f"{row.bytes / row.seconds * 1e-9:.1f}" if row.bytes and row.seconds > 0 else ""
        cells.append(
            (
                row.name,
                str(row.calls),
                str(row.tasks),
                f"{row.seconds * 1e3:.3f}",
                f"{row.share:.1%}",
                rate,
                moved,
            )
        )
    widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
    return [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]
