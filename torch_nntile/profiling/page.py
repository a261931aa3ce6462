# SPDX-License-Identifier: BSD-3-Clause
"""A profile as one page of HTML that needs nothing else: page.html with its style, script and data."""

from __future__ import annotations

import json
import math
import platform
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torch_nntile import _c
from torch_nntile.profiling import report, table
from torch_nntile.profiling.links import parts_of
from torch_nntile.profiling.storages import KINDS, changes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch_nntile.profiling.events import Call, Move, Task
    from torch_nntile.profiling.profile import profile

__all__ = ["data", "page"]

_FOLDER = Path(__file__).parent
_KIND = ("class", "op", "kernel", "line", "module", "bytes", "flops", "shapes", "parts", "note")
_BAR = ("row", "start", "length", "kind", "part", "call")
_PATH = {
    True: "A guess by the data that calls share: before each task stands, of the tasks whose calls wrote "
    "what its own call uses, the one that ended last. Which tiles they share is not known.",
    False: "A guess by time alone: before each task stands, of all those recorded before it, the one that "
    "ended last. profile(record_shapes=True) looks at the data that calls share.",
}


class _Bars:
    """Columns, one number for each bar; what many bars have in common is a kind."""

    def __init__(self) -> None:
        self.columns: dict[str, list[int]] = {name: [] for name in _BAR}
        self.kinds: dict[tuple[Any, ...], int] = {}

    def add(
        self, row: int, start: float, end: float, kind: tuple[Any, ...], part: int, call: int
    ) -> None:
        begin = round(start * 1e9)
        number = self.kinds.setdefault(kind, len(self.kinds))
        values = (row, begin, round(end * 1e9) - begin, number, part, call)
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)


def _task(t: Task, shapes: str, parts: int, what: str) -> tuple[Any, ...]:
    line = ("backward of " if t.backward else "") + t.line
    return (what, t.op, t.kernel, line, t.module, t.bytes, t.flops, shapes, parts, "")


def _call(c: Call) -> tuple[Any, ...]:
    line = ("backward of " if c.backward else "") + c.line
    return ("wait" if c.waits else "record", c.op, "", line, c.module, 0, 0, c.shapes, 1, "")


def _move(m: Move) -> tuple[Any, ...]:
    note = f"tile {m.tile}"
    if m.kind == "evict":
        note += (
            f", used again in {m.again * 1e3:.3g} ms" if m.again < math.inf else ", not used again"
        )
    return (m.kind, f"{m.kind} {m.what}", "disk", m.line, m.module, m.bytes, 0, "", 1, note)


def _bars(p: profile) -> tuple[_Bars, list[str]]:
    """Calls first, so that tasks name theirs by index; then tasks, in the order of `p.tasks`."""
    rows = list(p.worker_names)
    rows += ["transfers"] * bool(p.transfers) + ["disk"] * bool(p.moves)
    threads = sorted({call.thread for call in p.calls})
    first = {thread: len(rows) + k for k, thread in enumerate(threads)}
    rows += ["host"] if len(threads) == 1 else [f"host {k}" for k in threads]
    bars = _Bars()
    for c in p.calls:
        bars.add(first[c.thread], c.start, c.end, _call(c), 1, -1)
    for t, (part, parts) in zip(p.tasks, parts_of(p.tasks), strict=True):
        shapes = p.calls[t.call].shapes if t.call >= 0 else ""
        bars.add(t.worker, t.start, t.end, _task(t, shapes, parts, "task"), part, t.call)
    for t, (part, parts) in zip(p.transfers, parts_of(p.transfers), strict=True):
        bars.add(len(p.worker_names), t.start, t.end, _task(t, "", parts, "transfer"), part, -1)
    for m in p.moves:
        bars.add(len(p.worker_names) + bool(p.transfers), m.start, m.end, _move(m), 1, -1)
    return bars, rows


def _numbered(names: Iterable[str]) -> tuple[list[int], list[str]]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(name, len(numbers)) for name in names], list(numbers)


def _memory(p: profile) -> dict[str, Any]:
    """Each change of the bytes of tensors, in the order of time."""
    steps = changes(p.storages)
    kinds = [KINDS.index(s.kind) for _, _, s in steps]
    modules, names = _numbered(s.module or "(no module)" for _, _, s in steps)
    return {
        "at": [round(at * 1e9) for at, _, _ in steps],
        "bytes": [nbytes for _, nbytes, _ in steps],
        "kind": kinds,
        "module": modules,
        "modules": names,
    }


def data(p: profile) -> dict[str, Any]:
    """What the page's script draws. Times are in whole nanoseconds since the profile began."""
    bars, rows = _bars(p)
    path = p.path()
    return {
        "length": max(round(p.seconds * 1e9), 1),
        "rows": rows,
        "kinds": [dict(zip(_KIND, kind, strict=True)) for kind in bars.kinds],
        "bars": bars.columns,
        "path": [k + len(p.calls) for k in path.tasks],
        "steps": [[round(start * 1e9), round(end * 1e9)] for start, end in p.steps],
        "memory": _memory(p),
        "palette": report.PALETTE,
        "memoryKinds": [[kind, report.KIND_COLORS[kind]] for kind in KINDS],
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def _head(p: profile) -> str:
    """When, on what, by which versions."""
    stats = _c.new_struct("nntile_context_stats")
    if _c.get("nntile_context_active"):
        _c.call("nntile_context_stats_get", stats)
    gpus = min(int(stats.ncuda), p.workers)
    cores = p.workers - gpus
    workers = [f"{cores} core{'s' if cores != 1 else ''} of {_processor()}"] if cores else []
    workers += [f"{gpus} GPU{'s' if gpus != 1 else ''}"] if gpus else []
    from torch_nntile import __version__  # not at import: this is a part of it

    parts = [
        f"{p.began:%Y-%m-%d %H:%M:%S %z}",
        f"device nntile: {' and '.join(workers) or 'no workers'}",
        f"torch_nntile {__version__}, PyTorch {torch.__version__}",
    ]
    return " · ".join(parts)


def _facts(p: profile) -> list[tuple[str, str]]:
    """Sentences below the drawing, each with its title."""
    path = p.path()
    shown = len(p.tasks), len([t for t in p.tasks if t.call >= 0])
    facts = [("Workers", p.idle_line())]
    if p.transfers:
        facts.append(("Transfers", p.transfer_lines()[-1]))
    if path.tasks:
        facts.append(("Critical path", f"{path.text()}. {_PATH[path.known]}"))
    if shown[1] < shown[0]:
        text = f"known of {shown[1]} of {shown[0]} tasks; those of captured functions have none"
        facts.append(("Calls of tasks", text))
    if p.moves:
        facts.append(("Disk", "\n".join(line.strip() for line in table.moves_as_text(p.moves))))
    return facts


def page(p: profile) -> str:
    """The text of the page."""
    facts = (f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _facts(p))
    tables = (
        f'<section><h2>Time by {by}</h2><div class="scroll" data-by="{by}">'
        f"{report.html_table(p, by)}</div></section>"
        for by in table.KEYS
    )
    text = json.dumps(data(p), separators=(",", ":"))
    parts = {
        "head": escape(_head(p)),
        "facts": "".join(facts),
        "tables": "".join(tables),
        "style": (_FOLDER / "page.css").read_text(encoding="utf-8"),
        "script": (_FOLDER / "page.js").read_text(encoding="utf-8"),
        "data": text.replace("<", "\\u003c"),  # nothing in it ends the script
    }
    template = (_FOLDER / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)
