# SPDX-License-Identifier: BSD-3-Clause
"""Will a step fit, and how long would it take, on workers, memory and disks you do not have?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch_nntile import _c, context, modes, places
from torch_nntile.errors import InvalidArgumentError, InvalidStateError

__all__ = ["Estimate", "Holder", "estimate", "estimate_only"]

MOST_WORKERS = 65536
STEPS = 5  # three to warm up, the one that counts, and one that it keeps data for
SHOWN = 5  # holders in a text


@dataclass(frozen=True, slots=True)
class Holder:
    """The memory that one call of the program holds: its tensors and temporaries."""

    op: str
    line: str  # "model.py:14"; "" where it is not known
    module: str  # "GPT.layers.3.attn", or ""
    bytes: int

    def __str__(self) -> str:
        where = ", in ".join(filter(None, (self.line, self.module)))
        return f"{_bytes(self.bytes)}: {self.op}{f' [{where}]' if where else ''}"


@dataclass(frozen=True, slots=True)
class Estimate:
    """The result of `estimate()`; times are in seconds. It prints as a short text.

    Numbers of bytes are known in `estimate_only()`, and are 0 elsewhere.
    """

    workers: int  # the largest number asked for; seconds, idle and bytes are about it
    seconds: float  # until the last task has ended; with a budget, transfers included
    idle: float  # share of the workers' time in which they had no task, 0 to 1
    tasks: int
    work_seconds: float  # of all tasks
    critical_seconds: float  # of the longest chain of tasks: more workers cannot be faster
    seconds_on: Mapping[int, float]  # by number of workers, all that were asked for
    peak_bytes: int = 0  # held at once by tensors and tasks, as memory_stats()["peak_bytes"]
    reserved_peak_bytes: int = 0  # in main memory at once, without a budget
    holders: tuple[Holder, ...] = ()  # of the peak, largest first
    memory: int = 0  # the budget; 0: none was given, and nothing below is known
    memory_peak_bytes: int = 0  # in main memory at once, with the budget
    swap_peak_bytes: int = 0  # on the disk at once
    read_bytes: int = 0  # from the disk, in a step
    written_bytes: int = 0  # to the disk, in a step
    # What this order of tasks has to move, whatever leaves memory when: lower bounds
    least_read_bytes: int = 0
    least_written_bytes: int = 0

    @property
    def fits(self) -> bool:
        """Whether the budget needs no disk behind it."""
        return self.swap_peak_bytes == 0

    def __str__(self) -> str:
        work, longest = _time(self.work_seconds), _time(self.critical_seconds)
        lines = [f"{self.tasks} tasks of {work}, longest chain {longest}"]
        lines += [
            f"on {count} worker{'s' * (count > 1)}: {_time(seconds)}, "
            f"idle {_idle(self.work_seconds, seconds, count):.0%}"
            for count, seconds in self.seconds_on.items()
        ]
        if self.peak_bytes:
            lines.append(f"at most {_bytes(self.peak_bytes)} at once, largest holders:")
            lines += [f"    {holder}" for holder in self.holders[:SHOWN]]
        if self.memory:
            does = "fits" if self.fits else "does not fit without a disk"
            lines.append(f"in {_bytes(self.memory)}: {does}")
        if self.memory and not self.fits:
            lines.append(
                f"with one: reads {_bytes(self.read_bytes)} and writes "
                f"{_bytes(self.written_bytes)} in a step, at least "
                f"{_bytes(self.least_read_bytes)} and {_bytes(self.least_written_bytes)}"
            )
        return "\n".join(lines)


_budgets: list[int] = []  # of the open estimate_only(); 0: it has none


@contextmanager
def estimate_only(memory: int | str | None = None) -> Iterator[None]:
    """Record ops on the device without running them; tensors have no data and take no memory.

    Use it for models that this machine cannot hold. Make model, optimizer and batches inside, on
    device="nntile", and call `estimate(step, memory=...)`. To bring in a model made on "meta", call
    `to_empty(device="nntile")`; to bring in one from the CPU, call `to("nntile")`. Tensors made
    inside have no data afterwards either. The setting applies to the whole process, like the mode.

    Args:
        memory: the default budget of estimates. The device cuts a tensor of half of the budget or
            more when you make it, so give the budget that a run would have.

    Raises:
        ValueError: the budget is not valid.
        RuntimeError: you are inside another `estimate_only()`. Inside: an op uses a tensor made
            before, or reads numbers, such as `item()`. Afterwards: an op uses a tensor made inside.
    """
    if _budgets:
        raise InvalidStateError("estimate_only: another one has begun and has not ended")
    budget = 0 if memory is None else context.parse_bytes("estimate_only: memory", memory)
    modes.run_graph()
    _imagine(True, budget)
    _budgets.append(budget)
    end_watch = places.watch_modules()
    try:
        yield
    finally:
        end_watch()
        _budgets.clear()
        try:
            modes.run_graph()
        finally:
            _imagine(False)


def _imagine(on: bool, memory: int = 0) -> None:
    _c.call("nntile_estimate_imagine", int(on), memory)


def estimate(
    step: Callable[[], object],
    workers: int | Sequence[int] = 64,
    *,
    memory: int | str | None = None,
    swap_gbps: float = 1.0,
) -> Estimate:
    """Estimate the time of `step` on `workers` equal workers, and the memory that it holds.

    Outside `estimate_only()`, this runs `step` once. Call `step` once or twice before, because the
    first call makes optimizer states and settles cuts. Inside `estimate_only()`, this records
    `step` five times, reports the fourth, and runs nothing.

    The estimate takes the seconds of each task from the cost module (`load_cost`) and plays the
    tasks of the current mode in the order of the scheduler. It leaves out the time of Python
    between the ops. Without a budget it assumes memory for everything. A host read inside `step`
    delays the tasks that follow it.

    Args:
        step: a function without arguments.
        workers: a number of workers, or several numbers.
        memory: a budget for data in main memory, such as "8GiB"; data that does not fit goes to a
            disk. Only inside `estimate_only()`, whose budget is the default.
        swap_gbps: the speed of that disk, in 1e9 bytes a second.

    Raises:
        ValueError: a number of workers is outside [1, 65536], the budget or the disk is not valid,
            or `step` submits nothing.
        RuntimeError: you are inside another estimate; you gave a budget outside `estimate_only()`;
            or `step` reads numbers inside it. Exceptions of `step` pass through.
        torch.OutOfMemoryError: one task needs more than the budget.
    """
    counts = _counts_of(workers)
    budget = _budget_of(memory)
    rate = _rate_of(swap_gbps)
    imagined = bool(_budgets)
    modes.run_graph()  # what was recorded before is not the step's
    if budget:
        _imagine(True, budget)
    try:
        noted = _noted(step, STEPS if imagined else 1)
    finally:
        if budget:
            _imagine(True, _budgets[0])
    context.wait()  # an error of a task is raised here
    report = _c.new_struct("nntile_estimate_report")
    seconds_on = {}
    for count in counts:
        _c.call("nntile_estimate_play", noted, count, report)
        seconds_on[count] = report.seconds
    found: dict[str, Any] = {}
    if imagined:
        found |= _memory_of(noted, counts[-1])
    if budget:
        for count in counts:
            played = _rehearse(noted, count, budget, rate)
            seconds_on[count] = played.seconds
        names = ["swap_peak_bytes", "read_bytes", "written_bytes"]
        names += ["least_read_bytes", "least_written_bytes"]
        found |= {name: int(getattr(played, name)) for name in names}
        found |= {"memory": budget, "memory_peak_bytes": int(played.reserved_peak_bytes)}
    seconds = seconds_on[counts[-1]]
    return Estimate(
        workers=counts[-1],
        seconds=seconds,
        idle=_idle(report.work_seconds, seconds, counts[-1]),
        tasks=report.tasks,
        work_seconds=report.work_seconds,
        critical_seconds=report.critical_seconds,
        seconds_on=MappingProxyType(seconds_on),
        **found,
    )


def _noted(step: Callable[[], object], times: int) -> Any:
    _c.call("nntile_estimate_begin")
    try:
        for _ in range(times):
            result = step()
            modes.run_graph()
            del result  # what nobody holds does not run in graph mode
            if times > 1:
                _c.call("nntile_estimate_end_step")
    except BaseException:
        _c.try_call("nntile_estimate_end", _c.ffi.NULL)
        raise
    slot = _c.new("nntile_estimate **")
    _c.call("nntile_estimate_end", slot)
    return _c.ffi.gc(slot[0], _c.function("nntile_estimate_destroy"))


def _rehearse(noted: Any, workers: int, budget: int = 0, rate: float = 1e9) -> Any:
    machine, report = (
        _c.new_struct("nntile_estimate_machine"),
        _c.new_struct("nntile_estimate_memory"),
    )
    machine.workers, machine.memory_bytes = workers, budget
    machine.swap_bytes_per_second = rate
    _c.call("nntile_estimate_rehearse", noted, machine, report)
    return report


def _memory_of(noted: Any, workers: int) -> dict[str, Any]:
    report = _rehearse(noted, workers)
    totals: dict[tuple[str, str, str], int] = {}
    row = _c.new_struct("nntile_estimate_holder")
    for index in range(report.holders):
        _c.call("nntile_estimate_holder_get", noted, index, row)
        place = int(row.place)
        key = (_c.text(row.op), places.line_of(place), places.module_of(place))
        totals[key] = totals.get(key, 0) + int(row.bytes)
    holders = (Holder(*key, nbytes) for key, nbytes in totals.items())
    return {
        "peak_bytes": int(report.peak_bytes),
        "reserved_peak_bytes": int(report.reserved_peak_bytes),
        "holders": tuple(sorted(holders, key=lambda holder: -holder.bytes)),
    }


def _budget_of(memory: int | str | None) -> int:
    if memory is None:
        return _budgets[0] if _budgets else 0
    budget = context.parse_bytes("estimate: memory", memory)
    if not _budgets:
        raise InvalidStateError(
            "estimate: a budget is for tensors without data: make model, optimizer and batches in "
            "estimate_only(), and estimate the step there"
        )
    return budget


def _rate_of(swap_gbps: float) -> float:
    number = isinstance(swap_gbps, (int, float)) and not isinstance(swap_gbps, bool)
    if not number or not 0 < swap_gbps < float("inf"):
        raise InvalidArgumentError(
            f"estimate: swap_gbps must be a number above 0, got {swap_gbps!r}"
        )
    return swap_gbps * 1e9


def _counts_of(workers: int | Sequence[int]) -> list[int]:
    given = list(workers) if isinstance(workers, Sequence) else [workers]
    whole = all(isinstance(count, int) and not isinstance(count, bool) for count in given)
    counts = sorted(set(given)) if whole else []
    if not counts or counts[0] < 1 or counts[-1] > MOST_WORKERS:
        raise InvalidArgumentError(
            f"estimate: workers must be one or several whole numbers in [1, {MOST_WORKERS}], "
            f"got {workers!r}"
        )
    return counts


def _idle(work: float, seconds: float, workers: int) -> float:
    return max(0.0, 1 - work / (seconds * workers))


def _time(seconds: float) -> str:
    for scale, unit in ((1, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _bytes(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"
