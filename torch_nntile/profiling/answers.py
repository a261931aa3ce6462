# SPDX-License-Identifier: BSD-3-Clause
"""What `explain(summary=True)` and `explain(why=True)` say."""

from __future__ import annotations

from collections.abc import Callable

from torch_nntile import _c, memory, modes
from torch_nntile.errors import InvalidArgumentError
from torch_nntile.fallback import fallback_report
from torch_nntile.profiling import profile, table
from torch_nntile.profiling.events import Task

__all__ = ["check_alone", "summary", "why"]

_MOST = 8  # lines of a table: all is one screen
_HINT = (
    "Nothing was profiled: `with torch_nntile.profile():` around a step says what took its time."
)


def check_alone(stage: str, summary: bool, why: bool) -> None:
    if stage != "all" or (summary and why):
        given = [
            *([repr(stage)] if stage != "all" else []),
            *(["summary"] if summary else []),
            *(["why"] if why else []),
        ]
        raise InvalidArgumentError(f"explain: one of stage, summary and why, got {given}")


def _short(rows: list[table.Row], by: str) -> list[str]:
    lines = table.as_text(rows[:_MOST], by)
    return [*lines, *([f"... and {len(rows) - _MOST} more"] if len(rows) > _MOST else [])]


def _copies(tasks: list[Task]) -> list[Task]:
    """Those that only move data between tiles, for an op that is no copy itself."""
    return [t for t in tasks if t.kernel == "copy" and t.op not in ("copy", "copy_")]


def summary() -> str:
    p = profile.last()
    lines: list[str] = []
    counters = modes.stats() if p is None else p.stats
    if p is None:
        lines += [_HINT, "", "Since the start:"]
    else:
        lines += [p.idle_line(), "", *_short(p.rows("module"), "module"), ""]
        lines += [
            *_short(p.rows("op"), "op"),
            *p.transfer_lines(),
            *p.move_lines(),
            "",
            "In the profile:",
        ]
        lines += [f"  {len(_copies(p.tasks))} tasks copied between tiles that do not line up"]
    lines += [
        f"  {counters.ops} ops recorded in {counters.graphs} graphs, {counters.tasks} tasks",
        f"  {counters.lowerings} graphs planned, {counters.plan_hits} plans found",
        f"  {counters.copies} views copied, {counters.host_calls} calls of functions on the host",
    ]
    allocated, peak = memory.memory_allocated(), memory.max_memory_allocated()
    lines.append(f"  memory of tensors: {allocated:,} bytes now, {peak:,} at most")
    cut = (
        [
            line
            for line in _c.owned_text("nntile_record_text", _c.record(), b"cuts").splitlines()
            if " cut " in line
        ]
        if modes.stats().lowerings
        else []
    )
    whose = "axes of the graph that was planned last"
    lines.append(f"Cut {whose}:" if cut else f"No cut {whose}.")
    return "\n".join([*lines, *(f"  {line}" for line in cut[:_MOST])])


def _by_line(tasks: list[Task], what: Callable[[Task], str]) -> list[str]:
    groups: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        line = table.KEYS["line"](task)
        groups.setdefault((line, what(task)), []).append(task)
    ordered = sorted(groups.items(), key=lambda item: -sum(t.seconds for t in item[1]))
    return [
        f"  {line}: {name}: {len(group)} tasks, {sum(t.bytes for t in group):,} bytes, "
        f"{sum(t.seconds for t in group) * 1e3:.3f} ms"
        for (line, name), group in ordered[: 2 * _MOST]
    ]


def why() -> str:
    planned = _c.owned_text("nntile_record_text", _c.record(), b"why").splitlines()
    p = profile.last()
    lines = ["What was planned, and why (the latest last):"]
    lines += [f"  {line}" for line in planned[-2 * _MOST :]] or ["  nothing yet"]
    lines += ["", "What was copied because tiles do not line up:"]
    copied = _by_line(_copies(p.tasks), lambda t: f"for {t.op}") if p else []
    lines += copied or ["  nothing in the last profile" if p else f"  {_HINT}"]
    lines += ["", "What left memory for the disk, and came back:"]
    moved = table.moves_as_text(p.moves) if p else []
    lines += moved or ["  nothing in the last profile" if p else f"  {_HINT}"]
    lines += ["", "What ran on the host, on PyTorch's CPU kernels:"]
    host = _by_line([t for t in p.tasks if t.kernel == "host"], lambda t: t.op) if p else []
    calls = [
        f"  {f.overload}: {f.calls} calls since the start, {f.milliseconds:.3f} ms; no kernel on tiles"
        for f in fallback_report()
    ]
    lines += [*host, *calls[: 2 * _MOST]] or ["  nothing"]
    return "\n".join(lines)
