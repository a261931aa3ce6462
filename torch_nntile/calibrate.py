# SPDX-License-Identifier: BSD-3-Clause
"""Measure the constants of the cost module on this machine: `python -m torch_nntile.calibrate`.

It runs the device's own kernels on one worker and takes the fastest of many short runs, so that the
load of other programs does little harm. It prints the constants next to the defaults, and writes a
file for NNTILE_COST or `load_cost`. With --gpu, the worker is a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from torch_nntile import axes, context, cost, modes
from torch_nntile.explain import explain
from torch_nntile.show_config import config

__all__ = ["calibrate", "fit", "main", "parse", "write"]

Work = Callable[[], object]  # records ops in graph mode and returns what must be computed

RUNS = 5  # at least, of each measurement
BATCH = 1e-3  # seconds of a run, about: longer ones are interrupted more often
_names = itertools.count()


@dataclass(frozen=True)
class Worker:
    """What is measured, and how much work it takes to see its rates."""

    gpus: int = 0
    side: int = 1  # products are so many times as large along each dim
    elements: int = 1  # and other operands have so many times the elements
    flops: float = 1e11  # a second, about


CORE = Worker()
GPU = Worker(gpus=1, side=8, elements=8, flops=5e13)


def fastest(work: Work, seconds: float) -> float:
    """Seconds from the submission of what `work` records until its last task has ended.

    The least of many runs, at least `RUNS`, in about `seconds`. Lowering and recording do not count.
    """
    best, end = math.inf, time.perf_counter() + seconds
    for turn in itertools.count():
        if turn > RUNS and time.perf_counter() > end:
            return best
        kept = work()
        modes.compile_graph()
        start = time.perf_counter()
        modes.run_graph()
        context.wait()
        if turn > 0:  # the first one has tiles to make
            best = min(best, time.perf_counter() - start)
        del kept
    raise AssertionError


def whole(*sizes: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Random numbers on the device whose dims nothing cuts."""
    return cut(torch.randn(sizes).to(dtype), sizes)


