# SPDX-License-Identifier: BSD-3-Clause
"""Train DeepReLU on 60,000 images on device "nntile": in one batch, then in small ones.

Steps of one batch can be compared with the CPU's number by number. They learn little in the seconds that
they take; the same weights, trained in batches by Adam with a captured step, then learn what there is.

python -m torch_nntile.train_mnist --compare-torch
torchrun --nproc-per-node 2 -m torch_nntile.train_mnist --compare-torch    # each has its part of a batch
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import hashlib
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

import torch_nntile
from torch_nntile.context import parse_bytes
from torch_nntile.train_mnist import data, report
from torch_nntile.train_mnist.model import DeepReLU
from torch_nntile.train_mnist.report import Run
from torch_nntile.training import (
    SGD,
    Adam,
    AdamW,
    load_checkpoint,
    save_checkpoint,
    train_full_batch_step,
)
from torch_nntile.training.step import full_batch_loss

LOSS_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 1e-6  # of SGD; where a gradient is all but zero, Adam's step is its sign
BATCHES = {"batch_size": 250, "optimizer": "adam", "lr": 1e-3}  # of the second training
OPTIMIZERS = {"sgd": (SGD, 0.1), "adam": (Adam, 1e-3), "adamw": (AdamW, 1e-3)}  # default lr


def parse_tiling(text: str) -> tuple[str, int | list[int] | str]:
    """("batch", [15000, 45000]) for "batch=15000,45000"; one number is a uniform size."""
    name, equals, sizes = text.partition("=")
    if not (name and equals and sizes):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=SIZES, such as batch=15000,45000")
    if sizes == "auto":
        return name, "auto"
    try:
        numbers = [int(size) for size in sizes.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: sizes are numbers or 'auto'") from None
    return name, numbers if len(numbers) > 1 else numbers[0]


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def size(text: str) -> int:
    try:
        return parse_bytes("it", text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_nntile.train_mnist", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--data", choices=data.NAMES, default="mnist", help="data set (default: %(default)s)")
    add("--data-dir", help="folder that has the IDX files, or that they are downloaded to")
    add("--epochs", type=positive, default=5, help="passes over the images (default: %(default)s)")
    add("--optimizer", choices=OPTIMIZERS, default="sgd", help="optimizer (default: %(default)s)")
    add("--lr", type=float, help="learning rate (default: 0.1 for sgd, 0.001 for the others)")
    add("--seed", type=int, default=42, help="seed of the weights (default: %(default)s)")
    add("--hidden-dim", type=positive, default=256, help="width of a layer (default: %(default)s)")
    add("--depth", type=positive, default=4, help="hidden layers (default: %(default)s)")
    add("--batch-size", type=positive, help="images in a step (default: all); leaves out the rest")
    add(
        "--batch-epochs",
        type=int,
        default=4,
        help="after that, train a new model for this many epochs in batches of 250, with Adam and a "
        "captured step; 0: do not (default: %(default)s; not with --batch-size or --resume)",
    )
    add(
        "--runtime-mode",
        choices=("eager", "graph"),
        default="eager",
        help="submit ops soon after they are called, or a step as one graph (default: %(default)s)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--capture", action="store_true", help="record a step, then replay it")
    how.add_argument("--compile", action="store_true", help="torch.compile the model")
    add("--ncpu", type=int, default=-1, help="CPU workers (default: STARPU_NCPU or one per core)")
    add("--ncuda", type=int, default=-1, help="CUDA workers (default: STARPU_NCUDA or none)")
    add(
        "--memory",
        type=size,
        metavar="SIZE",
        help="budget for data in main memory, such as 200MiB (default: NNTILE_MEMORY or 90 %% of the "
        "machine)",
    )
    add(
        "--swap",
        metavar="DIR",
        help="folder on a disk for data that does not fit in memory (default: NNTILE_SWAP or none)",
    )
    add(
        "--swap-size",
        type=size,
        metavar="SIZE",
        help="the most bytes on that disk, such as 2GiB (default: NNTILE_SWAP_SIZE or the free space)",
    )
    add(
        "--axis-tiling",
        type=parse_tiling,
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="cut of batch, features, hidden or classes: 15000 or 7000,53000 or auto; repeatable",
    )
    add("--print-axis-groups", action="store_true", help="print named axes and their cuts")
    add("--restrict-cuda", action="store_true", help="fail if there are no CUDA workers")
    add("--compare-torch", action="store_true", help="train on device 'cpu' too, and compare")
    add("--output-dir", help="where to write losses.png and run.json")
    add(
        "--profile",
        metavar="DIR",
        help="write report.html and trace.json of a step of the last epoch",
    )
    add(
        "--resume",
        metavar="FILE",
        help="write this checkpoint after each epoch; continue from it if it exists",
    )
    add(
        "--verbose",
        action="store_true",
        help="print a line when the runtime starts and stops; show tracebacks of errors",
    )
    return parser


@contextlib.contextmanager
def process_group() -> Iterator[None]:
    """That of torchrun, if it has started several processes."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield
        return
    dist.init_process_group()
    try:
        yield
    finally:
        dist.destroy_process_group()


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def processes() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def own_part(x: Tensor, device: str) -> Tensor:
    """What this process has of a batch. The CPU trains in one process."""
    count = processes() if device == "nntile" else 1
    if len(x) % count:
        raise ValueError(f"{count} processes do not divide a batch of {len(x)} images")
    part = len(x) // count
    return x if count == 1 else x[rank() * part : (rank() + 1) * part]


