# SPDX-License-Identifier: BSD-3-Clause
"""What belongs together in a profile: a call and its tasks, a task and what it waited for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_nntile.profiling.events import Call, Task

__all__ = ["Path", "critical_path", "parts_of"]

_Node = tuple[int, int]  # run, number in its graph


def parts_of(tasks: Sequence[Task]) -> list[tuple[int, int]]:
    """Of each task: which of its node's tasks it is, from 1, and how many there are."""
    groups: dict[_Node, list[int]] = {}
    for task in tasks:
        groups.setdefault((task.run, task.node), []).append(task.task)
    ranks = {node: {t: k + 1 for k, t in enumerate(sorted(own))} for node, own in groups.items()}
    return [(ranks[t.run, t.node][t.task], len(groups[t.run, t.node])) for t in tasks]


@dataclass(frozen=True, slots=True)
class Path:
    """A chain of tasks that the end of the block waited for."""

    tasks: list[int]  #: indices, in the order of time
    known: bool  #: by the data that calls share; else by the order of recording alone
    busy: float  #: seconds of these tasks
    host: float  #: between them, seconds in which the next one was not recorded yet
    worker: float  #: seconds in which it was, and its worker did other tasks
    other: float  #: what remains from the first task to the last

    def text(self) -> str:
        parts = [f"{len(self.tasks)} tasks, {self.busy * 1e3:.3f} ms"]
        for seconds, what in (
            (self.host, "until the host recorded the next"),
            (self.worker, "until its worker was free"),
            (self.other, "of other gaps"),
        ):
            if seconds > 0:
                parts.append(f"{seconds * 1e3:.3f} ms {what}")
        return "; ".join(parts)


def _fused(calls: Sequence[Call], owners: Mapping[int, bool]) -> dict[int, int]:
    """For calls of a line, after one whose tasks are of fused ops, that one: theirs are in them."""
    found: dict[int, int] = {}
    last: dict[tuple[str, bool, str], int] = {}
    for k, call in enumerate(calls):
        place = (call.line, call.backward, call.module)
        if k in owners:
            last[place] = k
        elif place in last and owners[last[place]] and not call.waits:
            found[k] = last[place]
    return found


def _needed(
    calls: Sequence[Call], needs: Mapping[int, Set[int]], owners: Mapping[int, bool]
) -> dict[int, set[int]]:
    """For each call with tasks the calls with tasks that it needs, past those without, as views.

    Args:
        owners: the calls with tasks, and whether these are of fused ops.
    """
    fused = _fused(calls, owners)
    own: dict[int, list[int]] = {k: [k] for k in owners}
    for k, owner in fused.items():
        own[owner].append(k)
    found: dict[int, set[int]] = {}
    for owner, group in own.items():
        todo, seen = list(group), set(group)
        found[owner] = set()
        while todo:
            for k in needs.get(todo.pop(), set()) - seen:
                seen.add(k)
                if k in owners or k in fused:
                    found[owner].add(fused.get(k, k))
                else:
                    todo.append(k)
        found[owner].discard(owner)
    return found


def critical_path(
    tasks: Sequence[Task], calls: Sequence[Call], needs: Mapping[int, Set[int]] | None
) -> Path:
    """From the task that ended last back to one that waited for none.

    Before each task stands, of those that it may have waited for, the one that ended last: tasks of
    the calls that wrote what its own call uses, and those of its own call that ran another kernel
    before it (parts of a sum before the sum). Where that is not known, any task recorded before it.

    Args:
        needs: by call the calls that wrote what it uses; None: nobody looked.
    """
    by_end = sorted(range(len(tasks)), key=lambda k: tasks[k].end)
    ends = [tasks[k].end for k in by_end]
    of_call: dict[int, list[int]] = {}
    for k in by_end:
        of_call.setdefault(tasks[k].call, []).append(k)
    of_call.pop(-1, None)
    fused = {call: any("+" in tasks[k].op for k in own) for call, own in of_call.items()}
    needed = None if needs is None else _needed(calls, needs, fused)
    order = [(t.run, t.node) for t in tasks]
    own: dict[_Node, list[int]] = {}
    for k in by_end:
        own.setdefault(order[k], []).append(k)
    chain: list[int] = []
    now = by_end[-1] if by_end else -1
    at = len(by_end)
    while now >= 0:
        chain.append(now)
        t = tasks[now]
        before = [
            k
            for k in own[order[now]]
            if tasks[k].end <= t.start and tasks[k].task < t.task and tasks[k].kernel != t.kernel
        ]
        if needed is not None and t.call >= 0:
            for call in needed[t.call]:
                k = bisect_right(of_call[call], t.start, key=lambda k: tasks[k].end) - 1
                before += [of_call[call][k]] if k >= 0 else []
        else:
            # What is passed over was recorded later, so it is nobody's further back either.
            at = min(at, bisect_right(ends, t.start))
            while at > 0 and order[by_end[at - 1]] >= order[now]:
                at -= 1
            before += [by_end[at - 1]] if at > 0 else []
        now = max(before, key=lambda k: tasks[k].end, default=-1)
    chain.reverse()
    return _with_gaps(tasks, calls, chain, needs is not None)


def _with_gaps(tasks: Sequence[Task], calls: Sequence[Call], chain: list[int], known: bool) -> Path:
    of_worker: dict[int, list[Task]] = {}
    for t in tasks:
        of_worker.setdefault(t.worker, []).append(t)
    starts = {worker: [t.start for t in own] for worker, own in of_worker.items()}
    host = worker = other = 0.0
    for before, after in pairwise(chain):
        since, t = tasks[before].end, tasks[after]
        recorded = calls[t.call].end if t.call >= 0 else since
        recorded = min(max(recorded, since), t.start)
        host += recorded - since
        row = of_worker[t.worker]
        k = bisect_right(starts[t.worker], t.start) - 1
        busy = 0.0
        while k >= 0 and row[k].end > recorded:
            if row[k] is not t:
                busy += max(0.0, min(row[k].end, t.start) - max(row[k].start, recorded))
            k -= 1
        worker += busy
        other += max(0.0, t.start - recorded - busy)
    seconds = sum(tasks[k].seconds for k in chain)
    return Path(chain, known, seconds, host, worker, other)
