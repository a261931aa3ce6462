# SPDX-License-Identifier: BSD-3-Clause
"""A profile as one page of HTML that needs nothing else: drawings, tables."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from torch_nntile.profiling import table

if TYPE_CHECKING:
    from torch_nntile.profiling.events import Call, Task
    from torch_nntile.profiling.profile import profile

__all__ = ["body", "page"]

_WIDTH, _LEFT, _ROW = 960, 90, 22  # pixels
_MOST = 4000  # bars that a browser still draws at once
_STYLE = """
.nntile { font: 13px sans-serif; color: #222; background: #fff; }
.nntile table { border-collapse: collapse; margin: 8px 0 16px; }
.nntile th, .nntile td { padding: 2px 10px; text-align: right; border-bottom: 1px solid #ddd; }
.nntile th:first-child, .nntile td:first-child { text-align: left; }
.nntile svg { display: block; margin: 8px 0; }
.nntile text { font: 11px sans-serif; }
"""


def _color(name: str) -> str:
    """The same for the same name on each page."""
    hue = int(hashlib.sha256(name.encode()).hexdigest()[:4], 16) % 360
    return f"hsl({hue}, 60%, 60%)"


class _Scale:
    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1e-9)

    def x(self, at: float) -> float:
        part = min(max(at / self.seconds, 0.0), 1.0)
        return round(_LEFT + part * (_WIDTH - _LEFT), 2)

    def ruler(self, y: float) -> str:
        marks = []
        for k in range(6):
            at = self.seconds * k / 5
            anchor = "end" if k == 5 else "middle"
            label = f"{at * 1e3:.3g} ms"
            marks.append(f'<text x="{self.x(at)}" y="{y}" text-anchor="{anchor}">{label}</text>')
        return "".join(marks)


def _bar(scale: _Scale, row: int, start: float, end: float, fill: str, title: str) -> str:
    x, y = scale.x(start), row * _ROW
    width = max(round(scale.x(end) - x, 2), 0.3)
    return (
        f'<rect x="{x}" y="{y + 2}" width="{width}" height="{_ROW - 4}" fill="{fill}">'
        f"<title>{escape(title)}</title></rect>"
    )


def _task_title(t: Task) -> str:
    parts = [f"{t.op} ({t.kernel})", f"{t.seconds * 1e6:.1f} us"]
    if t.line:
        parts.append(("backward of " if t.backward else "") + t.line)
    return ", ".join([*parts, *([t.module] if t.module else [])])


def _longest(items: Sequence[Task]) -> list[Task]:
    return sorted(items, key=lambda t: -t.seconds)[:_MOST]


def _gantt(p: profile) -> str:
    scale = _Scale(p.seconds)
    bars = [
        _bar(scale, t.worker, t.start, t.end, _color(t.module or t.op), _task_title(t))
        for t in _longest(p.tasks)
    ]
    host = p.workers
    calls = sorted(p.calls, key=lambda c: c.start - c.end)[:_MOST]
    for c in calls:
        fill = "#bbb" if c.waits else "#678"
        title = f"{c.op}, {(c.end - c.start) * 1e6:.1f} us" + (f", {c.line}" if c.line else "")
        bars.append(_bar(scale, host, c.start, c.end, fill, title))
    names = [*(f"worker {k}" for k in range(p.workers)), "host"]
    labels = "".join(
        f'<text x="0" y="{k * _ROW + 15}">{name}</text>' for k, name in enumerate(names)
    )
    height = (host + 2) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">'
        f"{labels}{''.join(bars)}{scale.ruler(height - 6)}</svg>"
    )


def _memory(calls: Sequence[Call], seconds: float) -> str:
    """Bytes of storages as a curve of steps."""
    scale, height = _Scale(seconds), 90
    curve = sorted((c.end, c.memory) for c in calls)
    if not curve:
        return "<p>No call was recorded.</p>"
    most = max(max(nbytes for _, nbytes in curve), 1)

    def y(nbytes: int) -> float:
        return round(height - 24 - nbytes / most * (height - 40), 2)

    points, before = [], curve[0][1]
    for at, nbytes in curve:
        points += [f"{scale.x(at)},{y(before)}", f"{scale.x(at)},{y(nbytes)}"]
        before = nbytes
    points.append(f"{scale.x(seconds)},{y(before)}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}">'
        f'<text x="0" y="14">{most / 1e6:.3g} MB</text><text x="0" y="{height - 24}">0</text>'
        f'<polyline fill="none" stroke="#357" points="{" ".join(points)}"/>'
        f"{scale.ruler(height - 6)}</svg>"
    )


def _table(p: profile, by: str) -> str:
    cells = "".join(f"<th>{name}</th>" for name in (by, "calls", "tasks", "ms", "share", "GFLOP/s"))
    lines = [f"<tr>{cells}</tr>"]
    for row in p.rows(by):
        values = (
            escape(row.name),
            str(row.calls),
            str(row.tasks),
            f"{row.seconds * 1e3:.3f}",
            f"{row.share:.1%}",
            f"{row.gflops:.1f}" if row.flops else "",
        )
        lines.append("<tr>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def body(p: profile) -> str:
    """What a notebook shows."""
    left_out = max(0, len(p.tasks) - _MOST)
    note = f"<p>The {left_out} shortest tasks are not drawn.</p>" if left_out else ""
    idle = escape(p.idle_line())
    parts = [f'<div class="nntile"><style>{_STYLE}</style><h3>Tasks by worker</h3>']
    parts += [_gantt(p), note, f"<p>{idle}</p>"]
    parts += ["<h3>Memory of storages</h3>", _memory(p.calls, p.seconds)]
    parts += [f"<h3>Time by {by}</h3>{_table(p, by)}" for by in table.KEYS]
    return "".join(parts) + "</div>"


def page(p: profile) -> str:
    """The same as a page of its own."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Profile of nntile</title></head><body>{body(p)}</body></html>\n"
    )
