# SPDX-License-Identifier: BSD-3-Clause
"""How recorded ops run: `eager` submits a few at a time, `graph` waits for `run()` or a host read."""

from __future__ import annotations

from dataclasses import dataclass

from torch_nntile import _c
from torch_nntile.errors import InvalidArgumentError

__all__ = ["Stats", "compile_graph", "has_pending_graph", "run", "runtime_mode", "stats"]

_MODES = ("eager", "graph")  # by number of nntile_mode


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters since the start of the process (nntile_record_stats)."""

    ops: int
    graphs: int
    lowerings: int
    plan_hits: int
    plans: int
    tasks: int
    copies: int
    host_calls: int
    waiting: int = (
        0  # ops that were recorded and not submitted yet; not counted in the others but `ops`
    )


def compile_graph() -> None:
    """Lower what was recorded to tasks, or find its plan, without running it."""
    _c.call("nntile_record_compile", _c.record())


def run() -> None:
    """Submit what was recorded. Does not wait: a host read or `wait()` does."""
    _c.call("nntile_record_run", _c.record())


def has_pending_graph() -> bool:
    """True if ops were recorded that have not been submitted; in eager mode they soon are."""
    return bool(_c.get("nntile_record_pending", _c.record()))


def runtime_mode() -> str:
    """ "eager" or "graph"."""
    return _MODES[_c.get("nntile_record_mode", _c.record())]


def stats() -> Stats:
    """How many ops, graphs, lowerings and tasks there were. A repeated step adds no lowering.

    Ops that wait in eager mode go on waiting: `wait()` first, to count them all.
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
