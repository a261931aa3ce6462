# SPDX-License-Identifier: BSD-3-Clause
"""docs/reference/op_support.md: a line for each entry of op_db, a mark for each dtype and direction.

What is read from a page is what was written to it: `parse(render(table)) == table`.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from torch_nntile.conformance.marks import MARKS, NONE, NOT_RUN, worse

__all__ = ["DTYPES", "Entry", "Table", "parse", "render", "steps_back", "table_of"]

DTYPES = ("float32", "float64", "bfloat16", "int64", "bool", "complex64")
DIRECTIONS = ("forward", "backward")
Table = dict[str, "Entry"]
_ON_TILES = "RC"
_LONGEST = 110  # of a reason


@dataclass
class Entry:
    """Marks by (dtype, direction), and notes for the last column."""

    marks: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: str = ""


def table_of(lines: Iterable[str], done: Iterable[tuple[str, str]]) -> Table:
    """Of the lines of a log: the worst mark of all samples counts."""
    table: Table = {name: Entry() for name, _ in sorted(done)}
    host: dict[str, set[str]] = collections.defaultdict(set)
    reasons: dict[str, dict[tuple[str, str], list[str]]] = collections.defaultdict(dict)
    for line in sorted(lines):
        name, case, mark, text = line.split("\t")
        dtype, direction = (*case.replace(":", "").split(), "forward")[:2]
        if mark not in (*MARKS, NOT_RUN):  # a crash, or a hang
            mark, text = "X", f"{mark} {text}"
            direction = direction if direction in DIRECTIONS else "forward"
        entry, key = table.setdefault(name, Entry()), (dtype, direction)
        before = entry.marks.get(key, NONE)
        entry.marks[key] = mark if before == NONE or worse(mark, before) else before
        if mark == "H" and not dtype.startswith("complex"):
            host[name].update(text.split(", "))
        elif mark not in (*_ON_TILES, "H"):
            where = reasons[name].setdefault((mark, _plain(text)), [])
            where += [w for w in [f"{dtype} {direction}"] if w not in where]
    for name, entry in table.items():
        notes = ["host: " + ", ".join(f"`{o}`" for o in sorted(host[name]))] if host[name] else []
        for (mark, text), where in reasons[name].items():
            notes.append(text if mark == NOT_RUN else f"{mark} {', '.join(where)}: {text}")
        entry.notes = "; ".join(notes)
    return table


def _plain(text: str) -> str:
    """One cell of a table, without what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]+|(/[\w.-]+){2,}", "...", text.replace("|", "/").replace("`", "'"))
    text = re.sub(r"[<>*_\\]", "", " ".join(text.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3].rstrip() + "..."


# ---- the page

_HEAD = """\
<!-- Written by python -m torch_nntile.conformance --write. -->

# PyTorch's ops

op_db is the table of ops and samples that PyTorch tests its own backends with. We run samples of each entry
on the device and compare them with the CPU. A cell has one mark for the call and one for its gradient: the
worst mark of all samples. A row is an entry in the device's own table of ops; a tile is a part of a tensor.

| mark | |
|---|---|
"""
_LEGEND = (
    {f"`{mark}`": meaning for mark, meaning in MARKS.items()}
    | {f"`{NONE}`": "the CPU does not take this dtype, or gives no gradient"}
    | {f"`{NOT_RUN}`": "cannot be compared: see the last column"}
)


def render(table: Table) -> str:
    """The page, totals first."""
    parts = [_HEAD, *(f"| {mark} | {meaning} |\n" for mark, meaning in _LEGEND.items())]
    parts += ["\n## Totals\n\n", *_totals(table), "\n## Entries\n\n"]
    parts.append(_row("op", *DTYPES, "on the host (of real numbers), or why not"))
    parts.append("|---" * (len(DTYPES) + 2) + "|\n")
    for name in sorted(table):
        entry = table[name]
        cells = ["".join(entry.marks.get((d, way), NONE) for way in DIRECTIONS) for d in DTYPES]
        parts.append(_row(f"`{name}`", *cells, entry.notes))
    return "".join(parts)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n".replace("|  |", "| |")


def _totals(table: Table) -> Iterator[str]:
    without = {d: _counts(table, "float32", d) for d in DIRECTIONS}
    shares = [f"{_share(c)} ({_on_tiles(c)} of {c.total()}) {d}" for d, c in without.items()]
    yield f"{len(table)} entries. Of those that the CPU computes in float32, these run without the host: "
    yield f"**{', '.join(shares)}**.\n\n"
    yield _row("", "entries", *MARKS, "without the host")
    yield "|---" * (len(MARKS) + 3) + "|\n"
    for dtype in DTYPES:
        for direction in DIRECTIONS:
            counts = _counts(table, dtype, direction)
            if counts:
                numbers = [str(counts[mark]) for mark in MARKS]
                yield _row(f"{dtype} {direction}", str(counts.total()), *numbers, _share(counts))


def _counts(table: Table, dtype: str, direction: str) -> collections.Counter[str]:
    found = (entry.marks.get((dtype, direction), NONE) for entry in table.values())
    return collections.Counter(mark for mark in found if mark in MARKS)


def _on_tiles(counts: collections.Counter[str]) -> int:
    return sum(counts[mark] for mark in _ON_TILES)


def _share(counts: collections.Counter[str]) -> str:
    return f"{100 * _on_tiles(counts) / max(counts.total(), 1):.1f} %"


def parse(text: str) -> Table:
    """The entries of a page.

    Raises:
        ValueError: it has none, or a line of them has no meaning.
    """
    table: Table = {}
    lines = text.partition("\n## Entries\n")[2].splitlines()
    columns = [cell.strip() for cell in next((x for x in lines if x), "").split("|")[2:-2]]
    for line in lines:
        match = re.fullmatch(r"\| `(\S+)` \|(.*)\|", line)
        if match is None:
            continue
        *cells, notes = [cell.strip() for cell in match.group(2).split("|")]
        if len(cells) != len(columns) or any(
            len(cell) != 2 or not {*cell} <= {*MARKS, NONE, NOT_RUN} for cell in cells
        ):
            raise ValueError(f"no line of a table of ops: {line}")
        marks = {
            (dtype, way): mark
            for dtype, cell in zip(columns, cells, strict=True)
            for way, mark in zip(DIRECTIONS, cell, strict=True)
            if mark != NONE
        }
        table[match.group(1)] = Entry(marks, notes)
    if not table:
        raise ValueError("no table of ops")
    return table


def steps_back(found: Table, page: Table) -> list[str]:
    """What is worse than on the page, a line each."""
    return [
        f"{name} {dtype} {direction}: {mark}, was {before}: {entry.notes or 'runs on tiles'}"
        for name, entry in found.items()
        for (dtype, direction), mark in entry.marks.items()
        if name in page and worse(mark, before := page[name].marks.get((dtype, direction), NONE))
    ]