def mean_of_all(value: float) -> float:
    if processes() == 1:
        return value
    mean = torch.tensor(value, device="nntile")
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean.item()


def name_mnist_axis_groups(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Name the axes of a DeepReLU and its data: batch, features, hidden, classes."""
    torch_nntile.set_axis_group_name(x, {0: "batch", 1: "features"})
    torch_nntile.set_axis_group_name(y, {0: "batch"})
    weights = list(model.parameters())
    for layer, weight in enumerate(weights):
        fan_in = "features" if layer == 0 else "hidden"
        fan_out = "classes" if layer == len(weights) - 1 else "hidden"
        torch_nntile.set_axis_group_name(weight, {0: fan_out, 1: fan_in})


def batches(images: data.Images, size: int | None, device: str) -> Iterator[tuple[Tensor, Tensor]]:
    """Whole batches in order, moved to the device one by one."""
    count = len(images.train_x)
    size = min(size or count, count)
    for start in range(0, count - size + 1, size):
        yield (
            own_part(images.train_x[start : start + size], device).to(device),
            own_part(images.train_y[start : start + size], device).to(device),
        )


def make_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace, device: str
) -> Callable[[Tensor, Tensor], float]:
    """A step of training as the options ask for it; gives the loss before it."""
    plain = functools.partial(train_full_batch_step, model, optimizer)
    if device == "nntile" and options.capture:

        @torch_nntile.capture
        def captured(x: Tensor, y: Tensor) -> Tensor:
            return full_batch_loss(model, optimizer, x, y)

        # DistributedDataParallel arranges its buckets in the first two steps, and reads in them.
        first = iter(range(2 if processes() > 1 else 0))
        return lambda x, y: plain(x, y) if next(first, None) is not None else captured(x, y).item()
    if device == "nntile" and options.compile:
        model.compile(backend="nntile")
    return plain


def train(model: nn.Module, images: data.Images, options: argparse.Namespace, device: str) -> Run:
    """Train on a device, epoch by epoch, then test."""
    run = Run(device)
    model.to(device)
    kind, _ = OPTIMIZERS[options.optimizer]
    if device == "cpu":
        kind = getattr(torch.optim, kind.__name__)
    optimizer = kind(model.parameters(), options.lr)
    resume(run, model, optimizer, options)
    trained = model
    if device == "nntile" and processes() > 1:
        trained = DistributedDataParallel(model)
    step = make_step(trained, optimizer, options, device)
    whole = options.batch_size is None
    data = list(batches(images, None, device)) if whole else None
    if device == "nntile":
        set_axes(
            model, data[0] if data else next(batches(images, options.batch_size, device)), options
        )
    progress = tqdm(
        range(len(run.losses), options.epochs),
        desc=device,
        unit="epoch",
        file=sys.stderr,
        disable=rank() > 0,
    )
    profiled = device == "nntile" and options.profile and rank() == 0
    page = torch_nntile.profile() if profiled else None
    for epoch in progress:
        losses: list[float] = []
        for x, y in data or batches(images, options.batch_size, device):
            if device == "nntile" and not whole:
                name_mnist_axis_groups(model, x, y)
            looked_at = page if epoch == options.epochs - 1 and not losses else None
            start = time.perf_counter()
            with looked_at or contextlib.nullcontext():
                losses.append(step(x, y))
                if device == "nntile":
                    torch_nntile.wait()
            run.step_seconds.append(time.perf_counter() - start)
        loss = statistics.fmean(losses)
        run.losses.append(mean_of_all(loss) if device == "nntile" else loss)
        progress.set_postfix(loss=f"{run.losses[-1]:.6f}", step=f"{run.step_seconds[-1]:.3f} s")
        if options.resume and rank() == 0:
            state = {"model": model, "optimizer": optimizer}
            save_checkpoint(options.resume, **state, losses=run.losses, told=told(options))
    run.accuracy = accuracy(model, images, device)
    run.weights_sha256 = fingerprint(model)
    if page is not None:
        write_profile(page, Path(options.profile))
    return run


def told(options: argparse.Namespace) -> dict[str, object]:
    """What a run that goes on must have been told alike."""
    names = ("data", "seed", "optimizer", "lr", "batch_size")
    return {name: getattr(options, name) for name in names}


def resume(
    run: Run, model: nn.Module, optimizer: torch.optim.Optimizer, options: argparse.Namespace
) -> None:
    """Go on from the checkpoint, if there is one."""
    if not options.resume or not Path(options.resume).exists():
        return
    try:
        rest = load_checkpoint(options.resume, model=model, optimizer=optimizer)
    except RuntimeError as error:  # of another model, cut short
        raise ValueError(str(error)) from error
    before = rest.get("told", {})
    for name, value in told(options).items():
        if before.get(name) != value:
            raise ValueError(f"{options.resume}: of {name} {before.get(name)}, not {value}")
    run.losses = rest["losses"]
    if len(run.losses) >= options.epochs:
        raise ValueError(
            f"{options.resume}: has {len(run.losses)} epochs; --epochs {options.epochs} adds none"
        )
    print(f"going on after {len(run.losses)} epochs")


def write_profile(page: torch_nntile.profile, folder: Path) -> None:
    """Of the first step of the last epoch: plans are known there."""
    folder.mkdir(parents=True, exist_ok=True)
    page.save(folder / "trace.json")
    page.html(folder / "report.html")
    print(page.summary("module"))
    print(f"wrote {folder / 'report.html'} and {folder / 'trace.json'}")


def set_axes(model: nn.Module, batch: tuple[Tensor, Tensor], options: argparse.Namespace) -> None:
    name_mnist_axis_groups(model, *batch)
    for name, sizes in options.axis_tiling:
        torch_nntile.set_axis_group_tiling(name, sizes)
    if options.print_axis_groups:
        print(torch_nntile.axis_groups())


@torch.no_grad()
def accuracy(model: nn.Module, images: data.Images, device: str) -> float:
    """Share of test images whose class is found."""
    found = model(images.test_x.to(device)).argmax(dim=1)
    return float((found == images.test_y.to(device)).float().mean().item())


def fingerprint(model: nn.Module) -> str:
    """SHA-256 of the bits of all parameters: equal for runs that computed the same."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def largest_difference(a: nn.Module, b: nn.Module) -> float:
    pairs = zip(a.parameters(), b.parameters(), strict=True)
    return max((p.detach().cpu() - q.detach().cpu()).abs().max().item() for p, q in pairs)


def main(argv: Sequence[str] | None = None) -> int:
    """Returns the exit code: 0, 1 if --compare-torch finds a difference, 2 for wrong arguments."""
    parser = make_parser()
    options = parser.parse_args(argv)
    if options.resume and options.compare_torch:
        parser.error("--resume goes on with one device's training: not with --compare-torch")
    if options.lr is None:
        options.lr = OPTIMIZERS[options.optimizer][1]
    try:
        with process_group():
            return run_all(options)
    except (ValueError, FileNotFoundError) as error:
        if options.verbose:
            raise
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2


def run_all(options: argparse.Namespace) -> int:
    images = data.load(options.data, options.data_dir)
    if rank() == 0:
        print(images)
    generator = torch.Generator().manual_seed(options.seed)
    model = DeepReLU(
        images.features, options.hidden_dim, 10, depth=options.depth, generator=generator
    )
    reference, start = copy.deepcopy(model), copy.deepcopy(model)
    torch_nntile.init_context(
        ncpu=options.ncpu,
        ncuda=options.ncuda,
        cpu_fallback=False,
        runtime_mode=options.runtime_mode,
        verbose=options.verbose,
        memory=options.memory,
        swap=options.swap,
        swap_size=options.swap_size,
    )
    try:
        if options.restrict_cuda:
            torch_nntile.restrict_workers("cuda")
        runs = [train(model, images, options, "nntile")]
        difference = None
        if rank() > 0:
            options.compare_torch = options.output_dir = None
        if options.compare_torch:
            runs.append(train(reference, images, options, "cpu"))
            difference = largest_difference(model, reference)
        if options.verbose:
            torch_nntile.show_config()
            print(torch_nntile.stats())
        if rank() == 0:
            report.print_table(runs, difference)
        if options.output_dir:
            report.write(options, images, runs, difference)
        if options.batch_epochs > 0 and options.batch_size is None and not options.resume:
            batched = train_in_batches(start, images, options)
            if rank() == 0:
                report.print_training(batched)
    finally:
        torch_nntile.shutdown_context()
    if difference is None:
        return 0
    return verdict(runs, difference if options.optimizer == "sgd" else None)


def train_in_batches(model: nn.Module, images: data.Images, options: argparse.Namespace) -> Run:
    """In small batches, for the accuracy: Adam makes much of a last bit, so no number is compared."""
    # What was said of the one batch.
    whole = {"axis_tiling": [], "print_axis_groups": False, "profile": None}
    own = argparse.Namespace(
        **{**vars(options), **BATCHES, **whole, "epochs": options.batch_epochs}
    )
    own.capture = not own.compile
    return train(model, images, own, "nntile")


def verdict(runs: list[Run], weight_difference: float | None) -> int:
    """0 if both devices agree; prints which limit was crossed otherwise. None is not looked at."""
    ours, theirs = (run.losses for run in runs)
    loss_difference = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    looked_at = [("losses", loss_difference, LOSS_TOLERANCE)]
    if weight_difference is not None:
        looked_at.append(("weights", weight_difference, WEIGHT_TOLERANCE))
    failed = [
        f"{what} differ by {value:.2e}, more than {limit:.0e}"
        for what, value, limit in looked_at
        if not value <= limit  # nan is a failure too
    ]
    for text in failed:
        print(text, file=sys.stderr)
    if not failed:
        within = ", ".join(f"{what} within {limit:.0e}" for what, _, limit in looked_at)
        print(f"devices agree: {within}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
