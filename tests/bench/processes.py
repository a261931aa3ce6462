# SPDX-License-Identifier: BSD-3-Clause
"""Times of processes, beside CPU PyTorch over gloo in the same processes. torchrun runs this file:

    torchrun --nproc-per-node 2 tests/bench/processes.py OUT steps|transfers|memory

Each process has one worker, or one thread of CPU PyTorch; blocks of both take turns, and begin and end
together. Rank 0 writes medians to OUT as JSON.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
import torch.distributed as dist
from bench import timing
from bench.sized_models import MODELS
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import torch_nntile

RANK, SIZE = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
WORKS = ("gpt2", "resnet18")
KIB = 2**10


def together(run: Callable[[], object], calls: int) -> float:
    """Milliseconds of a call, of a block that all begin together."""
    if SIZE > 1:
        dist.barrier(gloo)
    start = time.perf_counter()
    for _ in range(calls):
        run()
    torch.nntile.synchronize()  # type: ignore[attr-defined]
    return (time.perf_counter() - start) / calls * 1e3


def timed_block(run: Callable[[], object], calls: int) -> Callable[[], float]:
    return lambda: together(run, calls)


def all_reduce_and_wait(x: Tensor) -> None:
    dist.all_reduce(x, dist.ReduceOp.MAX)
    torch.nntile.synchronize()  # type: ignore[attr-defined]


def step_of(name: str, device: str) -> Callable[[], None]:
    work = MODELS[name]
    torch.manual_seed(0)
    model: nn.Module = work.build().to(device)
    batch: dict[str, Tensor] = work.inputs(torch.Generator().manual_seed(1))
    batch = {key: x.chunk(SIZE)[RANK].to(device) for key, x in batch.items()}
    if SIZE > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step() -> None:
        found = model(**batch)
        loss = found if isinstance(found, Tensor) else found.loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def steps() -> dict[str, float]:
    """Of a step, on each device; without a group, of one process with all workers."""
    found = {}
    for name in WORKS:
        devices = ("nntile", "cpu") if SIZE > 1 else ("nntile",)
        runs = {device: step_of(name, device) for device in devices}
        for run in runs.values():
            together(run, 4)  # buckets are arranged, plans made
        if SIZE > 1:
            step = step_of(name, "nntile")
            together(step, 2)
            runs["captured"] = torch_nntile.capture(step)
            together(runs["captured"], 4)
        calls = MODELS[name].steps
        blocks = {device: timed_block(run, calls) for device, run in runs.items()}
        for device, times in timing.interleaved(blocks, timing.repeats(9)).items():
            found[f"{name} {device}"] = statistics.median(times)
    return found


def transfers() -> dict[str, float]:
    """Of an all_reduce and the wait for it, by its bytes."""
    found = {}
    for size, calls in ((KIB, 40), (4 * KIB**2, 8), (64 * KIB**2, 2)):
        data = {name: torch.ones(size // 4, device=name) for name in ("cpu", "nntile")}
        for x in data.values():
            dist.all_reduce(x, dist.ReduceOp.MAX)

        blocks = {
            name: timed_block(functools.partial(all_reduce_and_wait, x), calls)
            for name, x in data.items()
        }
        for name, times in timing.interleaved(blocks, timing.repeats(15)).items():
            found[f"{size} {name}"] = statistics.median(times)
    return found


def memory() -> dict[str, float]:
    """Most bytes of a process's tensors in a step of FSDP2 on a deep model, and without a group."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(16))).to("nntile")
    if SIZE > 1:
        for part in model:
            fully_shard(part)
        fully_shard(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.randn(64 // SIZE, 1024).to("nntile")
    for k in range(3):
        if k == 1:
            torch.nntile.reset_peak_memory_stats()  # type: ignore[attr-defined]
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.nntile.synchronize()  # type: ignore[attr-defined]
    stats: dict[str, Any] = torch.nntile.memory_stats()  # type: ignore[attr-defined]
    return {
        "tensors": float(torch.nntile.max_memory_allocated()),  # type: ignore[attr-defined]
        "reserved": float(stats["reserved_bytes.all.peak"]),
        "resident": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB),
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    out, what = sys.argv[1:]
    torch_nntile.init_context(ncpu=1 if SIZE > 1 else 2)
    gloo: Any = None
    if SIZE > 1:
        torch.set_num_threads(1)
        dist.init_process_group()
        gloo = dist.new_group(backend="gloo")
    results = {"steps": steps, "transfers": transfers, "memory": memory}[what]()
    if RANK == 0:
        Path(out).write_text(json.dumps(results), encoding="utf-8")
    if SIZE > 1:
        dist.destroy_process_group()
