# SPDX-License-Identifier: BSD-3-Clause
"""Times each op row beside CPU PyTorch: python tests/bench/rows.py [--ops sum,mm] [--write].

--write keeps the numbers in tests/bench/rows.tsv, from which the op reference takes them. Two workers
beside two threads, each block ends in wait(), blocks of both take turns, medians. Without windows: in
one a result that nobody keeps would not be computed.
"""

from __future__ import annotations

import argparse
import datetime
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

os.environ["NNTILE_WINDOWS"] = "0"
import torch
from bench import timing
from bench.row_calls import Call, call_of, op_name
from torch import Tensor
from torch.utils import _pytree as pytree

import torch_nntile
from torch_nntile import _c

KEPT = Path(__file__).with_name("rows.tsv")
BLOCK_SECONDS = 0.02


def runner(call: Call, device: str) -> Callable[[], None]:
    inputs = [x.to(device) if isinstance(x, Tensor) else x for x in call.inputs]
    if not call.gradients:
        return lambda: call.function(*inputs)
    leaves = [x.requires_grad_() for x in (inputs[k].clone() for k in range(call.gradients))]
    results = call.function(*leaves, *inputs[call.gradients :])
    outputs = [x for x in pytree.tree_leaves(results) if isinstance(x, Tensor) and x.requires_grad]
    ones = [torch.ones_like(x) for x in outputs]
    return lambda: torch.autograd.grad(outputs, leaves, ones, retain_graph=True)


def block(run: Callable[[], None], calls: int, end: Callable[[], None]) -> Callable[[], float]:
    def timed() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            run()
        end()
        return (time.perf_counter() - start) / calls * 1e3

    return timed


def measure(call: Call, rounds: int) -> tuple[float, float]:
    """Milliseconds of a call: ours, and PyTorch's."""
    ours, theirs = runner(call, "nntile"), runner(call, "cpu")
    for _ in range(3):
        ours()
        torch_nntile.wait()
    theirs()
    start = time.perf_counter()
    theirs()
    calls = max(1, min(50, int(BLOCK_SECONDS / max(time.perf_counter() - start, 1e-6))))
    found = timing.interleaved(
        {
            "nntile": block(ours, calls, torch_nntile.wait),
            "cpu": block(theirs, calls, lambda: None),
        },
        rounds,
    )
    return statistics.median(found["nntile"]), statistics.median(found["cpu"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", type=lambda text: text.split(","), help="these only")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help=f"keep them in {KEPT.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(timing.THREADS)
    torch_nntile.init_context(ncpu=timing.THREADS)
    names = options.ops or sorted(op_name(k) for k in range(_c.get("nntile_op_count")))
    lines = {}
    if options.ops and KEPT.exists():
        lines = {x.partition("\t")[0]: x for x in KEPT.read_text().splitlines()[1:]}
    for name in names:
        call = call_of(name)
        if call is None:
            continue
        ours, theirs = measure(call, options.rounds)
        text = f"{call.text}{' backward' if call.gradients else ''}"
        lines[name] = f"{name}\t{text}\t{ours:.3f}\t{theirs:.3f}"
        print(f"{name:28}{text:44}{ours:9.3f}{theirs:9.3f}{ours / theirs:7.2f}", flush=True)
    if options.write:
        isa = torch.backends.cpu.get_cpu_capability()
        head = f"# {timing.cpu_model()}, {isa}, {datetime.date.today()}"
        KEPT.write_text("\n".join([head, *(lines[name] for name in sorted(lines))]) + "\n")


if __name__ == "__main__":
    main()
