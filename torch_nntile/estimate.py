# SPDX-License-Identifier: BSD-3-Clause
"""How long a step would take on any number of workers, those that are not here included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from torch_nntile import _c, context, modes
from torch_nntile.errors import InvalidArgumentError

__all__ = ["Estimate", "estimate"]

MOST_WORKERS = 65536


@dataclass(frozen=True, slots=True)
class Estimate:
    """What playing a step's tasks gave; times in seconds. Prints as a short text."""

    workers: int  # the largest number asked for; seconds and idle are about it
    seconds: float  # until the last task has ended
    idle: float  # share of the workers' time in which they had no task, 0 to 1
    tasks: int
    work_seconds: float  # of all tasks
    critical_seconds: float  # of the longest chain of tasks: more workers cannot be faster
    seconds_on: Mapping[int, float]  # by number of workers, all that were asked for

    def __str__(self) -> str:
        work, longest = _time(self.work_seconds), _time(self.critical_seconds)
        lines = [f"{self.tasks} tasks of {work}, longest chain {longest}"]
        lines += [
            f"on {count} worker{'s' * (count > 1)}: {_time(seconds)}, "
            f"idle {_idle(self.work_seconds, seconds, count):.0%}"
            for count, seconds in self.seconds_on.items()
        ]
        return "\n".join(lines)


def estimate(step: Callable[[], object], workers: int | Sequence[int] = 64) -> Estimate:
    """Run `step` once and tell how long its tasks would take on `workers` equal workers.

    Call `step` once or twice before: a first call makes optimizer states and settles cuts. Its
    tasks, in the mode that is set, get the seconds of the cost module (`load_cost`), and are played
    in the order of the scheduler. The time of Python between the ops is not in the estimate, and
    there is memory for everything. A read of the host inside of `step` holds back what follows it.

    Args:
        step: called once, without arguments.
        workers: a number of workers, or several.

    Raises:
        ValueError: a number of workers outside [1, 65536], or a step that submits nothing.
        RuntimeError: inside of another estimate. Exceptions of `step` go on.
    """
    counts = _counts_of(workers)
    modes.run()  # what was recorded before is not the step's
    _c.call("nntile_estimate_begin")
    try:
        result = step()
        modes.run()
        del result  # what nobody holds does not run in graph mode
    except BaseException:
        _c.try_call("nntile_estimate_end", _c.ffi.NULL)
        raise
    slot = _c.new("nntile_estimate **")
    _c.call("nntile_estimate_end", slot)
    noted = _c.ffi.gc(slot[0], _c.function("nntile_estimate_destroy"))
    context.wait()  # an error of a task is raised here
    report = _c.new_struct("nntile_estimate_report")
    seconds_on = {}
    for count in counts:
        _c.call("nntile_estimate_play", noted, count, report)
        seconds_on[count] = report.seconds
    return Estimate(
        workers=count,
        seconds=report.seconds,
        idle=_idle(report.work_seconds, report.seconds, count),
        tasks=report.tasks,
        work_seconds=report.work_seconds,
        critical_seconds=report.critical_seconds,
        seconds_on=MappingProxyType(seconds_on),
    )


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
