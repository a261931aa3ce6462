# SPDX-License-Identifier: BSD-3-Clause
"""Steps within a budget of memory, beside the same in unlimited memory and the disk's own speed.

    .venv/bin/python tests/bench/budgets.py FOLDER [MODEL …] --parts 2,4 --swap

FOLDER is on the disk to be used. A budget is the peak of a step without one, divided by each of
`--parts`. Blocks of steps take turns. `bytes` is how long the disk alone needs for what a step moves:
four threads, pieces of 1 MiB with O_DIRECT, as many read as written, measured in each round. `faults`
are page faults of a step. With `--swap`, as root of a machine that has swap and control groups of
memory: CPU PyTorch in a group that may take the budget above what it takes before it has a model.
"""

from __future__ import annotations

import argparse
import contextlib
import mmap
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__":  # run as a file, it finds its neighbours itself
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import models, timing, works

MIB = 2**20
PIECE, PIECES, THREADS = MIB, 256, 4
GROUPS = Path("/sys/fs/cgroup/memory")
KILLED = float("inf")


def disk_speed(folder: Path) -> float:
    """Bytes a second, half of them read, half written."""
    file = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
    try:
        os.posix_fallocate(file, 0, PIECE * PIECES)

        def move(first: int, read: bool) -> None:
            with mmap.mmap(-1, PIECE) as piece:
                piece.write(b"x" * PIECE)
                for at in range(first, PIECES, THREADS):
                    call = os.preadv if read and at % (2 * THREADS) >= THREADS else os.pwritev
                    call(file, [piece], at * PIECE)

        for read in (False, True):  # the first round only makes the file's blocks
            start = time.perf_counter()
            threads = [threading.Thread(target=move, args=(k, read)) for k in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return PIECE * PIECES / (time.perf_counter() - start)
    finally:
        os.close(file)


@contextlib.contextmanager
def group(limit: int) -> Iterator[Callable[[], None]]:
    """A control group that may have so many bytes of memory, and any of swap.

    Yields:
        What a process calls to be in it.
    """
    folder = GROUPS / f"budget-{os.getpid()}-{limit}"
    folder.mkdir()
    try:
        (folder / "memory.limit_in_bytes").write_text(str(limit))
        yield lambda: (folder / "cgroup.procs").write_text(str(os.getpid())) and None
    finally:
        folder.rmdir()


@dataclass(slots=True)
class Found:
    """Of a step: medians of blocks."""

    peak: int  # bytes in unlimited memory
    free: float  # ms
    ms: float
    read: float  # bytes
    written: float
    disk: float  # ms that they take
    faults: float
    same: bool  # losses
    swapped: float | None = None  # ms of CPU PyTorch; KILLED: the system ended it

    @property
    def goal(self) -> float:
        """Of `ms`, by the disk."""
        return 1.2 * self.disk


def peak_of(work: str) -> int:
    """Bytes, after the first steps."""
    with works.processes(one=models.options_of(work, "eager")) as found:
        found["one"].steps(models.FIRST)
        return found["one"].peak


def swapped(work: str, budget: int, steps: int, rounds: int) -> float:
    """Milliseconds of a step of CPU PyTorch in a budget; KILLED if the system ends it."""
    with works.processes(idle=models.options_of("mnist5", "cpu")) as found:
        found["idle"].steps(1)
        idle = found["idle"].peak
    with group(idle + budget) as join:
        process = works.Process(**models.options_of(work, "cpu"), before=join)
        try:
            process.steps(1)
            return statistics.median(process.steps(steps) for _ in range(rounds)) * 1e3
        except AssertionError:
            return KILLED
        finally:
            process.close()


def measured(
    work: str, part: int, folder: Path, *, rounds: int, swap: bool = False, mode: str = "eager"
) -> Found:
    options = models.options_of(work, mode)
    peak = peak_of(work)
    budget = peak // part
    limits = {"NNTILE_MEMORY": str(budget), "NNTILE_SWAP": str(folder)}
    steps = max(
        1, (models.MODELS[work].steps if work in models.MODELS else models.STEPS[work]) // 2
    )
    with works.processes(free=options, small=options | {"environment": limits}) as found:
        for process in found.values():
            for _ in range(models.FIRST + 3):
                process.steps(1)
        counts: list[dict[str, int]] = []

        def small() -> float:
            seconds = found["small"].steps(steps)
            counts.append(found["small"].counted)
            return seconds

        runs = {
            "free": lambda: found["free"].steps(steps),
            "small": small,
            "disk": lambda: disk_speed(folder),
        }
        medians = timing.medians(runs, rounds)
        a_step = {
            name: statistics.mean(count[name] for count in counts) / steps
            for name in ("read_bytes", "written_bytes", "faults")
        }
        same = found["free"].losses == found["small"].losses
    read, written = a_step["read_bytes"], a_step["written_bytes"]
    return Found(
        peak=peak,
        free=medians["free"] * 1e3,
        ms=medians["small"] * 1e3,
        read=read,
        written=written,
        disk=(read + written) / medians["disk"] * 1e3,
        faults=a_step["faults"],
        same=same,
        swapped=swapped(work, budget, 1, min(rounds, 3)) if swap else None,
    )


HEAD = ("model", "MiB", "budget", "ms free", "ms", "ratio", "MB read", "written", "bytes ms")
HEAD += ("ratio", "faults", "same losses", "ms swapped PyTorch")


def cells(work: str, part: int, found: Found) -> Iterator[str]:
    yield from (work, f"{found.peak / MIB:.0f}", f"1/{part}", f"{found.free:.0f}")
    yield from (f"{found.ms:.0f}", f"{found.ms / found.free:.2f}")
    yield from (f"{found.read / 1e6:.0f}", f"{found.written / 1e6:.0f}", f"{found.disk:.0f}")
    yield from (f"{found.ms / found.disk:.2f}" if found.disk else "", f"{found.faults:.0f}")
    yield "yes" if found.same else "no"
    if found.swapped is not None:
        yield "killed" if found.swapped == KILLED else f"{found.swapped:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("works", nargs="*", metavar="MODEL", default=["wide"])
    parser.add_argument("--parts", default="2,4")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--mode", default="eager", help="eager, graph, captured")
    parser.add_argument("--swap", action="store_true")
    options = parser.parse_args()
    head = HEAD if options.swap else HEAD[:-1]
    print(f"{timing.cpu_model()}, load {os.getloadavg()[0]:.1f} at the start", end=", ")
    print(f"disk {disk_speed(options.folder) / 1e6:.0f} MB/s\n")
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for work in options.works:
        for part in map(int, options.parts.split(",")):
            found = measured(
                work,
                part,
                options.folder,
                rounds=options.rounds,
                swap=options.swap,
                mode=options.mode,
            )
            print(f"| {' | '.join(cells(work, part, found))} |", flush=True)


if __name__ == "__main__":
    main()