def cut(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """`x` on the device, in tiles of `sizes`."""
    x = x.to("nntile")
    for dim, size in enumerate(sizes):
        name = f"calibrated_{next(_names)}"
        axes.set_axis_group_name(x, {dim: name})
        axes.set_axis_group_tiling(name, size)
    return x


def of_each(call: Work, count: int, seconds: float) -> float:
    """Seconds of one of `count` equal calls of one task each, with its price."""
    before, ran = modes.stats(), [0]

    def work() -> object:
        ran[0] += count
        return [call() for _ in range(count)]

    best = fastest(work, seconds) / count
    tasks = modes.stats().tasks - before.tasks
    if tasks > 1.01 * ran[0] + 4:
        raise RuntimeError(f"calibrate: {tasks} tasks where {ran[0]} were expected")
    return best


def fit(points: Sequence[tuple[float, float, float]]) -> tuple[float, float]:
    """Least squares of relative errors: x, y > 0 with a x + b y near t, for points (a, b, t)."""
    aa = ab = bb = at = bt = 0.0
    for a, b, t in points:
        a, b = a / t, b / t
        aa, ab, bb, at, bt = aa + a * a, ab + a * b, bb + b * b, at + a, bt + b
    determinant = aa * bb - ab * ab
    x = (at * bb - bt * ab) / determinant if determinant > 1e-12 * aa * bb else at / aa
    y = (bt - ab * x) / bb
    if x <= 0:
        return at / aa * 1e-3, bt / bb
    return (x, y) if y > 0 else (at / aa, bt / bb * 1e-3)


def price_of_a_task(seconds: float) -> float:
    """Of tiny tasks: the mean of a chain, where a worker goes on, and of independent ones."""
    small, rows = whole(8, 8), cut(torch.ones(1000, 8), (1, 8))

    def chain() -> Tensor:
        y = small
        for _ in range(500):
            y = y @ small
        return y

    return (fastest(chain, seconds) / 500 + fastest(lambda: rows + 1, seconds) / 1000) / 2


# Hot and cold: one second operand for all, or as many as no cache holds.
PRODUCTS = (
    (128, 128, 128, True),
    (256, 256, 256, True),
    (512, 512, 512, True),
    (128, 1024, 1024, True),
    (64, 1024, 256, False),
    (256, 256, 256, False),
    (8, 1024, 256, False),
    (1, 1024, 1024, False),
)
COLD_BYTES = 64 << 20


def products(
    worker: Worker, dtype: torch.dtype, task: float, seconds: float
) -> list[tuple[float, float, float]]:
    """(flop, bytes, seconds without the price of a task) of products, as Cost::product sees them."""
    points = []
    for *sides, hot in PRODUCTS:
        m, n, k = (side * worker.side if side > 1 else 1 for side in sides)
        size = dtype.itemsize
        copies = 1 if hot else max(1, COLD_BYTES * worker.elements // (k * n * size))
        a = whole(m, k, dtype=dtype)
        b = itertools.cycle([whole(k, n, dtype=dtype) for _ in range(copies)])
        count = max(1, round(BATCH * worker.flops / (2 * m * n * k + 5 * k * n)))
        count = copies if not hot and copies < 2 * count else count  # one plan, any order
        taken = of_each(lambda a=a, b=b: a @ next(b), count, seconds)  # type: ignore[misc]
        moved = size * (m * k + k * n + 2 * m * n)
        points.append((2.0 * m * n * k, float(moved), max(taken - task, 0.05 * taken)))
    return points


def rate(worker: Worker, call: Work, amount: float, task: float, seconds: float) -> float:
    """Of calls of one task each that do `amount`: that a second."""
    taken = of_each(call, max(1, min(256, round(BATCH * worker.flops / amount))), seconds)
    return amount / max(taken - task, 0.05 * taken)


def passes(worker: Worker, task: float, seconds: float) -> dict[str, float]:
    """Rates of tasks whose data is in a cache, and is not, and where the border is."""
    large = whole((12 << 20) * worker.elements)
    memory = rate(worker, lambda: large + 1, 8 * large.numel(), task, seconds)
    rates = {}
    for power in range(17, 25):
        size = worker.elements << power  # bytes that a sum reads again and again
        x = whole(size // 4096, 1024)
        rates[size] = rate(worker, lambda x=x: x.sum(1), size, task, seconds / 4)  # type: ignore[misc]
    cache = max(memory, *rates.values())
    middle = math.sqrt(cache * memory)
    border = max((size for size in rates if rates[size] >= middle), default=min(rates))
    return {"cache_bytes": cache, "memory_bytes": memory, "cache_size": float(border)}


def functions(worker: Worker, task: float, seconds: float) -> float:
    """flop/s, as the rows count them, of functions that are slower than their bytes."""
    found = []
    for function in (torch.exp, torch.tanh, torch.nn.functional.gelu, torch.special.erf):
        x = whole(40_000 * worker.elements**3 + next(_names))
        call = partial(function, x)
        kept = call()
        modes.run_graph()  # a new shape, so the last lowering is this one
        flops = sum(float(f) for f in re.findall(r" flops (\S+) bytes ", explain("tiles")))
        del kept
        found.append(rate(worker, call, flops, task, seconds))
    return math.exp(sum(map(math.log, found)) / len(found))


def host(task: float, seconds: float) -> float:
    """byte/s of functions that PyTorch's kernels compute, those of weight 1."""
    x, y = whole(500_000), whole(500_000)
    found = [
        rate(CORE, call, 3.0 * 4 * 500_000, task, seconds)
        for call in (
            lambda: torch.copysign(x, y),
            lambda: torch.heaviside(x, y),
            lambda: torch.hypot(x, y),
        )
    ]
    return math.exp(sum(map(math.log, found)) / len(found))


def spread(task: float, seconds: float) -> float:
    """What a fork costs: levels of two equal tasks and a join, on one worker and on two."""
    levels = 100

    def level_seconds(workers: int) -> float:
        _restart(CORE, workers)
        x, w = cut(torch.eye(64), (32, 64)), whole(64, 64) * 1e-3

        def work() -> Tensor:
            y = w
            for _ in range(levels):
                z = x @ y  # two tasks
                y = x.t() @ z  # two parts of a sum, and its end
            return y

        return fastest(work, seconds) / levels

    one, two = level_seconds(1), level_seconds(2)
    return max(0.1e-6, (two - (one - task) / 2 - task) / 2)


def _restart(worker: Worker, cores: int) -> None:
    context.shutdown_context()
    context.init_context(ncpu=cores, ncuda=worker.gpus, runtime_mode="graph")


def calibrate(seconds: float = 30.0, worker: Worker = CORE) -> dict[str, float]:
    """The constants of this machine, by name, in about `seconds`: those of a core, or of a GPU.

    It starts runtimes of its own: a running one is shut down, and its tensors lose their data.
    """
    context.shutdown_context()
    mode = modes.runtime_mode()
    share = seconds / 60
    try:
        _restart(worker, 1)
        task = price_of_a_task(2 * share)
        found = {"task_seconds": task}
        single = products(worker, torch.float32, task, share)
        flops, moved = fit(single)
        found["product_flops"], found["product_bytes"] = 1 / flops, 1 / moved
        for name, dtype in (("_f64", torch.float64), ("_16", torch.bfloat16)):
            rest = [(a, b, t) for a, b, t in products(worker, dtype, task, share / 2) if a > 1e7]
            spare = [(a, max(t - b * moved, 0.1 * t)) for a, b, t in rest]
            found["product_flops" + name] = len(spare) / sum(t / a for a, t in spare)
        found["functions"] = functions(worker, task, share)
        found |= passes(worker, task, share)
        if worker.gpus:  # a function of the host is a core's
            found["workers"] = float(worker.gpus)
            return found
        found["host_bytes"] = host(task, share)
        if (os.cpu_count() or 1) > 1:
            found["spread_seconds"] = spread(task, 2 * share)
        found["workers"] = float(len(os.sched_getaffinity(0)))
        return found
    finally:
        context.shutdown_context()
        modes.set_mode(modes.number_of(mode))


def parse(text: str) -> dict[str, float]:
    """Constants of a cost file, in its order."""
    lines = [line.split("#")[0].partition("=") for line in text.splitlines()]
    return {name.strip(): float(value) for name, _, value in lines if value.strip()}


def write(found: dict[str, float], file: Path) -> None:
    """Write a cost file; never a torn one."""
    head = [f"# {key}: {value}" for key, value in config().items() if key != "context"]
    lines = [f"{name} = {value:.4g}" for name, value in found.items()]
    text = "\n".join(["# python -m torch_nntile.calibrate", *head, *lines]) + "\n"
    draft = file.with_name(file.name + ".tmp")
    draft.write_text(text, encoding="utf-8")
    draft.replace(file)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m torch_nntile.calibrate", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--output", type=Path, help="write this cost file (default: only print)")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="about how long to measure (30)"
    )
    parser.add_argument("--gpu", action="store_true", help="measure a GPU instead of a core")
    given = parser.parse_args(arguments)
    if not given.seconds > 0:
        parser.error(f"--seconds must be > 0, got {given.seconds}")
    if given.output and not given.output.absolute().parent.is_dir():
        parser.error(f"--output: no folder {given.output.absolute().parent}")
    worker = GPU if given.gpu else CORE
    cost.load_cost(None)
    try:
        _restart(worker, 1)
    except RuntimeError as error:  # no such worker here
        parser.error(str(error))
    before = cost.cost_text()
    defaults = parse(before)
    units = {line.split()[0]: line.partition("# ")[2] for line in before.splitlines()}
    found = calibrate(given.seconds, worker)
    print(f"{'constant':<18}{'here':>10}{'default':>10}  unit")
    for name, default in defaults.items():
        here = f"{found[name]:.3g}" if name in found else "-"
        print(f"{name:<18}{here:>10}{default:>10.3g}  {units[name]}")
    if given.output:
        write(found, given.output)
        print(f"{given.output}: written; NNTILE_COST={given.output} takes it", file=sys.stderr)


if __name__ == "__main__":
    main()
