# SPDX-License-Identifier: BSD-3-Clause
"""Forward passes of a model whose weights are on the disk, beside accelerate's `disk_offload`.

    .venv/bin/python tests/bench/offload.py FOLDER --layers 32 --parts 2,4

Both get the same memory: that share of the weights, and nothing is kept by the system's page cache
beyond it, for accelerate's process runs in a control group (as root, where there are such). Accelerate
cannot train what it has put on the disk: it reads weights before a module and drops them after it.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":  # run as a file, it finds its neighbours itself
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from bench import budgets, timing, works
from torch import nn

WIDTH, ROWS = 2048, 256
MIB = 2**20


def network(layers: int) -> nn.Module:
    torch.manual_seed(42)
    with torch.no_grad():
        return nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(layers))
        )


def child(kind: str, folder: str, layers: int, passes: int) -> None:
    """Prints the median of passes in milliseconds, and the sum of the last result."""
    torch.set_num_threads(works.THREADS)
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    model = network(layers).eval()
    call: Callable[[torch.Tensor], torch.Tensor] = model
    if kind == "accelerate":
        import accelerate

        accelerate.disk_offload(model, folder, execution_device=torch.device("cpu"))
    elif kind == "nntile":
        import torch_nntile

        torch_nntile.init_context(ncpu=works.THREADS)
        model, x = model.to("nntile"), x.to("nntile")
        call = model
    times = []
    with torch.no_grad():
        for _ in range(passes + 1):
            begin = time.perf_counter()
            total = call(x).sum().item()
            times.append(time.perf_counter() - begin)
    print(f"{statistics.median(times[1:]) * 1e3} {total}")


def run(kind: str, folder: Path, layers: int, passes: int, **options: object) -> list[float]:
    words = [sys.executable, __file__, str(folder), "--child", kind]
    words += ["--layers", str(layers), "--passes", str(passes)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if ended.returncode < 0:  # the system ended it
        return [budgets.KILLED, 0.0]
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [float(word) for word in ended.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--parts", default="2,4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, str(options.folder), options.layers, options.passes)
        return
    weights = options.layers * (WIDTH + 1) * WIDTH * 4
    speed = budgets.disk_speed(options.folder)
    print(f"{timing.cpu_model()}, {weights / MIB:.0f} MiB of weights, disk {speed / 1e6:.0f} MB/s\n")
    print("| memory | all in memory, ms | ours, ms | accelerate, ms | ratio |\n|---|---|---|---|---|")
    with works.processes(idle={"work": "mnist5", "device": "cpu"}) as found:
        found["idle"].steps(1)
        idle = found["idle"].peak
    go = functools.partial(run, layers=options.layers, passes=options.passes)
    for part in map(int, options.parts.split(",")):
        budget = weights // part
        limits = {"NNTILE_MEMORY": str(budget), "NNTILE_SWAP": str(options.folder)}
        rounds: dict[str, list[float]] = {"cpu": [], "ours": [], "accelerate": []}
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory(dir=options.folder) as theirs:
                results = {
                    "cpu": go("cpu", options.folder),
                    "ours": go("nntile", options.folder, env={**os.environ, **limits}),
                }
                with budgets.group(idle + budget) as join:
                    results["accelerate"] = go("accelerate", Path(theirs), preexec_fn=join)
            for name, (ms, total) in results.items():
                rounds[name].append(ms)
                assert ms == budgets.KILLED or abs(total / results["cpu"][1] - 1) < 1e-3, results
        ms = {name: statistics.median(times) for name, times in rounds.items()}
        ratio = ms["ours"] / ms["accelerate"]
        cells = (f"1/{part}", *(f"{ms[name]:.0f}" for name in rounds), f"{ratio:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
