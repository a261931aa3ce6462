# SPDX-License-Identifier: BSD-3-Clause
"""A profile in a notebook, where no script may run: drawings, tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from torch_nntile.profiling import table
from torch_nntile.profiling.storages import KINDS, Storage, curves

if TYPE_CHECKING:
    from torch_nntile.profiling.events import Move, Task
    from torch_nntile.profiling.profile import profile

__all__ = ["KIND_COLORS", "PALETTE", "body", "html_table"]

_WIDTH, _LEFT, _ROW = 960, 90, 22  # pixels
_MOST = 4000  # bars that a browser still draws at once
# Far from each other as eyes see colors (0.1 and more in OKLab), on white and on dark paper, and not gray.
PALETTE = (
    "#3078cc", "#fc7800", "#00a83c", "#cc60cc", "#b4180c", "#00c0fc", "#c0c000", "#783cb4", "#006c30",
    "#fc9cd8", "#9c7800", "#3ccca8", "#a82478", "#a89cfc", "#78543c", "#c06c78", "#009c90", "#846ce4",
)  # fmt: skip
_MOVES = {"write": "#b80", "read": "#284", "evict": "#b34"}
KIND_COLORS = dict(zip(KINDS, ("#37a", "#a53", "#284", "#c94", "#86a", "#aaa"), strict=True))
_OTHERS, _RECORDING, _WAITING, _TRANSFER = "#ccc", "#678", "#bbb", "#b58"
# A notebook has a style of its own, perhaps light on dark: all that is needed is said here.
_STYLE = """
.nntile { font: 13px sans-serif; color: #222; background: #fff; padding: 4px 12px; max-width: 984px; }
.nntile h3 { font-size: 15px; margin: 16px 0 4px; color: inherit; }
.nntile svg { display: block; margin: 8px 0; width: 100%; height: auto; }
.nntile text { font: 11px sans-serif; fill: #222; }
.nntile .grid { stroke: #ddd; }
.nntile .keys span { display: inline-block; margin-right: 14px; white-space: nowrap; }
.nntile .keys i { display: inline-block; width: 10px; height: 10px; margin-right: 5px; }
.nntile .tables { display: flex; flex-wrap: wrap; gap: 0 24px; align-items: flex-start; }
.nntile table { border-collapse: collapse; margin: 8px 0 16px; font-size: 12px; color: inherit; }
.nntile tr { background: none; }
.nntile th, .nntile td { padding: 2px 6px; text-align: right; border-bottom: 1px solid #ddd; }
.nntile th:first-child, .nntile td:first-child { text-align: left; padding-left: 0; }
"""


def _owner_of(tasks: Sequence[Task]) -> Callable[[Task], str]:
    """What a bar has its color for."""
    return table.KEYS["module" if any(task.module for task in tasks) else "op"]


def _colors(tasks: Sequence[Task], owner: Callable[[Task], str]) -> dict[str, str]:
    """Of what took longest."""
    seconds: dict[str, float] = {}
    for task in tasks:
        seconds[owner(task)] = seconds.get(owner(task), 0.0) + task.seconds
    longest = sorted(seconds, key=lambda name: (-seconds[name], name))
    return dict(zip(longest, PALETTE, strict=False))


def _keys(keys: Sequence[tuple[str, str]]) -> str:
    spans = (f'<span><i style="background: {c}"></i>{escape(name)}</span>' for name, c in keys)
    return f'<p class="keys">{"".join(spans)}</p>'


def _legend(colors: dict[str, str], all_shown: bool, moves: Sequence[Move]) -> str:
    keys = [*colors.items(), *([] if all_shown else [("others", _OTHERS)])]
    keys += [("host records", _RECORDING), ("host waits", _WAITING)]
    if moves:
        words = {"write": "written to the disk", "read": "read from it", "evict": "leaves memory"}
        keys += [(word, _MOVES[kind]) for kind, word in words.items()]
    return _keys(keys)


class _Scale:
    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1e-9)

    def x(self, at: float) -> float:
        part = min(max(at / self.seconds, 0.0), 1.0)
        return round(_LEFT + part * (_WIDTH - _LEFT), 2)

    def ruler(self, y: float) -> str:
        """Lines at round times, and the times; what is drawn later is in front of them."""
        power = 10 ** math.floor(math.log10(self.seconds / 4))
        step = next(k * power for k in (1, 2, 5, 10) if self.seconds / (k * power) <= 8)
        marks = []
        for k in range(int(self.seconds / step) + 1):
            x = self.x(k * step)
            label = f"{k * step * 1e3:.6g} ms"
            anchor = "end" if x > _WIDTH - 20 else "middle"
            marks.append(f'<line class="grid" x1="{x}" x2="{x}" y1="0" y2="{y - 12}"/>')
            marks.append(f'<text x="{x}" y="{y}" text-anchor="{anchor}">{label}</text>')
        return "".join(marks)


def _drawing(height: int, parts: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">'
        f"{''.join(parts)}</svg>"
    )


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


def _move_title(m: Move) -> str:
    if m.kind == "evict":
        soon = f"used again in {m.again * 1e3:.3g} ms" if m.again < math.inf else "not used again"
        return f"tile {m.tile} of {m.what} leaves memory, {m.bytes / 1e6:.2f} MB, {soon}"
    parts = [
        f"{m.kind} tile {m.tile} of {m.what}",
        f"{m.bytes / 1e6:.2f} MB",
        f"{(m.end - m.start) * 1e6:.1f} us",
    ]
    return ", ".join([*parts, *([f"for {m.line}"] if m.line else [])])


def _longest(items: Sequence[Task]) -> list[Task]:
    return sorted(items, key=lambda t: -t.seconds)[:_MOST]


def _gantt(p: profile) -> str:
    """The drawing, and which color is whose."""
    scale, owner = _Scale(p.seconds), _owner_of(p.tasks)
    colors = _colors(p.tasks, owner)
    bars = [
        _bar(scale, t.worker, t.start, t.end, colors.get(owner(t), _OTHERS), _task_title(t))
        for t in _longest(p.tasks)
    ]
    host = len(p.worker_names)
    if p.transfers:
        bars += [
            _bar(scale, host, t.start, t.end, _TRANSFER, _task_title(t))
            for t in _longest(p.transfers)
        ]
        host += 1
    if p.moves:
        bars += [
            _bar(scale, host, m.start, m.end, _MOVES[m.kind], _move_title(m))
            for m in sorted(p.moves, key=lambda m: m.start - m.end)[:_MOST]
        ]
        host += 1
    calls = sorted(p.calls, key=lambda c: c.start - c.end)[:_MOST]
    for c in calls:
        fill = _WAITING if c.waits else _RECORDING
        title = f"{c.op}, {(c.end - c.start) * 1e6:.1f} us" + (f", {c.line}" if c.line else "")
        bars.append(_bar(scale, host, c.start, c.end, fill, title))
    names = list(p.worker_names)
    names += ["transfers"] * bool(p.transfers) + ["disk"] * bool(p.moves) + ["host"]
    labels = "".join(
        f'<text x="0" y="{k * _ROW + 15}">{name}</text>' for k, name in enumerate(names)
    )
    height = (host + 2) * _ROW
    drawing = _drawing(height, [scale.ruler(height - 6), labels, *bars])
    return drawing + _legend(colors, all(owner(t) in colors for t in p.tasks), p.moves)


def _steps(edges: Sequence[float], heights: Sequence[float]) -> str:
    """Points of a curve that goes at each height from an edge to the next; none without a change."""
    points: list[str] = []
    before = None
    for edge, height in zip(edges, heights, strict=False):
        if height != before:
            points += [] if before is None else [f"{edge},{before}"]
            points.append(f"{edge},{height}")
        before = height
    return " ".join([*points, f"{edges[-1]},{before}"])


def _memory(
    storages: Sequence[Storage], seconds: float, by: str, modules: Mapping[str, str]
) -> str:
    """Bytes of storages, one area for each kind or module on top of the other; and their keys.

    Args:
        modules: the colors that modules have already.
    """
    if not storages:
        return "<p>No storage was there.</p>"
    scale, height, columns = _Scale(seconds), 130, (_WIDTH - _LEFT) // 2
    key = {"kind": lambda s: s.kind, "module": lambda s: s.module or "(no module)"}[by]
    rows, most = curves(storages, seconds, key, columns)
    if by == "kind":
        colors = {kind: KIND_COLORS[kind] for kind in KINDS if kind in rows}
    else:
        colors = {name: modules[name] for name in rows if name in modules}
    others = [
        sum(column) for column in zip(*(rows[n] for n in rows if n not in colors), strict=True)
    ]
    areas = [(name, colors[name], rows[name]) for name in colors]
    if others:
        areas.append(("others", _OTHERS, others))

    def y(nbytes: int) -> float:
        return round(height - 24 - nbytes / max(most, 1) * (height - 36), 2)

    parts = [
        scale.ruler(height - 6),
        f'<text x="0" y="{y(most) + 4}">{most / 1e6:.3g} MB</text>',
        f'<text x="0" y="{y(0) + 4}">0 MB</text>',
    ]
    edges = [_LEFT + 2 * column for column in range(columns + 1)]
    floor = [0] * columns
    for name, color, values in areas:
        top = [low + more for low, more in zip(floor, values, strict=True)]
        upper = _steps(edges, [y(value) for value in top])
        lower = _steps(edges[::-1], [y(value) for value in floor[::-1]])
        title = f"{name}, at most {max(values) / 1e6:.3g} MB"
        parts.append(
            f'<polygon fill="{color}" points="{upper} {lower}"><title>{escape(title)}</title></polygon>'
        )
        floor = top
    return _drawing(height, parts) + _keys([(name, color) for name, color, _ in areas])


def html_table(p: profile, by: str) -> str:
    cells = "".join(
        f"<th>{name}</th>" for name in (by, "calls", "tasks", "ms", "share", "GFLOP/s", "GB/s")
    )
    lines = []
    for row in p.rows(by):
        values = (
            escape(row.name),
            str(row.calls),
            str(row.tasks),
            f"{row.seconds * 1e3:.3f}",
            f"{row.share:.1%}",
            f"{row.gflops:.1f}" if row.flops else "",
            f"{row.bytes / row.seconds * 1e-9:.1f}" if row.bytes and row.seconds > 0 else "",
        )
        lines.append("<tr>" + "".join(f"<td>{value}</td>" for value in values) + "</tr>")
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def body(p: profile) -> str:
    """What a notebook shows."""
    left_out = max(0, len(p.tasks) - _MOST)
    note = f"<p>The {left_out} shortest tasks are not drawn.</p>" if left_out else ""
    idle = "<br>".join(map(escape, [p.idle_line(), *p.transfer_lines()[-1:]]))
    parts = [f'<div class="nntile"><style>{_STYLE}</style><h3>Tasks by worker</h3>']
    parts += [_gantt(p), note, f"<p>{idle}</p>"]
    if p.moves:
        lines = "<br>".join(map(escape, table.moves_as_text(p.moves)))
        parts.append(f"<h3>Between memory and the disk</h3><p>{lines}</p>")
    modules = _colors(p.tasks, table.KEYS["module"])
    for by in ("kind", "module"):
        drawing = _memory(p.storages, p.seconds, by, modules)
        parts.append(f"<h3>Memory of tensors by {by}</h3>{drawing}")
    parts.append('<div class="tables">')
    parts += [f"<div><h3>Time by {by}</h3>{html_table(p, by)}</div>" for by in table.KEYS]
    return "".join(parts) + "</div></div>"
