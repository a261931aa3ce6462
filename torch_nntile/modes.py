# SPDX-License-Identifier: BSD-3-Clause
"""How recorded ops run: `eager` submits a few at a time, `graph` waits for `run_graph()` or a host read."""

from __future__ import annotations

from dataclasses import dataclass

from torch_nntile import _c
from torch_nntile.errors import InvalidArgumentError

__all__ = [
    "Stats",
    "compile_graph",
    "has_pending_graph",
    "run_graph",
    "runtime_mode",
    "stats",
]

_MODES = ("eager", "graph")  # by number of nntile_mode


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters since the start of the process (nntile_record_stats).

    A lowering turns a recorded graph into a plan, the list of its tasks. A plan hit reuses one.
    `waiting` counts ops that are recorded but not submitted; of the other counters only `ops`
    includes them.
    """

    ops: int
    graphs: int
    lowerings: int
    plan_hits: int
    plans: int
    tasks: int
    copies: int
    host_calls: int
    waiting: int = 0


def compile_graph() -> None:
    """Turn the recorded ops into a plan (a list of tasks), or find their plan; do not run it."""
    _c.call("nntile_record_compile", _c.record())


def run_graph() -> None:
    """Submit the recorded ops. This does not wait; a host read or `wait()` does."""
    _c.call("nntile_record_run", _c.record())


def has_pending_graph() -> bool:
    """True if some recorded ops are not submitted yet; eager mode submits them soon."""
    return bool(_c.get("nntile_record_pending", _c.record()))


def runtime_mode() -> str:
    """Return "eager" or "graph"."""
    return _MODES[_c.get("nntile_record_mode", _c.record())]


def stats() -> Stats:
    """Return counters of ops, graphs, lowerings and tasks. A repeated step adds no lowering.

    This does not submit ops that eager mode has buffered. To count them all, call `wait()` first.
    """
    counters = _c.new_struct("nntile_record_stats")
    _c.call("nntile_record_stats_get", _c.record(), counters)
    names = [name for name in Stats.__slots__ if name != "waiting"]
    waiting = int(_c.get("nntile_record_pending", _c.record()))
    return Stats(**{name: getattr(counters, name) for name in names}, waiting=waiting)


def number_of(mode: str) -> int:
    """Number of a mode by its name."""
    if mode not in _MODES:
        raise InvalidArgumentError(f"runtime_mode must be 'eager' or 'graph', got {mode!r}")
    return _MODES.index(mode)


def set_mode(mode: int) -> None:
    """Change the mode; what is pending runs first."""
    _c.call("nntile_record_mode_set", _c.record(), mode)
