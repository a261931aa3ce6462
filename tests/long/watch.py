# SPDX-License-Identifier: BSD-3-Clause
"""What a long process holds, measured in tenths: one printed line each, and a check of flatness.

    watch = Watch("two models", steps=200)
    for step in range(200):
        ...
        watch.step()
    watch.assert_flat()

A script of this folder runs in a process of its own: `PYTHONPATH=tests python test_x.py`, or by pytest
through `passes(__file__)`.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch

MIB = 1 << 20


@dataclass(frozen=True)
class Sample:
    """The state at the end of a tenth. Per step of it: ms, CPU time (of the best step), faults."""

    step: int
    ms: float
    cpu_ms: float  # of all threads; of the best step, because neighbours only make it longer
    faults: float
    rss: int
    threads: int
    plans: int
    lowerings: int
    tiles: int
    reserved: int
    in_use: int
    peak: int

    def __str__(self) -> str:
        return (
            f"step {self.step:6d}: {self.ms:8.2f} ms {self.cpu_ms:8.2f} ms of CPU "
            f"{self.faults:7.1f} faults a step | rss {self.rss / MIB:.0f} MiB, "
            f"tiles {self.tiles} of {self.reserved / MIB:.1f} MiB, in use "
            f"{self.in_use / MIB:.1f}, peak {self.peak / MIB:.1f} | threads {self.threads} "
            f"plans {self.plans} lowerings {self.lowerings}"
        )


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    """A thread that has been joined may still be seen for a moment."""
    seen = []
    for _ in range(4):
        seen.append(len(list(Path("/proc/self/task").iterdir())))
        time.sleep(0.005)
    return min(seen)


class Watch:
    """Counts steps and keeps one sample for each tenth of them."""

    def __init__(self, name: str, steps: int) -> None:
        torch.set_num_threads(1)  # the CPU's threads spin: their time says nothing
        self.name, self.steps = name, steps
        self.samples: list[Sample] = []
        self._done = 0
        self._begin()
        print(f"{name}: {steps} steps", flush=True)

    def _begin(self) -> None:
        self._first, self._time = self._done, time.perf_counter()
        self._cpu, self._best = time.process_time(), float("inf")
        self._faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def step(self) -> None:
        """Call it after each step, with nothing of the step still pending that matters."""
        self._done += 1
        cpu = time.process_time()
        self._cpu, self._best = cpu, min(self._best, cpu - self._cpu)
        if self._done * 10 // self.steps > len(self.samples):
            self.samples.append(self._sample())
            print(self.samples[-1], flush=True)
            self._begin()

    def _sample(self) -> Sample:
        steps = self._done - self._first
        stats = torch.nntile.memory_stats()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - self._faults
        return Sample(
            step=self._done,
            ms=(time.perf_counter() - self._time) / steps * 1e3,
            cpu_ms=self._best * 1e3,
            faults=faults / steps,
            rss=resident(),
            threads=threads(),
            plans=stats["plans"],
            lowerings=stats["lowerings"],
            tiles=stats["tiles"],
            reserved=stats["tile_bytes"],
            in_use=stats["tile_bytes"] - stats["pool_bytes"],
            peak=stats["peak_bytes"],
        )

    def assert_flat(
        self,
        rss: float = 1.1,
        slack: int = 48 * MIB,
        plans: bool = True,
        lowerings: bool = True,
        slower: float = 1.5,
    ) -> None:
        """Nothing grows after the first tenth.

        Resident memory, tiles' memory: by no more than the factor `rss` and `slack` bytes. Threads,
        plans and lowerings: not at all; without `plans` or `lowerings`, shapes that are new all the
        time may have plans of their own. CPU time of the best step: nowhere more than `slower` of
        the median.
        """
        first, later = self.samples[0], self.samples[1:]
        assert len(later) == 9, f"{self.name}: {len(self.samples)} tenths"
        median = statistics.median(s.cpu_ms for s in later)
        for s in later:
            assert s.rss <= rss * first.rss + slack, f"{self.name}: resident memory grows: {s}"
            assert s.reserved <= rss * first.reserved + slack, f"{self.name}: tiles grow: {s}"
            assert s.threads <= first.threads, f"{self.name}: threads grow: {s}"
            assert not plans or s.plans <= first.plans, f"{self.name}: plans grow: {s}"
            assert not lowerings or s.lowerings <= first.lowerings, f"{self.name}: lowers: {s}"
            assert s.cpu_ms <= slower * median + 0.5, f"{self.name}: slower than {median:.2f}: {s}"


def passes(script: str, *arguments: str, timeout: float = 900) -> None:
    """Runs a script of this folder, prints what it prints, and fails with it."""
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, script, *arguments],
        env={**os.environ, "PYTHONPATH": tests},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, (
        f"exit code {done.returncode}\n{done.stdout}\n{done.stderr[-4000:]}"
    )
