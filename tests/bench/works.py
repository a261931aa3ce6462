# SPDX-License-Identifier: BSD-3-Clause
"""Training steps to be timed, each in a process of its own that steps when it is told to.

The parent holds several such processes and lets them step in turn: so settings that hold for a
whole process, as the number of workers, are compared in interleaved runs too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import cycle

import torch
from torch import Tensor, nn
from torch.nn import functional

THREADS = 2
BATCHES = 50  # different ones of the five-layer MNIST; the data is moved before the clock starts


def deeprelu(options: argparse.Namespace) -> tuple[nn.Module, torch.optim.Optimizer, list]:
    """784 -> 256 x 4 -> 10, all 60,000 rows in one batch, plain SGD."""
    from torch_nntile.models import DeepReLU

    model = DeepReLU.mnist(generator=torch.Generator().manual_seed(42)).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, [random_batch(60_000, options.device)]


def mnist5(options: argparse.Namespace) -> tuple[nn.Module, torch.optim.Optimizer, list]:
    """784-200-100-60-30-10 with bias and ReLU, Adam, batches of 100."""
    torch.manual_seed(42)
    widths = (784, 200, 100, 60, 30, 10)
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(widths, widths[1:]):  # noqa: B905 RUF007
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1]).to(options.device)
    fused = True if options.fused else None
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    return model, optimizer, [random_batch(100, options.device, i) for i in range(BATCHES)]


def random_batch(count: int, device: str, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images with classes that can be learned.

    On noise most units die; then Adam's averages become subnormal, which is slow on any device.
    """
    teacher = torch.randn(784, 10, generator=torch.Generator().manual_seed(1))
    x = torch.randn(count, 784, generator=torch.Generator().manual_seed(100 + seed))
    y = (x @ teacher).argmax(dim=1)
    return x.to(device), y.to(device)


class Trainer:
    """Steps of a work; the program is the same on every device."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.set_num_threads(THREADS)
        self.ours = options.device == "nntile"
        self.graph = options.mode == "graph"
        if self.ours:
            import torch_nntile

            torch_nntile.init_context(
                ncpu=options.ncpu, cpu_fallback=False, runtime_mode=options.mode
            )
        self.model, self.optimizer, batches = {"deeprelu": deeprelu, "mnist5": mnist5}[
            options.work
        ](options)
        self.batches = cycle(batches)
        if options.tile:
            for x, y in batches:
                torch_nntile.set_axis_group_name(x, {0: "batch"})
                torch_nntile.set_axis_group_name(y, {0: "batch"})
            torch_nntile.set_axis_group_tiling("batch", options.tile)

    def step(self) -> Tensor:
        x, y = next(self.batches)
        self.optimizer.zero_grad()
        loss = functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        if self.graph:
            import torch_nntile

            torch_nntile.run()
        return loss.detach()

    def run(self, count: int) -> dict[str, object]:
        """Seconds of `count` steps to the very end, and their losses, which are read afterwards."""
        start = time.perf_counter()
        losses = [self.step() for _ in range(count)]
        last = losses[-1].item()
        if self.ours:
            import torch_nntile

            torch_nntile.wait()
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "losses": [loss.item() for loss in losses[:-1]] + [last]}


class Process:
    """A trainer in a process of its own."""

    def __init__(self, work: str, device: str = "nntile", **options: object) -> None:
        words = [f"--{name}={value}" for name, value in options.items()]
        self.process = subprocess.Popen(
            [sys.executable, __file__, work, f"--device={device}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.losses: list[float] = []

    def steps(self, count: int) -> float:
        """Seconds of a step, from `count` of them."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the process ended with {self.process.wait()}: {self.process.args}"
        found = json.loads(answer)
        self.losses += found["losses"]
        return float(found["seconds"]) / count

    def close(self) -> int:
        """Let it end; returns its exit code."""
        self.process.communicate()
        return self.process.returncode


@contextlib.contextmanager
def processes(**settings: dict) -> Iterator[dict[str, Process]]:
    """One process for each name; all must end with 0."""
    found: dict[str, Process] = {}
    try:
        for name, options in settings.items():
            found[name] = Process(**options)
        yield found
    finally:
        codes = {name: process.close() for name, process in found.items()}
    assert not any(codes.values()), f"exit codes {codes}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=("deeprelu", "mnist5"))
    parser.add_argument("--device", default="nntile")
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--ncpu", type=int, default=THREADS)
    parser.add_argument("--tile", type=int, default=0, help="rows of a tile; 0: automatic")
    parser.add_argument("--fused", type=int, default=0)
    trainer = Trainer(parser.parse_args())
    for line in sys.stdin:
        print(json.dumps(trainer.run(int(line))), flush=True)


if __name__ == "__main__":
    main()
