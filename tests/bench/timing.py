# SPDX-License-Identifier: BSD-3-Clause
"""Times that can be compared: interleaved runs, medians, and a table of them with their goals."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
THREADS = 2
# A thread pool spins for some milliseconds after its last work: let it, before another is timed.
SETTLE = 0.01


def repeats(count: int) -> int:
    """How often to repeat: `count`, scaled by NNTILE_BENCH_REPEAT (0.1 for a quick look)."""
    return max(1, round(count * float(os.environ.get("NNTILE_BENCH_REPEAT", "1"))))


def interleaved(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """What each run returned, round by round; all take part in a round, in changing order.

    A machine that slows down for a while so slows all of them.
    """
    results: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            time.sleep(SETTLE)
            results[name].append(runs[name]())
    return results


def medians(runs: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """Median of each run, interleaved."""
    return {name: statistics.median(found) for name, found in interleaved(runs, rounds).items()}


def loop(
    call: Callable[[], object], number: int, after: Callable[[], object] | None = None
) -> Callable[[], float]:
    """A run that gives the microseconds of a call, from `number` of them; `after` is not timed."""

    def run() -> float:
        start = time.perf_counter()
        for _ in range(number):
            call()
        seconds = time.perf_counter() - start
        if after is not None:
            after()
        return seconds / number * 1e6

    return run


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of a row: of its ratio, or of our value itself."""

    bound: float
    of_ratio: bool = False
    at_least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}{'x' if self.of_ratio else ''}"


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table. `theirs` is the same work done by `against`, in the same unit."""

    name: str
    unit: str
    ours: float
    theirs: float | None = None
    against: str = "PyTorch"
    goal: Goal | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.theirs is None else self.ours / self.theirs

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        value = self.ratio if self.goal.of_ratio else self.ours
        assert value is not None, f"{self.name}: a goal of a ratio, and nothing to compare with"
        return self.goal.met(value)

    def cells(self) -> tuple[str, ...]:
        compared = self.theirs is not None
        return (
            self.name,
            f"{self.ours:.3g} {self.unit}" if self.ours < 100 else f"{self.ours:.0f} {self.unit}",
            f"{self.theirs:.3g}"
            if compared and self.theirs < 100
            else f"{self.theirs:.0f}"
            if compared
            else "",
            self.against if compared else "",
            f"{self.ratio:.2f}" if compared else "",
            "" if self.goal is None else str(self.goal),
            {None: "", True: "yes", False: "NO"}[self.met],
        )


HEAD = ("name", "ours", "other", "which is", "ratio", "goal", "met")


def table(rows: Iterable[Row]) -> str:
    """The rows as a Markdown table that can be read as it is."""
    lines = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[k]) for line in lines) for k in range(len(HEAD))]
    text = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
            for line in lines]  # fmt: skip
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def cpu_model() -> str:
    """ "Intel(R) Xeon(R) Processor", or what the platform says where it has no /proc/cpuinfo."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


def machine() -> dict[str, object]:
    """What the numbers depend on."""
    import torch

    import torch_nntile

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "threads": THREADS,
        "repeat": os.environ.get("NNTILE_BENCH_REPEAT", "1"),
        "torch": torch.__version__,
        "config": torch_nntile.show_config("dicts"),
    }


def write_json(rows: Iterable[Row]) -> Path:
    """Write rows and machine to NNTILE_BENCH_OUTPUT, default runs/bench/bench.json."""
    path = Path(os.environ.get("NNTILE_BENCH_OUTPUT", ROOT / "runs" / "bench" / "bench.json"))
    path.parent.mkdir(parents=True, exist_ok=True)
    entries = [{**asdict(row), "ratio": row.ratio, "met": row.met} for row in rows]
    path.write_text(json.dumps({"machine": machine(), "rows": entries}, indent=1) + "\n")
    return path
