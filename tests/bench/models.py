# SPDX-License-Identifier: BSD-3-Clause
"""Training steps of models that people have, in one Markdown table.

    .venv/bin/python tests/bench/models.py resnet18 gpt2 --settings cpu,eager,eager-off,eager-b2

A setting is a device or mode, and what differs from its defaults:

    cpu, eager, graph   PyTorch's CPU, or torch_nntile with automatic cuts; two threads or workers
    cuda                PyTorch's GPU
    captured            torch_nntile in eager mode, the step replayed
    -fused              the optimizer with fused=True
    -compiled           torch.compile: Inductor on the CPU, backend="nntile" on the device
    -autocast           the forward pass under autocast to bfloat16
    -bfloat16           model, optimizer and data in bfloat16; models of sized_models.py
    -off                automatic cuts switched off: everything is whole
    -unfused            fusion switched off
    -b4                 off, and the batch cut by hand in 4
    -w1                 one worker, or one thread of PyTorch
    -g1                 a worker for a GPU beside those of the cores
    -n4                 four different batches in turn, instead of one that is always the same

Each is a process of its own; they step in turn. Losses of the first steps must be those of CPU
PyTorch in the same precision.
`ms` is the median of blocks of steps, `ratio` is to the first setting. Of a step after the first:
`tasks`, whether each had as many (`steady`), how many graphs were lowered and how many plans were
`new`, calls that PyTorch's CPU kernels did on the `host`, and page `faults`. `MiB` is the most
resident memory of the process, `gpu` how many tasks of a step ran on GPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # run as a file, it finds its neighbours itself
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench import timing, works
from bench.sized_models import MODELS

KINDS: dict[str, dict[str, Any]] = {
    "cpu": {"device": "cpu"},
    "cuda": {"device": "cuda"},
    "eager": {"mode": "eager"},
    "graph": {"mode": "graph"},
    "captured": {"mode": "eager", "captured": 1},
}
STEPS = {"deeprelu": 1, "mnist5": 200, "wide": 8}  # of a block; the others are in sized_models.py
SETTINGS = "cpu,eager,graph,eager-off,graph-off"
FIRST = 3  # steps that are checked, and that plans may need to settle, of each batch
# The first loss is that of one forward pass; then two correct programs part, by rounding that AdamW
# makes steps of: relative differences.
TOLERANCES = (1e-4, 1e-2, 2e-2)
COARSE = (1e-2, 5e-2, 2e-1)  # in bfloat16, which has eight bits
SMALL = 0.05  # a loss below is that of a batch learned by heart


def options_of(work: str, setting: str) -> dict[str, Any]:
    """What works.Process needs for "eager-b2" and the like."""
    kind, *changes = setting.split("-")
    if kind not in KINDS:
        raise ValueError(f"setting {setting!r}: begins with {', '.join(KINDS)}")
    options: dict[str, Any] = {"work": work, **KINDS[kind]}
    ours = "device" not in options
    environment: dict[str, str] = {}
    for change in changes:
        number = int(change[1:]) if change[1:].isdecimal() else 0
        if change[:1] == "w" and number:
            options["ncpu"] = number
        elif change[:1] == "n" and number:
            options["batches"] = number
        elif ours and change[:1] == "g" and number:
            environment |= {"STARPU_NCUDA": str(number)}
        elif change in ("fused", "compiled", "autocast") or (
            change == "bfloat16" and work in MODELS
        ):
            options[change] = 1
        elif ours and change == "off":
            environment |= {"NNTILE_AUTOMATIC_CUTS": "0"}
        elif ours and change == "unfused":
            environment |= {"NNTILE_FUSE": "0"}
        elif ours and change[:1] == "b" and number and work in MODELS:
            environment |= {"NNTILE_AUTOMATIC_CUTS": "0"}
            options["tile"] = -(-MODELS[work].batch // number)
        else:
            raise ValueError(f"setting {setting!r}: nothing is called {change!r}")
    return options | ({"environment": environment} if environment else {})


@dataclass(slots=True)
class Setting:
    """A process, and what its blocks of steps gave."""

    process: works.Process
    batches: int = 1
    coarse: bool = False  # computes in bfloat16
    milliseconds: list[float] = field(default_factory=list)  # of a step, a block each
    settled: dict[str, int] = field(default_factory=dict)  # counted in the last of the first steps
    counted: list[tuple[int, dict[str, int]]] = field(default_factory=list)  # since: steps, counts

    def begin(self) -> None:
        """The first steps, FIRST of each batch; they are not timed."""
        for _ in range(FIRST * self.batches):
            self.process.steps(1)
        self.settled = self.process.counted

    def block(self, steps: int) -> float:
        """Milliseconds of a step, from `steps` of them."""
        found = self.process.steps(steps) * 1e3
        self.counted.append((steps, self.process.counted))
        return found

    @property
    def ms(self) -> float:
        return statistics.median(self.milliseconds)

    def a_step(self, counter: str) -> float:
        """Mean count of a step, the first ones left out."""
        steps = sum(count for count, _ in self.counted)
        return sum(counted[counter] for _, counted in self.counted) / steps

    @property
    def steady(self) -> bool:
        """Whether each block had as many tasks a step as the last of the first steps."""
        tasks = self.settled["tasks"]
        return all(counted["tasks"] == steps * tasks for steps, counted in self.counted)


def check_losses(work: str, found: Mapping[str, Setting]) -> None:
    """A wrong program is no fast program.

    Raises:
        AssertionError: one of the first losses is not that of CPU PyTorch with as many batches.
    """
    for name, setting in found.items():
        twins = (
            s
            for n, s in found.items()
            if n.startswith("cpu") and (s.batches, s.coarse) == (setting.batches, setting.coarse)
        )
        twin = next(twins, None)
        tolerances = COARSE if setting.coarse else TOLERANCES
        if twin is None:
            continue
        want, losses = (s.process.losses[:FIRST] for s in (twin, setting))
        for loss, right, tolerance in zip(losses, want, tolerances, strict=True):
            assert abs(loss - right) <= tolerance * max(abs(right), SMALL), (
                f"{work}, {name}: losses {losses}, and on the CPU {want}"
            )


@contextlib.contextmanager
def settings(work: str, names: Iterable[str]) -> Iterator[dict[str, Setting]]:
    """A process for each, its first steps made and checked."""
    options = {name: options_of(work, name) for name in names}
    with works.processes(**options) as processes:
        found = {
            name: Setting(
                process,
                options[name].get("batches", 1),
                bool({"autocast", "bfloat16"} & options[name].keys()),
            )
            for name, process in processes.items()
        }
        for setting in found.values():
            setting.begin()
        check_losses(work, found)
        yield found


def time_blocks(work: str, found: Mapping[str, Setting], rounds: int) -> None:
    """Blocks of steps in turn; the first of each is not kept."""
    steps = MODELS[work].steps if work in MODELS else STEPS[work]
    for setting in found.values():
        setting.block(steps)
    runs = {name: lambda s=setting: s.block(steps) for name, setting in found.items()}
    for name, times in timing.interleaved(runs, rounds).items():
        found[name].milliseconds += times


HEAD = ("model", "setting", "ms", "least", "ratio")
HEAD += ("tasks", "gpu", "steady", "lower", "new", "host", "faults", "MiB", "loss 3")
WIDTHS = (11, 17, 6, 6, 5, 6, 6, 6, 5, 5, 5, 6, 5, 8)


def line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(str.ljust, cells, WIDTHS)) + " |"


def lines(work: str, found: Mapping[str, Setting]) -> Iterator[str]:
    """Rows of the table; `ratio` is to the first setting."""
    first = next(iter(found.values()))
    for name, setting in found.items():
        ms = (
            f"{setting.ms:.1f}",
            f"{min(setting.milliseconds):.1f}",
            f"{setting.ms / first.ms:.2f}",
        )
        counts = [""] * 6
        if "tasks" in setting.settled:
            means = (f"{setting.a_step(c):.3g}" for c in ("lowerings", "plans", "fallbacks"))
            tasks = str(setting.settled["tasks"]), f"{setting.a_step('device_tasks'):.3g}"
            counts = [*tasks, "yes" if setting.steady else "NO", *means]
        faults = f"{setting.a_step('faults'):.3g}"
        resident = f"{setting.process.resident / 2**20:.0f}"
        loss = f"{setting.process.losses[FIRST - 1]:.4g}"
        yield line((work, name, *ms, *counts, faults, resident, loss))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", metavar="MODEL", help=f"{', '.join(works.WORKS)}; all")
    parser.add_argument("--settings", default=SETTINGS, help=f"default {SETTINGS}")
    parser.add_argument("--rounds", type=int, default=5, help="timed blocks of each; default 5")
    options = parser.parse_args()
    names = options.settings.split(",")
    chosen = options.works or list(MODELS)
    try:
        for work in chosen:
            if work not in works.WORKS:
                raise ValueError(f"no model is called {work!r}: {', '.join(works.WORKS)}")
            for name in names:
                options_of(work, name)
    except ValueError as error:
        parser.error(str(error))
    print(f"{timing.cpu_model()}, load {os.getloadavg()[0]:.1f} at the start\n\n{line(HEAD)}")
    print(line("-" * width for width in WIDTHS), flush=True)
    for work in chosen:
        with settings(work, names) as found:
            time_blocks(work, found, options.rounds)
            print("\n".join(lines(work, found)), flush=True)


if __name__ == "__main__":
    main()
