# SPDX-License-Identifier: BSD-3-Clause
"""A profile in the format of Chrome's traces, which Perfetto and chrome://tracing open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist

from torch_nntile.profiling.events import Call, Events, Task
from torch_nntile.profiling.links import parts_of
from torch_nntile.profiling.storages import KINDS, Storage, changes

__all__ = ["chrome_trace"]

_TRANSFERS, _DISK, _STEPS, _HOST = 900, 950, 990, 1000  # rows; workers have their numbers


def _micro(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _row(number: int, name: str) -> list[dict[str, Any]]:
    common = {"ph": "M", "pid": 0, "tid": number, "ts": 0}
    return [
        {"name": "thread_name", "args": {"name": name}, **common},
        {"name": "thread_sort_index", "args": {"sort_index": number}, **common},
    ]


def _rank() -> tuple[int, int]:
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(), dist.get_world_size()


def _memory(storages: Sequence[Storage]) -> list[dict[str, Any]]:
    """A counter of bytes by kind, at each change."""
    now = dict.fromkeys(KINDS, 0)
    found = {}
    for at, nbytes, storage in changes(storages):
        now[storage.kind] += nbytes
        found[_micro(at)] = dict(now)
    event = {"name": "storages", "ph": "C", "pid": 0, "tid": 0}
    return [{**event, "ts": at, "args": values} for at, values in found.items()]


def _flow(number: int, call: Call, task: Task) -> list[dict[str, Any]]:
    """An arrow from the begin of a call to the begin of its task; each binds to the slice it is in."""
    common = {"name": "recorded", "cat": "flow", "id": number, "pid": 0}
    start, end = {"ph": "s", "tid": _HOST + call.thread}, {"ph": "f", "bp": "e", "tid": task.worker}
    return [
        {**common, **start, "ts": _micro(call.start)},
        {**common, **end, "ts": _micro(task.start)},
    ]


def chrome_trace(events: Events, workers: Sequence[str]) -> dict[str, Any]:
    """Times in microseconds since the profile began, in their order.

    A row for each worker, and for transfers; for each thread of the host one of what it recorded,
    with its waits; the bytes of storages by kind; steps, where optimizers stepped. Arrows go from
    calls to their tasks. A process of a group has its rank as its number.
    """
    rank, processes = _rank()
    title = "nntile" if processes == 1 else f"nntile, rank {rank} of {processes}"
    first: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 0, "tid": 0, "ts": 0, "args": {"name": title}}
    ]
    for worker, name in enumerate(workers):
        first += _row(worker, name)
    if events.transfers:
        first += _row(_TRANSFERS, "transfers")
    if events.moves:
        first += _row(_DISK, "memory and disk")
    if events.steps:
        first += _row(_STEPS, "steps")
    for thread in sorted({call.thread for call in events.calls}):
        first += _row(_HOST + thread, f"host: recording, thread {thread}")
    timed: list[dict[str, Any]] = []
    parts = [*parts_of(events.tasks), *parts_of(events.transfers)]
    for task, part in zip([*events.tasks, *events.transfers], parts, strict=True):
        shapes = events.calls[task.call].shapes if task.call >= 0 else ""
        timed.append(
            {
                "name": task.op,
                "cat": "task" if task.worker >= 0 else "transfer",
                "ph": "X",
                "pid": 0,
                "tid": task.worker if task.worker >= 0 else _TRANSFERS,
                "ts": _micro(task.start),
                "dur": _micro(task.seconds),
                "args": {
                    "kernel": task.kernel,
                    "line": task.line,
                    "backward": task.backward,
                    "module": task.module,
                    "run": task.run,
                    "node": task.node,
                    "part": "{} of {}".format(*part),
                    "bytes": task.bytes,
                    "flops": task.flops,
                    **({"shapes": shapes} if shapes else {}),
                },
            }
        )
    for move in events.moves:
        args: dict[str, Any] = {"bytes": move.bytes, "tile": move.tile}
        args |= {"for": move.line, "module": move.module}
        if move.again < math.inf:
            args["used again in ms"] = round(move.again * 1e3, 3)
        timed.append(
            {
                "name": f"{move.kind} {move.what}",
                "cat": "disk",
                "ph": "X",
                "pid": 0,
                "tid": _DISK,
                "ts": _micro(move.start),
                "dur": _micro(move.end - move.start),
                "args": args,
            }
        )
    for call in events.calls:
        timed.append(
            {
                "name": call.op,
                "cat": "wait" if call.waits else "record",
                "ph": "X",
                "ts": _micro(call.start),
                "dur": _micro(call.end - call.start),
                "args": {
                    "line": call.line,
                    "module": call.module,
                    **({"shapes": call.shapes} if call.shapes else {}),
                },
                "pid": 0,
                "tid": _HOST + call.thread,
            }
        )
    for k, (start, end) in enumerate(events.steps):
        step = {"name": f"step {k + 1}", "cat": "step", "ph": "X", "pid": 0, "tid": _STEPS}
        timed.append({**step, "ts": _micro(start), "dur": _micro(end - start)})
    for k, task in enumerate(events.tasks):
        if task.call >= 0:
            timed += _flow(k + 1, events.calls[task.call], task)
    timed += _memory(events.storages)
    timed.sort(key=lambda event: event["ts"])
    for event in first + timed:
        event["pid"] = rank
    return {"traceEvents": first + timed, "displayTimeUnit": "ms"}
