# SPDX-License-Identifier: BSD-3-Clause
"""What a profile has seen, as Python objects. Times are in seconds since the profile began."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from torch_nntile import _c, places
from torch_nntile.profiling.lines import known_folders, short_line
from torch_nntile.profiling.storages import OTHERS, Storage

__all__ = ["Call", "Events", "Move", "Task", "collect", "steps_of"]

_RECORDED, _WAITED, _TRANSFER, _STORAGE = -1, -2, -3, -4  # nntile_stub_event.row


@dataclass(frozen=True, slots=True)
class Task:
    """A task that a worker has run, or one that went on beside them: a collective."""

    op: str  #: that it is a part of: "matmul", "aten::foo" on the host, "add+relu" where ops are one
    kernel: str  #: "gemm", "map"; "host": PyTorch's kernel of the CPU
    worker: int  #: by number, from 0; -1: none
    start: float
    end: float
    line: str  #: "model.py:14"; "" where it is not known
    backward: bool  #: it belongs to the backward pass of what stands there
    module: str  #: "GPT.layers.3.attn"; "" outside of a module
    run: int  #: tasks that were launched together have the same
    node: int  #: number of the recorded call in its graph
    task: int  #: number in the run
    bytes: int  #: that it reads and writes
    flops: int  #: 0: none, or not known
    call: int = -1  #: index in `calls` of the one that recorded it; -1: none, as of a captured step

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Move:
    """A part of a tensor that was written to the disk or read from it, or that left memory."""

    kind: str  #: "write", "read" or "evict"
    what: str  #: dtype and shape of the whole tensor: "f32 (512, 512)"
    start: float
    end: float
    bytes: int
    line: str  #: that a read is for; "" where nobody waited for it yet
    module: str
    again: float  #: of what leaves: seconds until it was read back; inf: it was not
    tile: int  #: by number, in the order in which they moved first


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the host recorded, or a wait of the host for tasks ("wait")."""

    op: str  #: "aten::add.Tensor"
    thread: int
    start: float
    end: float
    line: str
    backward: bool
    module: str
    waits: bool
    shapes: str = ""  #: of tensors given, "(64, 48) (48,)"; only of profile(record_shapes=True)


@dataclass(frozen=True, slots=True)
class Events:
    """Each list is in the order of the starts."""

    tasks: list[Task]
    calls: list[Call]
    transfers: list[Task]  #: what no worker ran: collectives
    moves: list[Move]  #: of data between memory and the disk
    storages: list[Storage]
    #: By call the calls that wrote what it uses; only of profile(record_shapes=True).
    needs: dict[int, set[int]] | None = None
    steps: list[tuple[float, float]] = field(default_factory=list)  #: start and end of each


_BACKWARD = 1 << 31
_NOT_BACKWARD = ~_BACKWARD


def collect(begin_ns: int, end_ns: int) -> Events:
    """All of the last profile; it has ended. What storages are is not known yet."""
    slot = _c.new("nntile_stub_event const **")
    count = int(_c.get("nntile_stub_profile_events", slot))
    texts: dict[int, tuple[str, str]] = {}
    names: dict[bytes, str] = {}
    folders = known_folders()

    def place(number: int) -> tuple[str, str]:
        if number not in texts:
            line = short_line(places.line_of(number), folders)
            texts[number] = (line, places.module_of(number))
        return texts[number]

    def name(pointer: object) -> str:
        raw = _c.ffi.string(pointer)
        return names.setdefault(raw, raw.decode())

    tasks: list[Task] = []
    transfers: list[Task] = []
    moves: list[tuple[int, Move]] = []
    calls: list[Call] = []
    live: dict[int, Storage] = {}
    storages: list[Storage] = []
    # What ends last first: a call before those in it.
    rows = sorted((slot[0][k] for k in range(count)), key=lambda e: (e.begin_ns, -e.end_ns))
    host = [e for e in rows if e.row in (_RECORDED, _WAITED)]
    index = {e.call: k for k, e in enumerate(host) if e.row == _RECORDED}
    for e in rows:
        line, module = place(e.place & _NOT_BACKWARD)
        backward = bool(e.place & _BACKWARD)
        start, end = (e.begin_ns - begin_ns) * 1e-9, (e.end_ns - begin_ns) * 1e-9
        if e.row in (_RECORDED, _WAITED):
            waits = e.row == _WAITED
            call = (name(e.name), e.thread, start, end, line, backward, module, waits)
            calls.append(Call(*call))
            continue
        if e.row == _STORAGE:
            before = live.pop(e.task, None)
            if before is not None:
                storages.append(replace(before, end=start))
            if e.bytes > 0:
                start = max(start, 0.0)
                made = Storage(start, math.inf, e.bytes, line, backward, module, OTHERS, e.task)
                live[e.task] = made
            continue
        if e.row == _TRANSFER and name(e.kernel) == "disk":
            kind, what = name(e.name).split(" ", 1)
            moves.append((e.task, Move(kind, what, start, end, e.bytes, line, module, math.inf, 0)))
            continue
        numbers = (e.run, e.node, e.task, e.bytes, e.flops, index.get(e.call, -1))
        where = (line, backward, module)
        worker = -1 if e.row == _TRANSFER else e.row
        task = Task(name(e.name), name(e.kernel), worker, start, end, *where, *numbers)
        (transfers if e.row == _TRANSFER else tasks).append(task)
    tasks.sort(key=lambda t: (t.start, t.worker))
    transfers.sort(key=lambda t: t.start)
    last = (end_ns - begin_ns) * 1e-9
    storages += [replace(storage, end=last) for storage in live.values()]
    storages.sort(key=lambda s: s.start)
    return Events(tasks, calls, transfers, _with_next_use(moves), storages)


def _with_next_use(moves: list[tuple[int, Move]]) -> list[Move]:
    """Moves in the order of their starts, with the number of each one's tile; from the last back."""
    read: dict[int, float] = {}
    found = []
    for tile, move in sorted(moves, key=lambda pair: pair[1].start, reverse=True):
        if move.kind == "read":
            read[tile] = move.start
        elif move.kind == "evict" and tile in read:
            move = replace(move, again=read.pop(tile) - move.start)
        found.append((tile, move))
    numbers: dict[int, int] = {}
    return [replace(m, tile=numbers.setdefault(t, len(numbers))) for t, m in reversed(found)]


def steps_of(
    calls: Sequence[Call], ends: Sequence[float], seconds: float
) -> list[tuple[float, float]]:
    """From the first call after an optimizer's step to the end of the next one.

    Optimizers that step one after the other, with no call between them, end one step.

    Args:
        ends: of the optimizers' steps, in their order.
        seconds: of the block.
    """
    recorded = [call.start for call in calls if not call.waits]
    found: list[tuple[float, float]] = []
    since = 0.0
    for end in ends:
        k = bisect_left(recorded, since)
        if k < len(recorded) and recorded[k] < end:
            found.append((recorded[k], min(end, seconds)))
        elif found:
            found[-1] = (found[-1][0], min(end, seconds))
        since = end
    return found
