# SPDX-License-Identifier: BSD-3-Clause
"""Times ops of training over layouts, batches, dtypes and cuts, beside CPU PyTorch, by parts.

    python tests/bench/sweep.py --ops softmax1,flip1 --layouts dense,transposed --batches 16
    python tests/bench/sweep.py                  # goes on with whatever is not measured yet: hours
    python tests/bench/sweep.py --report --write # the worst of what is there, into the page

Each number is the least of some blocks of calls. Blocks of both devices take turns in one process,
with the same number of threads; they keep their results, and end when these are there. Each block
follows one that is not timed: a core that slept while the other device was timed has lost its cache
(a call of 0.3 ms takes 0.5 ms then). What is measured is kept in runs/bench/sweep.tsv: a case that
stands there is measured again with --again only.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from bench import sweep_calls, timing
from bench.sweep_calls import OPS, Op
from torch import Tensor
from torch.utils import _pytree as pytree

import torch_nntile

KEPT = timing.ROOT / "runs" / "bench" / "sweep.tsv"
PAGE = timing.ROOT / "docs" / "develop" / "benchmarks.md"
BEGIN, END = "<!-- sweep -->", "<!-- /sweep -->"
SIZES = {"large": 2**20, "small": 2**14}
DTYPES = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
LAYOUTS = ("dense", "transposed", "permuted", "sliced", "strided", "channels_last", "expanded")
CUTS = ("none", "automatic", "ragged")
WAYS = ("forward", "backward", "cotangent")  # backward: of laid operands; cotangent: laid itself
FACTOR, EXTRA = 1.5, 0.1  # the goal: not above both, times and milliseconds
BLOCK_MS, MOST_CALLS = 2.0, 8


@dataclass(frozen=True)
class Case:
    op: str
    way: str
    layout: str
    batch: int
    dtype: str
    cut: str
    size: str


@dataclass(frozen=True)
class Result:
    case: Case
    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def above(self) -> bool:
        return self.ours > FACTOR * self.theirs and self.ours - self.theirs > EXTRA


def placed(x: Tensor, layout: str, device: str) -> Tensor | None:
    """The values of x in such a layout on a device; None: x cannot lie so."""
    order = list(range(x.dim()))
    if layout == "channels_last":
        return x.to(device, memory_format=torch.channels_last) if x.dim() == 4 else None
    if layout == "sliced":
        if x.dim() < 2:
            return None
        return torch.nn.functional.pad(x, (3, 5)).to(device)[..., 3:-5]
    if layout == "strided":
        return x.repeat_interleave(2, -1).to(device)[..., ::2] if x.dim() > 1 else None
    if layout == "expanded":
        if x.dim() < 2 or x.shape[0] == 1:
            return None
        return x[:1].to(device).expand(x.shape)
    if layout == "transposed":
        if x.dim() < 2:
            return None
        order[-2:] = order[:-3:-1]
    elif layout == "permuted":
        if x.dim() < 3:
            return None
        order = [*order[1:], 0]
    back = [order.index(k) for k in range(x.dim())]
    return x.permute(order).contiguous().to(device).permute(back)


def ragged(extent: int) -> list[int]:
    """Three sizes, no two of them alike where that can be."""
    first, second = extent // 2 + extent // 5, extent // 5
    return [n for n in (first, second, extent - first - second) if n]


names = itertools.count()


def cut(x: Tensor, how: str) -> None:
    """Cut the data of x: none: each dim whole; ragged: the first dim that has several elements."""
    if how == "automatic" or x.device.type == "cpu":
        return
    sizes: dict[int, Any] = {}
    if how == "none":
        sizes = dict.fromkeys(range(x.dim()), "whole")
    else:
        dim = next((d for d in range(x.dim()) if x.shape[d] > 1), None)
        if dim is not None:
            sizes = {dim: ragged(x.shape[dim])}
    for dim, parts in sizes.items():
        name = f"sweep{next(names)}"
        torch_nntile.set_axis_group_name(x, {dim: name})
        torch_nntile.set_axis_group_tiling(name, parts)


def runner(case: Case, op: Op, device: str) -> Callable[[], Any] | None:
    """A call of the case; None: there is no such case."""
    torch.manual_seed(0)
    sweep_calls.VALUES.manual_seed(0)
    if case.layout == "expanded" and case.op.endswith("_"):
        return None  # nothing can be written there
    inputs = list(op.make(case.batch, SIZES[case.size], DTYPES[case.dtype]))
    laid = "dense" if case.way == "cotangent" else case.layout
    if case.way != "forward" and not op.gradients:
        return None
    if not op.laid and case.layout != "dense":
        return None
    if case.way == "cotangent" and case.layout == "dense":
        return None  # the same as backward
    for k, x in enumerate(inputs):
        there = placed(x, laid, device) if k < op.laid else x.to(device)
        if there is None:
            return None
        inputs[k] = there
    if case.cut != "automatic" and op.laid:
        cut(inputs[0], case.cut)
    if case.way == "forward":
        return lambda: op.function(*inputs)
    leaves = [x.detach().requires_grad_() for x in inputs[: op.gradients]]
    results = op.function(*leaves, *inputs[op.gradients :])
    outputs = [x for x in pytree.tree_leaves(results) if isinstance(x, Tensor) and x.requires_grad]
    if not outputs:
        return None
    cotangents = []
    for y in outputs:
        values = sweep_calls.positive(y.shape, y.dtype)
        there = placed(values, case.layout if case.way == "cotangent" else "dense", device)
        if there is None:
            return None
        cotangents.append(there)
    return lambda: torch.autograd.grad(outputs, leaves, cotangents, retain_graph=True)


clock = time.perf_counter  # or of all threads of the process, where others keep the machine busy


def block(run: Callable[[], Any], calls: int, end: Callable[[], None]) -> float:
    """Milliseconds of a call, of so many whose results are kept."""
    kept = []
    start = clock()
    for _ in range(calls):
        kept.append(run())
    end()
    return (clock() - start) / calls * 1e3


def measure(case: Case, rounds: int) -> Result | None:
    op = OPS[case.op]
    theirs, ours = runner(case, op, "cpu"), runner(case, op, "nntile")
    if theirs is None or ours is None:
        return None
    nothing = lambda: None  # noqa: E731
    for _ in range(3):
        block(ours, 1, torch_nntile.wait)
    block(theirs, 1, nothing)
    calls = max(1, min(MOST_CALLS, int(BLOCK_MS / block(theirs, 1, nothing))))
    block(ours, calls, torch_nntile.wait)
    found: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            run, end = ((ours, torch_nntile.wait), (theirs, nothing))[which]
            block(run, calls, end)
            found[which].append(block(run, calls, end))
    # The kernel adds to the time of other threads by ticks, so that the least would be too small.
    of_blocks = min if clock is time.perf_counter else statistics.mean
    return Result(case, *map(of_blocks, found))


def cases(options: argparse.Namespace) -> Iterator[Case]:
    for size, dtype, batch, how, name, layout, way in itertools.product(
        options.sizes,
        options.dtypes,
        options.batches,
        options.cuts,
        options.ops,
        options.layouts,
        options.ways,
    ):
        yield Case(name, way, layout, batch, dtype, how, size)


def kept() -> dict[Case, Result]:
    """What was measured; a case of which there is none has nan."""
    found = {}
    for line in KEPT.read_text().splitlines()[1:] if KEPT.exists() else []:
        op, way, layout, batch, dtype, how, size, ours, theirs = line.split("\t")
        case = Case(op, way, layout, int(batch), dtype, how, size)
        found[case] = Result(case, float(ours), float(theirs))
    return found


def table(results: Sequence[Result], most: int) -> str:
    lines = ["| op | way | layout | batch | dtype | cut | size | ours, ms | CPU, ms | ratio |",
             "|---|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    worst = [r for r in results if r.ours - r.theirs > EXTRA]
    for r in sorted(worst, key=lambda r: -r.ratio)[:most]:
        cells = [str(x) for x in astuple(r.case)]
        numbers = [f"{r.ours:.3f}", f"{r.theirs:.3f}", f"{r.ratio:.1f}"]
        lines.append("| " + " | ".join(cells + numbers) + " |")
    return "\n".join(lines)


def summary(results: Sequence[Result]) -> str:
    above = sum(r.above for r in results)
    return (
        f"{len(results)} calls of {len({r.case.op for r in results})} ops: median "
        f"{statistics.median(r.ratio for r in results):.2f} of the CPU's time, {above} above "
        f"{FACTOR}x and {EXTRA} ms."
    )


def write_page(text: str) -> None:
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def run_case(case: Case, rounds: int) -> Result | None:
    try:
        return measure(case, rounds)
    except Exception as error:  # the CPU has no such kernel, or we have not: a case of the others
        print(f"{case.op} {case.way} {case.layout} {case.dtype}: {error}"[:200], file=sys.stderr)
        return None


def main() -> None:
    words = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", type=words, default=list(OPS))
    parser.add_argument("--layouts", type=words, default=list(LAYOUTS))
    parser.add_argument("--batches", type=lambda t: [int(x) for x in words(t)], default=[16, 2, 1])
    parser.add_argument("--dtypes", type=words, default=list(DTYPES))
    parser.add_argument("--cuts", type=words, default=list(CUTS))
    parser.add_argument("--sizes", type=words, default=list(SIZES))
    parser.add_argument("--ways", type=words, default=list(WAYS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--cpu-time", action="store_true", help="of all threads: for a busy machine"
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="then stop")
    parser.add_argument("--again", action="store_true", help="also what is kept")
    parser.add_argument("--above", action="store_true", help="again what is kept above the goal")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--write", action="store_true", help=f"the worst to {PAGE.name}")
    options = parser.parse_args()
    unknown = sorted(set(options.ops) - set(OPS))
    if unknown:
        parser.error(f"no such ops: {', '.join(unknown)}; there are {', '.join(OPS)}")
    warnings.simplefilter("ignore")
    if options.cpu_time:
        global clock
        clock = time.process_time
    found = kept()
    wanted = list(cases(options))
    if not options.report:
        torch.set_num_threads(options.threads)
        torch_nntile.init_context(ncpu=options.threads)
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        if not KEPT.exists():
            KEPT.write_text("op\tway\tlayout\tbatch\tdtype\tcut\tsize\tours\ttheirs\n")
        end = time.monotonic() + options.minutes * 60
        with KEPT.open("a") as file:
            for case in wanted:
                if time.monotonic() > end:
                    break
                if options.above and not (case in found and found[case].above):
                    continue
                if case in found and not (options.again or options.above):
                    continue
                result = run_case(case, options.rounds)
                found[case] = result or Result(case, float("nan"), float("nan"))
                cells = [*astuple(case), f"{found[case].ours:.4f}", f"{found[case].theirs:.4f}"]
                file.write("\t".join(map(str, cells)) + "\n")
                file.flush()
                if result:
                    mark = "  <<<" if result.above else ""
                    print(*cells, f"{result.ratio:.2f}{mark}", sep="\t", flush=True)
    results = [found[c] for c in wanted if c in found and found[c].ours == found[c].ours]
    if not results:
        return
    text = f"{summary(results)}\n\n{table(results, options.worst)}"
    print(text)
    if options.write:
        which = "CPU time of all threads" if options.cpu_time else "time on the clock"
        when = (
            f"{timing.cpu_model()}, {datetime.date.today()}, {options.threads} thread(s), {which}"
        )
        write_page(f"{when}: {text}")


if __name__ == "__main__":
    main()
