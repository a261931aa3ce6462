# SPDX-License-Identifier: BSD-3-Clause
"""`with torch_nntile.profile() as p:` what workers and the host did in a block."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType

import torch

from torch_nntile import _c, modes, places
from torch_nntile.errors import InvalidStateError
from torch_nntile.profiling import chrome, links, page, report, shapes, table
from torch_nntile.profiling.events import Call, Events, Move, Task, collect, steps_of
from torch_nntile.profiling.storages import Storage, StorageNotes

__all__ = ["last", "profile"]

_last: profile | None = None
_CALLER = "your thread"


def last() -> profile | None:
    """The profile that ended last."""
    return _last


def _workers(tasks: list[Task]) -> list[str]:
    """What they are called: those of cores, those of GPUs; then the thread that ran tasks itself."""
    stats = _c.new_struct("nntile_context_stats")
    if _c.get("nntile_context_active"):
        _c.call("nntile_context_stats_get", stats)
    gpus = [f"GPU {k}" for k in range(int(stats.ncuda))]
    seen = max((task.worker + 1 for task in tasks), default=0)
    # A context that has ended since had more; without one nobody knows which row was the caller's.
    cores = max(int(stats.ncpu), seen - len(gpus) - 1) if stats.ncpu else seen
    workers = [*(f"worker {k}" for k in range(cores)), *gpus]
    return [*workers, _CALLER] if seen > len(workers) else workers


def _difference(before: modes.Stats, after: modes.Stats) -> modes.Stats:
    now = ("plans", "waiting")  # those there are now
    names = [name for name in modes.Stats.__slots__ if name not in now]
    changed = {name: getattr(after, name) - getattr(before, name) for name in names}
    return modes.Stats(**changed, plans=after.plans, waiting=after.waiting)


class profile:  # noqa: N801 (it reads as a verb)
    """Note each task that the block launches, and each call that records one.

    The block waits at its end for the tasks that it launched; in graph mode these are the tasks
    that `run_graph()` or a host read has submitted. Tasks are those that run without a profile, so
    ops that are fused then are one row here ("addmm+relu"): that of the op with the most work, with
    its line and module. You can use the results once the block has ended.

    Args:
        record_shapes: note the shapes of each call's tensors, and which calls share data, for
            traces, pages and `critical_path`. Each call then passes through Python: about 20 us.

    Raises:
        RuntimeError: at the beginning, if another profile is on. Also an error of a task: at the
            end, or at the beginning if the task was launched before.

    Attributes:
        tasks: `Task`s in the order of their starts.
        calls: `Call`s of the host that recorded ops, and its waits.
        transfers: `Task`s that run outside the workers: collectives, with their wait for other
            processes.
        moves: `Move`s of data between memory and the disk, if there is a disk.
        storages: `Storage`s of tensors that lived in the block, each with its kind and module.
        steps: start and end of each step of the program, where optimizers stepped in the block.
        critical_path: `Task`s that the end waited for, each for the one before it.
        seconds: how long the block took, with the wait at its end.
        began: the date and time of the beginning.
        workers: the number of workers.
        worker_names: "worker 0", ..., and after those of cores "GPU 0", ...
        stats: counters of `torch_nntile.stats()` for the block alone.
    """

    def __init__(self, *, record_shapes: bool = False) -> None:
        self._record_shapes = record_shapes
        self._shapes: shapes.Shapes | None = None
        self._path: links.Path | None = None
        self._events: Events | None = None
        self._begin = self._end = 0
        self._workers: list[str] = []
        self._stats = modes.Stats(*(0 for _ in modes.Stats.__slots__))
        self._stop_watching: Callable[[], None] | None = None
        self._watch: StorageNotes | None = None

    def __enter__(self) -> profile:
        torch.nntile.synchronize()  # type: ignore[attr-defined]
        if not _c.get("nntile_stub_profile_begin"):
            raise InvalidStateError("profile: a profile is on already, and there can be only one")
        self._events = self._path = None
        self._stats = modes.stats()
        self._stop_watching = places.watch_modules()
        self._watch = StorageNotes(places.module_now)
        self._begin = time.time_ns()
        self._shapes = shapes.begun(self._record_shapes)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        global _last
        if self._shapes is not None:
            self._shapes.__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        try:
            torch.nntile.synchronize()  # type: ignore[attr-defined]
        except Exception:
            if error is None:  # else that is what the user has to hear of
                raise
        finally:
            _c.get("nntile_stub_profile_end")
            self._end = time.time_ns()
            if self._watch is not None:
                self._watch.end()
            if self._stop_watching is not None:
                self._stop_watching()
            self._stats = _difference(self._stats, modes.stats())
            self._events = collect(self._begin, self._end)
            if self._watch is not None:
                self._name(self._events, self._watch)
            self._workers = _workers(self._events.tasks)
            _last = self

    def _name(self, events: Events, watch: StorageNotes) -> None:
        """Adds what Python alone has seen."""
        events.storages[:] = watch.named(events.storages, self._begin)
        ends = [(end - self._begin) * 1e-9 for _, end in watch.optimizer_steps]
        steps = steps_of(events.calls, ends, (self._end - self._begin) * 1e-9)
        self._events = replace(events, steps=steps)
        if self._shapes is not None:
            calls, needs = shapes.with_shapes(events.calls, self._shapes.notes, self._begin)
            self._events = replace(self._events, calls=calls, needs=needs)

    def _seen(self) -> Events:
        if self._events is None:
            raise InvalidStateError("profile: it has not ended; use its results after the block")
        return self._events

    @property
    def tasks(self) -> list[Task]:
        return self._seen().tasks

    @property
    def calls(self) -> list[Call]:
        return self._seen().calls

    @property
    def transfers(self) -> list[Task]:
        return self._seen().transfers

    @property
    def moves(self) -> list[Move]:
        return self._seen().moves

    @property
    def storages(self) -> list[Storage]:
        return self._seen().storages

    @property
    def steps(self) -> list[tuple[float, float]]:
        return self._seen().steps

    @property
    def critical_path(self) -> list[Task]:
        return [self.tasks[k] for k in self.path().tasks]

    @property
    def began(self) -> datetime:
        self._seen()
        return datetime.fromtimestamp(self._begin * 1e-9).astimezone()

    def path(self) -> links.Path:
        """The critical path, with what it waited for."""
        if self._path is None:
            seen = self._seen()
            self._path = links.critical_path(seen.tasks, seen.calls, seen.needs)
        return self._path

    @property
    def workers(self) -> int:
        self._seen()
        return len(self._workers) - (_CALLER in self._workers)

    @property
    def worker_names(self) -> list[str]:
        return self._workers

    @property
    def stats(self) -> modes.Stats:
        self._seen()
        return self._stats

    @property
    def seconds(self) -> float:
        self._seen()
        return (self._end - self._begin) * 1e-9

    @property
    def idle_seconds(self) -> float:
        """Seconds in which workers had nothing to do, summed over them."""
        busy = sum(task.seconds for task in self.tasks if task.worker < self.workers)
        return max(0.0, self.workers * self.seconds - busy)

    def rows(self, by: str = "op") -> list[table.Row]:
        """The rows of `summary()`."""
        return table.rows_by(self.tasks, by)

    def summary(self, by: str = "op") -> str:
        """A table of the tasks, the longest first; then a line about idle workers, and the same for
        transfers, if there were any.

        Args:
            by: "op", "module", "kernel" or "line". Ops of a backward pass belong to the module of
                the forward op.
        """
        return "\n".join(
            (
                *table.as_text(self.rows(by), by),
                self.idle_line(),
                *self.transfer_lines(),
                *self.move_lines(),
            )
        )

    def transfer_lines(self) -> list[str]:
        """A table of the transfers by op, and how much of them was while tasks ran; nothing without any."""
        if not self.transfers:
            return []
        spans = [(t.start, t.end) for t in self.transfers]
        busy = [(t.start, t.end) for t in self.tasks]
        both = table.covered(spans) + table.covered(busy) - table.covered(spans + busy)
        return [
            "",
            *table.as_text(table.rows_by(self.transfers, "op"), "transfer"),
            f"transfers: {table.covered(spans) * 1e3:.3f} ms, of these {both * 1e3:.3f} ms while tasks ran",
        ]

    def move_lines(self) -> list[str]:
        """What left memory and came back, by tensor; no lines where nothing did."""
        lines = table.moves_as_text(self.moves)
        return ["", "between memory and the disk:", *lines] if lines else []

    def idle_line(self) -> str:
        """How long workers were idle, and why: the last line of `summary()`."""
        total = self.workers * self.seconds
        share = self.idle_seconds / total if total > 0 else 0.0
        nothing = max(0.0, self.seconds - table.covered((t.start, t.end) for t in self.tasks))
        waits = table.covered((c.start, c.end) for c in self.calls if c.waits)
        return (
            f"idle: {self.idle_seconds * 1e3:.3f} ms of {self.workers} workers ({share:.1%} of "
            f"{self.seconds * 1e3:.3f} ms each); no task ran for {nothing * 1e3:.3f} ms; "
            f"the host waited for {waits * 1e3:.3f} ms"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that Perfetto and chrome://tracing open."""
        trace = chrome.chrome_trace(self._seen(), self.worker_names)
        Path(path).write_text(json.dumps(trace, separators=(",", ":")), encoding="utf-8")

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write one page: tasks by worker, the tables, memory. It loads no other files."""
        Path(path).write_text(page.page(self), encoding="utf-8")

    def __repr__(self) -> str:
        if self._events is None:
            return "<torch_nntile.profile, not ended>"
        total = self.workers * self.seconds
        idle = f", {self.idle_seconds / total:.0%} idle" if total > 0 else ""
        rows = self.rows("module" if any(task.module for task in self.tasks) else "op")
        most = f"; most: {rows[0].name} {rows[0].share:.0%}" if rows else ""
        return (
            f"<torch_nntile.profile of {len(self.tasks)} tasks in {self.seconds * 1e3:.3f} ms "
            f"on {self.workers} workers{idle}{most}>"
        )

    def _repr_html_(self) -> str:
        return report.body(self)
