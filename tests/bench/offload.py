# SPDX-License-Identifier: BSD-3-Clause
"""Forward passes of a model whose weights are on the disk, beside accelerate's `disk_offload`.

    .venv/bin/python tests/bench/offload.py FOLDER --layers 32 --parts 2,4

Both get the same memory, a share of the weights. Accelerate's process is put into a control group (as
root, where there are such) when its files are written and out of the page cache: what it reads then is
counted; it gets 192 MiB more. Accelerate cannot train what it has put on the disk: it reads weights
before a module and drops them after it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":  # run as a file, it finds its neighbours itself
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from bench import budgets, timing, works
from torch import nn

WIDTH, ROWS = 2048, 256
MIB = 2**20
MORE = 192 * MIB  # with less the system ends accelerate's process


def network(layers: int) -> nn.Module:
    torch.manual_seed(42)
    with torch.no_grad():
        return nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(layers))
        )


def forget(folder: Path) -> None:
    """Files have no pages in memory."""
    for path in folder.iterdir():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


@contextlib.contextmanager
def limited(budget: int) -> Iterator[None]:
    """What this process takes from now on, the page cache for it too, is at most so many bytes."""
    with budgets.group(budget) as join:
        join()
        try:
            yield
        finally:
            (budgets.GROUPS / "cgroup.procs").write_text(str(os.getpid()))


def child(kind: str, folder: Path, budget: int, layers: int, passes: int) -> None:
    """Prints the median of passes in milliseconds, and the sum of the last result."""
    torch.set_num_threads(works.THREADS)
    x = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(0))
    model = network(layers).eval()
    call: Callable[[torch.Tensor], torch.Tensor] = model
    limit: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if kind == "accelerate":
        import accelerate

        accelerate.disk_offload(model, str(folder), execution_device=torch.device("cpu"))
        forget(folder)
        limit = limited(budget + MORE)
    elif kind == "nntile":
        import torch_nntile

        torch_nntile.init_context(ncpu=works.THREADS, memory=budget, swap=folder)
        model, x = model.to("nntile"), x.to("nntile")
        call = model
    times = []
    with torch.no_grad(), limit:
        for _ in range(passes + 1):
            begin = time.perf_counter()
            total = call(x).sum().item()
            times.append(time.perf_counter() - begin)
    print(f"{statistics.median(times[1:]) * 1e3} {total}")


def run(kind: str, folder: Path, budget: int, layers: int, passes: int) -> list[float]:
    words = [sys.executable, __file__, str(folder), "--child", kind, "--budget", str(budget)]
    words += ["--layers", str(layers), "--passes", str(passes)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (ended.returncode, ended.stderr[-2000:])
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
    parser.add_argument("--budget", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.folder, options.budget, options.layers, options.passes)
        return
    weights = options.layers * (WIDTH + 1) * WIDTH * 4
    speed = budgets.disk_speed(options.folder)
    print(
        f"{timing.cpu_model()}, {weights / MIB:.0f} MiB of weights, disk {speed / 1e6:.0f} MB/s\n"
    )
    print(
        "| memory | all in memory, ms | ours, ms | accelerate, ms | ratio |\n|---|---|---|---|---|"
    )
    for part in map(int, options.parts.split(",")):
        rounds: dict[str, list[float]] = {"cpu": [], "nntile": [], "accelerate": []}
        for kind in [*rounds] * options.rounds:
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                ms, total = run(kind, Path(folder), weights // part, options.layers, options.passes)
            rounds[kind].append(ms)
            if kind == "cpu":
                right = total
            assert abs(total / right - 1) < 1e-3, (kind, total, right)
        medians = {name: statistics.median(times) for name, times in rounds.items()}
        ratio = medians["nntile"] / medians["accelerate"]
        cells = (f"1/{part}", *(f"{medians[name]:.0f}" for name in rounds), f"{ratio:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
