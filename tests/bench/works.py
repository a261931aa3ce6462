# SPDX-License-Identifier: BSD-3-Clause
"""Training steps to be timed, each in a process of its own that steps when it is told to.

The parent holds several such processes and lets them step in turn: so settings that hold for a
whole process, as the number of workers, are compared in interleaved runs too.

A work gives its model, its optimizer and its batches, which are moved before the clock starts;
`model(**batch)` is the loss.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from bench.sized_models import MODELS
from stock_models import Classifier, loss_of, moved
from torch import Tensor, nn

THREADS = 2
BATCHES = 50  # different ones of the five-layer MNIST
TESTS = Path(__file__).resolve().parents[1]

Work = tuple[nn.Module, torch.optim.Optimizer, list[dict[str, Tensor]]]


def deeprelu(options: argparse.Namespace) -> Work:
    """784 -> 256 x 4 -> 10, all 60,000 rows in one batch, plain SGD."""
    from torch_nntile.train_mnist import DeepReLU

    layers = DeepReLU.mnist(generator=torch.Generator().manual_seed(42))
    model = Classifier(layers).to(options.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, [random_batch(60_000, options.device)]


def mnist5(options: argparse.Namespace) -> Work:
    """784-200-100-60-30-10 with bias and ReLU, Adam, batches of 100."""
    torch.manual_seed(42)
    widths = (784, 200, 100, 60, 30, 10)
    layers: list[nn.Module] = []
    for fan_in, fan_out in zip(widths, widths[1:]):  # noqa: B905 RUF007
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    model = Classifier(*layers[:-1]).to(options.device)
    fused = True if options.fused else None
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)
    return model, optimizer, [random_batch(100, options.device, i) for i in range(BATCHES)]


def sized(options: argparse.Namespace) -> Work:
    """A model of sized_models.py, AdamW with its defaults."""
    row = MODELS[options.work]
    torch.manual_seed(42)
    dtype = torch.bfloat16 if options.bfloat16 else torch.float32
    model = row.build().train().to(options.device, dtype)
    batches = [row.inputs(torch.Generator().manual_seed(seed)) for seed in range(options.batches)]
    return (
        model,
        torch.optim.AdamW(model.parameters(), fused=True if options.fused else None),
        [moved(batch, options.device, dtype) for batch in batches],
    )


def wide(options: argparse.Namespace) -> Work:
    """16 layers of 2048 on 256 rows, AdamW: 269 MB each of parameters, gradients and two averages."""
    torch.manual_seed(42)
    layers = [nn.Sequential(nn.Linear(2048, 2048), nn.ReLU()) for _ in range(16)]
    model = Classifier(*layers).to(options.device)
    generator = torch.Generator().manual_seed(1)
    batch = {
        "x": torch.randn(256, 2048, generator=generator).to(options.device),
        "y": torch.randint(2048, (256,), generator=generator).to(options.device),
    }
    return model, torch.optim.AdamW(model.parameters()), [batch]


WORKS = {"deeprelu": deeprelu, "mnist5": mnist5, "wide": wide} | dict.fromkeys(MODELS, sized)


def random_batch(count: int, device: str, seed: int = 0) -> dict[str, Tensor]:
    """Images with classes that can be learned.

    On noise most units die; then Adam's averages become subnormal, which is slow on any device.
    """
    teacher = torch.randn(784, 10, generator=torch.Generator().manual_seed(1))
    x = torch.randn(count, 784, generator=torch.Generator().manual_seed(100 + seed))
    y = (x @ teacher).argmax(dim=1)
    return {"x": x.to(device), "y": y.to(device)}


class Trainer:
    """Steps of a work; the program is the same on every device."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.set_num_threads(options.ncpu)
        self.device = options.device
        self.ours = self.device == "nntile"
        self.graph = options.mode == "graph"
        if self.ours:
            import torch_nntile

            torch_nntile.init_context(
                ncpu=options.ncpu,
                cpu_fallback=options.work in MODELS,  # counted, see counters()
                runtime_mode=options.mode,
            )
            warnings.filterwarnings("ignore", "nntile: .* runs on the host")
        self.model, self.optimizer, batches = WORKS[options.work](options)
        self.batches = cycle(batches)
        self.call: Any = self.model
        if options.compiled:  # not model.compile(): the loss of transformers' models is inside
            self.call = torch.compile(self.model, backend="nntile" if self.ours else "inductor")
        self.mixed = bool(options.autocast)
        self.body: Any = self.whole
        if options.captured:
            self.body = torch_nntile.capture(self.whole)
        if options.tile:
            for batch in batches:
                for tensor in batch.values():
                    torch_nntile.set_axis_group_name(tensor, {0: "batch"})
            torch_nntile.set_axis_group_tiling("batch", options.tile)

    def whole(self, batch: dict[str, Tensor]) -> Tensor:
        self.optimizer.zero_grad()
        with torch.autocast(self.device, torch.bfloat16, enabled=self.mixed):
            loss = loss_of(self.call, batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def step(self) -> Tensor:
        loss = self.body(next(self.batches))
        if self.graph:
            import torch_nntile

            torch_nntile.run_graph()
        return loss.detach()

    def counters(self) -> dict[str, int]:
        """Page faults; of the device also what torch_nntile has counted, calls of PyTorch's CPU
        kernels as "fallbacks", tasks of GPUs, and bytes from and to the disk."""
        faults = {"faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt}
        if not self.ours:
            return faults
        import torch_nntile

        memory = torch.nntile.memory_stats()  # type: ignore[attr-defined]
        return {
            **faults,
            **dataclasses.asdict(torch_nntile.stats()),
            "fallbacks": sum(row.calls for row in torch_nntile.fallback_report()),
            **{name: memory[name] for name in ("read_bytes", "written_bytes", "device_tasks")},
        }

    @property
    def peak(self) -> int:
        """Most bytes of tiles so far; on the CPU resident ones of the process."""
        if self.ours:
            return int(torch.nntile.max_memory_reserved())  # type: ignore[attr-defined]
        return self.resident

    @property
    def resident(self) -> int:
        """Most resident bytes of the process so far."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    def run(self, count: int) -> dict[str, object]:
        """Seconds of `count` steps to the very end, their losses, which are read afterwards, and
        how far the counters went."""
        before = self.counters()
        start = time.perf_counter()
        losses = [self.step() for _ in range(count)]
        last = losses[-1].item()
        if self.ours:
            import torch_nntile

            torch_nntile.wait()
        elif self.device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        counted = {name: value - before[name] for name, value in self.counters().items()}
        read = [loss.item() for loss in losses[:-1]] + [last]
        return {
            "seconds": seconds,
            "losses": read,
            "counted": counted,
            "peak": self.peak,
            "resident": self.resident,
        }


class Process:
    """A trainer in a process of its own; `environment` is added to this process's.

    `losses` are of all steps so far, `counted` is how far the counters went in the last `steps()`:
    see Trainer.counters(); `peak` and `resident` as Trainer says. `before` is called in the process
    that starts.
    """

    def __init__(
        self,
        work: str,
        device: str = "nntile",
        environment: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
        **options: object,
    ) -> None:
        words = [f"--{name}={value}" for name, value in options.items()]
        # OPENBLAS_CORETYPE would tie one of the two libraries to the kernels of an older CPU.
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bench.works", work, f"--device={device}", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **{name: word for name, word in os.environ.items() if name != "OPENBLAS_CORETYPE"},
                "PYTHONPATH": os.pathsep.join(paths),
                "TRANSFORMERS_VERBOSITY": "error",
                **(environment or {}),
            },
            preexec_fn=before,
        )
        self.losses: list[float] = []
        self.counted: dict[str, int] = {}
        self.peak = self.resident = 0

    def steps(self, count: int) -> float:
        """Seconds of a step, from `count` of them."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"the process ended with {self.process.wait()}: {self.process.args}"
        found = json.loads(answer)
        self.losses += found["losses"]
        self.counted = found["counted"]
        self.peak, self.resident = found["peak"], found["resident"]
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
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--device", default="nntile")
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--ncpu", type=int, default=THREADS, help="workers, or PyTorch's threads")
    parser.add_argument("--tile", type=int, default=0, help="rows of a tile; 0: automatic")
    parser.add_argument("--fused", type=int, default=0, help="the optimizer")
    parser.add_argument("--captured", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=0)
    parser.add_argument("--autocast", type=int, default=0, help="to bfloat16")
    parser.add_argument("--bfloat16", type=int, default=0, help="model of sized_models.py and data")
    parser.add_argument("--batches", type=int, default=1, help="of a model of sized_models.py")
    trainer = Trainer(parser.parse_args())
    for line in sys.stdin:
        print(json.dumps(trainer.run(int(line))), flush=True)


if __name__ == "__main__":
    main()
