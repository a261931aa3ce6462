# SPDX-License-Identifier: BSD-3-Clause
"""Times convolutions over layouts, batches and dtypes beside CPU PyTorch, and prints the worst.

    python tests/bench/sweep_convolution.py --cases pico,patch --batches 1,2 --worst 40
    NNTILE_AUTOMATIC_CUTS=0 python tests/bench/sweep_convolution.py    # nothing is cut

A number is the least of some rounds; both devices take turns in one process, with the same number
of threads. Results are kept until the end of a round: what is dropped is never computed.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.nn.functional as F
from bench import timing
from torch import Tensor

import torch_nntile

FACTOR, EXTRA = 1.5, 0.1  # the goal: not above both, times and milliseconds
ROUNDS, ROUND_MS, MOST_CALLS = 5, 2.0, 32
SLOW_MS = 500.0  # what takes so long is timed twice only
BATCHES = (1, 2, 16)
DTYPES = {"float32": torch.float32, "float64": torch.float64,
          "bfloat16": torch.bfloat16, "float16": torch.float16}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """Channels in and out, image, window; the rest as PyTorch calls it."""

    c: int
    co: int
    image: tuple[int, ...]
    window: tuple[int, ...]
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False
    batches: tuple[int, ...] = BATCHES

    def operands(self, batch: int) -> tuple[Tensor, Tensor, Tensor]:
        ends = (self.c, self.co) if self.transposed else (self.co, self.c)
        w = torch.randn(ends[0], ends[1] // self.groups, *self.window)
        return torch.randn(batch, self.c, *self.image), w, torch.randn(self.co)

    def call(self, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        zeros = [0] * len(self.image)
        sizes = [[n] * len(self.image) for n in (self.stride, self.padding, self.dilation)]
        result: Tensor = torch.convolution(x, w, b, *sizes, self.transposed, zeros, self.groups)
        return result


def square(c: int, co: int, side: int, window: int, *more: int, **named: Any) -> Shape:
    """An image and a window with equal sides; padded to keep the image, if nothing else is said."""
    if not more and "padding" not in named:
        named["padding"] = window // 2
    return Shape(c, co, (side, side), (window, window), *more, **named)


SMALL = (1, 2)
CASES: dict[str, Shape] = {
    # diffusers' AutoencoderKL
    "vae 3>32 32": square(3, 32, 32, 3),
    "vae 32>32 32": square(32, 32, 32, 3),
    "vae 32>32 /2": square(32, 32, 33, 3, 2),
    "vae 32>64 16": square(32, 64, 16, 3),
    "vae 64>64 16": square(64, 64, 16, 3),
    "vae 32>64 16 1x1": square(32, 64, 16, 1),
    "vae 64>8 16": square(64, 8, 16, 3),
    "vae 4>4 16 1x1": square(4, 4, 16, 1),
    "vae 4>64 16": square(4, 64, 16, 3),
    "vae 32>3 32": square(32, 3, 32, 3),
    # timm's coatnet_pico, mobile networks
    "pico stem": square(3, 32, 224, 3, 2, 1, batches=SMALL),
    "pico 64>256 56 1x1": square(64, 256, 56, 1, batches=SMALL),
    "pico 256>64 56 1x1": square(256, 64, 56, 1, batches=SMALL),
    "pico depthwise 256 56": square(256, 256, 56, 3, groups=256, batches=SMALL),
    "pico depthwise 256 56 /2": square(256, 256, 56, 3, 2, 1, groups=256, batches=SMALL),
    "pico 512>128 28 1x1": square(512, 128, 28, 1, batches=SMALL),
    "pico squeeze 256>16 1": square(256, 16, 1, 1),
    "pico squeeze 16>256 1": square(16, 256, 1, 1),
    "depthwise 96 14 5x5": square(96, 96, 14, 5, groups=96),
    "depthwise 24 28 7x7": square(24, 24, 28, 7, groups=24),
    "depthwise x2 32 14": square(32, 64, 14, 3, groups=32),
    # residual networks, in evaluation with large batches, on small maps
    "resnet 64 28": square(64, 64, 28, 3),
    "resnet 48 28": square(48, 48, 28, 3),
    "resnet 64>128 28 /2": square(64, 128, 28, 3, 2, 1),
    "resnet 64>128 28 1x1 /2": square(64, 128, 28, 1, 2),
    "resnet 256 7": square(256, 256, 7, 3),
    "resnet 512 1": square(512, 512, 1, 3, batches=(1, 2, 16, 250)),
    "resnet 256>512 2 /2": square(256, 512, 2, 3, 2, 1, batches=(1, 2, 16, 250)),
    "siamese stem": square(1, 64, 28, 7, 2, 3, batches=(1, 2, 16, 250)),
    "siamese 64 7": square(64, 64, 7, 3, batches=(250,)),
    "siamese 128 4": square(128, 128, 4, 3, batches=(250,)),
    "siamese 256 2": square(256, 256, 2, 3, batches=(250,)),
    "lenet 1>6 28 5x5": square(1, 6, 28, 5, 1, 2),
    "lenet 6>16 14 5x5": square(6, 16, 14, 5, 1, 0),
    # patch embeddings
    "patch 3>192 32 /4": square(3, 192, 32, 4, 4),
    "patch 3>192 224 /16": square(3, 192, 224, 16, 16),
    "patch 3>512 224 /32": square(3, 512, 224, 32, 32, batches=SMALL),
    "patch 96>192 28 /2": square(96, 192, 28, 2, 2),
    "patch 3>96 112 /4": square(3, 96, 112, 4, 4),
    "patch 32>64 17 /2": square(32, 64, 17, 2, 2),
    # others
    "grouped 64 28 by 4": square(64, 64, 28, 3, groups=4),
    "grouped 30 14 by 3": square(30, 60, 14, 3, groups=3),
    "grouped 128 14 by 32": square(128, 128, 14, 3, groups=32),
    "dilated 32 28": square(32, 32, 28, 3, 1, 2, 2),
    "odd 13>17 19": square(13, 17, 19, 3),
    "transposed 64>32 14 /2": square(64, 32, 14, 2, 2, transposed=True),
    "transposed 64>32 14 4x4 /2": square(64, 32, 14, 4, 2, 1, transposed=True),
    "transposed 100>256 1 4x4": square(100, 256, 1, 4, 1, 0, transposed=True),
    "1d 64>64 256": Shape(64, 64, (256,), (3,), padding=1),
    "1d 80>256 300 /2": Shape(80, 256, (300,), (3,), 2, 1),
    "1d depthwise 256 64 k4": Shape(256, 256, (64,), (4,), padding=3, groups=256),
    "1d 1>512 4000 k10 /5": Shape(1, 512, (4000,), (10,), 5, batches=SMALL),
    "1d dilated 32 256": Shape(32, 32, (256,), (3,), padding=4, dilation=4),
    "3d 3>16 8x16x16": Shape(3, 16, (8, 16, 16), (3, 3, 3), padding=1),
    "3d 16>16 8x16x16": Shape(16, 16, (8, 16, 16), (3, 3, 3), padding=1),
    "3d patch 3>64 8x32x32 /4": Shape(3, 64, (8, 32, 32), (4, 4, 4), 4),
    "3d depthwise 16 8x8x8": Shape(16, 16, (8, 8, 8), (3, 3, 3), padding=1, groups=16),
}

# How x and the cotangent of y lie.
LAYOUTS = {
    "contiguous": ("contiguous", "contiguous"),
    "channels_last": ("channels_last", "channels_last"),
    "last, cotangent": ("contiguous", "channels_last"),  # of flatten(2).transpose(1, 2)
    "last, image": ("channels_last", "contiguous"),
    "permuted": ("permuted", "permuted"),
    "sliced": ("sliced", "sliced"),
    "expanded": ("expanded", "expanded"),
}
WAYS = ("forward", "backward", "weight")
clock = time.perf_counter


def laid(x: Tensor, layout: str, device: str) -> Tensor:
    """The values of x (but expanded) in such a layout."""
    order = list(range(x.dim()))
    if layout == "channels_last":
        order = [0, *order[2:], 1]
    elif layout == "permuted":
        order = [1, 0, *order[:1:-1]]
    elif layout == "sliced":
        return F.pad(x, (3, 5)).to(device)[..., 3:-5]
    elif layout == "expanded":
        return torch.ones((), device=device).expand(x.shape)
    back = [order.index(k) for k in range(x.dim())]
    return x.permute(order).contiguous().to(device).permute(back)


def runner(
    shape: Shape, batch: int, layout: str, way: str, dtype: torch.dtype, device: str
) -> Callable[[], Any]:
    torch.manual_seed(0)
    image, *parameters = (t.to(dtype) for t in shape.operands(batch))
    x = laid(image, LAYOUTS[layout][0], device)
    w, b = (t.to(device) for t in parameters)
    if way == "forward":
        return lambda: shape.call(x, w, b)
    leaves = [t.detach().requires_grad_() for t in ((x, w, b) if way == "backward" else (w, b))]
    y = shape.call(x if way == "weight" else leaves[0], leaves[-2], leaves[-1])
    dy = laid(torch.randn(y.shape).to(dtype), LAYOUTS[layout][1], device)
    return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)


def timed(run: Callable[[], Any], calls: int, end: Callable[[], None]) -> float:
    """Milliseconds of a call, of so many whose results are kept."""
    kept = []
    start = clock()
    for _ in range(calls):
        kept.append(run())
    end()
    return (clock() - start) / calls * 1e3


@dataclass(frozen=True)
class Result:
    case: str
    theirs: float
    ours: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    @property
    def above(self) -> bool:
        return self.ours > FACTOR * self.theirs and self.ours - self.theirs > EXTRA


def measure(case: str, runs: dict[str, Callable[[], Any]]) -> Result:
    ends = {"cpu": lambda: None, "nntile": torch_nntile.wait}
    first = {device: timed(run, 1, ends[device]) for device, run in runs.items()}
    if max(first.values()) > SLOW_MS:
        again = {device: timed(run, 1, ends[device]) for device, run in runs.items()}
        return Result(case, *(min(first[d], again[d]) for d in ("cpu", "nntile")))
    for _ in range(2):
        timed(runs["nntile"], 1, ends["nntile"])
    calls = max(1, min(MOST_CALLS, int(ROUND_MS / timed(runs["cpu"], 1, ends["cpu"]))))
    timed(runs["nntile"], calls, ends["nntile"])
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(ROUNDS):
        for device in sorted(runs, reverse=turn % 2 == 1):
            best[device] = min(best[device], timed(runs[device], calls, ends[device]))
    return Result(case, best["cpu"], best["nntile"])


def results(options: argparse.Namespace) -> Iterator[Result]:
    names = [n for n in CASES if not options.cases or any(part in n for part in options.cases)]
    for name, dtype, layout, way in itertools.product(
        names, options.dtypes, options.layouts, options.ways
    ):
        for batch in options.batches or CASES[name].batches:
            case = f"{name}, {way}, {layout}, batch {batch}, {dtype}"
            args = (CASES[name], batch, layout, way, DTYPES[dtype])
            yield measure(case, {d: runner(*args, d) for d in ("cpu", "nntile")})


def table(found: list[Result], most: int) -> str:
    lines = ["| case | CPU ms | ours ms | ratio |", "|---|---|---|---|"]
    worst = sorted((r for r in found if r.ours - r.theirs > EXTRA), key=lambda r: -r.ratio)
    for r in worst[:most]:
        lines.append(f"| {r.case} | {r.theirs:.3f} | {r.ours:.3f} | {r.ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    global clock
    words = lambda text: text.split(",")  # noqa: E731
    numbers = lambda text: [int(x) for x in words(text)]  # noqa: E731
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cases", type=words, default=[], help="parts of names")
    parser.add_argument("--batches", type=numbers, default=[], help="instead of each case's own")
    parser.add_argument("--layouts", type=lambda t: t.split(";"), default=list(LAYOUTS))
    parser.add_argument("--ways", type=words, default=list(WAYS))
    parser.add_argument("--dtypes", type=words, default=["float32"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worst", type=int, default=20)
    parser.add_argument("--all", action="store_true", help="print each result")
    parser.add_argument("--busy", action="store_true", help="time of the process, not the wall's: "
                        "for a machine with neighbours, and one thread; spinning counts")  # fmt: skip
    options = parser.parse_args()
    if options.busy:
        clock = time.process_time
    torch.set_num_threads(options.threads)
    torch_nntile.init_context(ncpu=options.threads)
    found = []
    for result in results(options):
        found.append(result)
        if options.all:
            print(f"{result.ratio:8.2f} {result.theirs:9.3f} {result.ours:9.3f}  {result.case}")
            sys.stdout.flush()
    middle = statistics.median(r.ratio for r in found)
    print(f"{timing.cpu_model()}, {options.threads} thread(s): {len(found)} convolutions, median "
          f"{middle:.2f} of the CPU's time, {sum(r.above for r in found)} above {FACTOR}x and "
          f"{EXTRA} ms\n\n{table(found, options.worst)}")  # fmt: skip


if __name__ == "__main__":
    main()
