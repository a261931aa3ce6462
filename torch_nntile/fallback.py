# SPDX-License-Identifier: BSD-3-Clause
"""Fallbacks: ops that run on PyTorch's CPU kernel; whether they may, and which did."""

from __future__ import annotations

from dataclasses import dataclass

from torch_nntile import _c

__all__ = [
    "Fallback",
    "cpu_fallback",
    "fallback_report",
    "reset_fallback_report",
    "set_cpu_fallback",
]

_ERROR, _WARN = 0, 1  # numbers of nntile_stub_mode
_allowed = True


def cpu_fallback() -> bool:
    """Whether an op without a row may run on the host."""
    return _allowed


def set_cpu_fallback(allowed: bool) -> None:
    """Allow fallbacks (each overload warns once), or make them errors."""
    global _allowed
    _allowed = bool(allowed)
    _c.get("nntile_stub_fallback_mode", _WARN if allowed else _ERROR)


@dataclass(frozen=True, slots=True)
class Fallback:
    """An overload that ran on PyTorch's CPU kernel."""

    overload: str
    calls: int
    bytes: int
    milliseconds: float


def fallback_report() -> list[Fallback]:
    """Return the overloads that ran on PyTorch's CPU kernel, the slowest first.

    The list is empty if the device ran every op itself.
    """
    size = _c.get("nntile_stub_fallback_report", _c.ffi.NULL, 0)
    out = _c.new(f"char[{size + 4096}]")  # room for ops that are met in between
    _c.get("nntile_stub_fallback_report", out, size + 4096)
    rows = []
    for line in _c.text(out).splitlines():
        overload, calls, nbytes, milliseconds = line.split()
        rows.append(Fallback(overload, int(calls), int(nbytes), float(milliseconds)))
    return sorted(rows, key=lambda row: -row.milliseconds)


def reset_fallback_report() -> None:
    """Reset the counters of `fallback_report()`."""
    _c.get("nntile_stub_fallback_reset")
