# SPDX-License-Identifier: BSD-3-Clause
"""Train DeepReLU on 60,000 images in one batch on device "nntile".

python -m torch_nntile.train_mnist --compare-torch
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import statistics
import sys
import time
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from tqdm import tqdm

import torch_nntile
from torch_nntile import mnist_data, train_report
from torch_nntile.models import DeepReLU
from torch_nntile.train_report import Run
from torch_nntile.training import SGD, train_full_batch_step

LOSS_TOLERANCE = 1e-5
WEIGHT_TOLERANCE = 1e-6


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


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_nntile.train_mnist", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("--data", choices=mnist_data.NAMES, default="mnist", help="data set (default: %(default)s)")
    add("--data-dir", help="folder with the IDX files, or where to download them to")
    add("--epochs", type=positive, default=5)
    add("--lr", type=float, default=0.1)
    add("--seed", type=int, default=42, help="of the weights (default: %(default)s)")
    add("--hidden-dim", type=positive, default=256)
    add("--depth", type=positive, default=4, help="number of hidden layers")
    add("--batch-size", type=positive, help="images a step (default: all); a remainder is left out")
    add("--runtime-mode", choices=("eager", "graph"), default="eager")
    add("--ncpu", type=int, default=-1, help="CPU workers (default: STARPU_NCPU, else one a core)")
    add("--ncuda", type=int, default=-1, help="CUDA workers (default: STARPU_NCUDA, else none)")
    add(
        "--axis-tiling",
        type=parse_tiling,
        action="append",
        default=[],
        metavar="NAME=SIZES",
        help="cut of batch, features, hidden or classes: 15000 or 7000,53000 or auto; repeatable",
    )
    add("--print-axis-groups", action="store_true")
    add("--restrict-cuda", action="store_true", help="run kernels on CUDA workers only")
    add("--compare-torch", action="store_true", help="train on device 'cpu' too and compare")
    add("--output-dir", help="where to write losses.png and run.json")
    add("--verbose", action="store_true")
    return parser


def name_mnist_axis_groups(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Name the axes of a DeepReLU and its data: batch, features, hidden, classes."""
    torch_nntile.set_axis_group_name(x, {0: "batch", 1: "features"})
    torch_nntile.set_axis_group_name(y, {0: "batch"})
    weights = list(model.parameters())
    for layer, weight in enumerate(weights):
        fan_in = "features" if layer == 0 else "hidden"
        fan_out = "classes" if layer == len(weights) - 1 else "hidden"
        torch_nntile.set_axis_group_name(weight, {0: fan_out, 1: fan_in})


def batches(
    images: mnist_data.Images, size: int | None, device: str
) -> Iterator[tuple[Tensor, Tensor]]:
    """Whole batches in order, moved to the device one by one."""
    count = len(images.train_x)
    size = min(size or count, count)
    for start in range(0, count - size + 1, size):
        yield (
            images.train_x[start : start + size].to(device),
            images.train_y[start : start + size].to(device),
        )


def train(
    model: nn.Module, images: mnist_data.Images, options: argparse.Namespace, device: str
) -> Run:
    """Train on a device, epoch by epoch, then test."""
    run = Run(device)
    model.to(device)
    optimizer = (SGD if device == "nntile" else torch.optim.SGD)(model.parameters(), options.lr)
    whole = options.batch_size is None
    data = list(batches(images, None, device)) if whole else None
    if device == "nntile":
        set_axes(
            model, data[0] if data else next(batches(images, options.batch_size, device)), options
        )
    progress = tqdm(range(options.epochs), desc=device, unit="epoch", file=sys.stderr)
    for _ in progress:
        losses = []
        for x, y in data or batches(images, options.batch_size, device):
            if device == "nntile" and not whole:
                name_mnist_axis_groups(model, x, y)
            start = time.perf_counter()
            losses.append(train_full_batch_step(model, optimizer, x, y))
            if device == "nntile":
                torch_nntile.wait()
            run.step_seconds.append(time.perf_counter() - start)
        run.losses.append(statistics.fmean(losses))
        progress.set_postfix(loss=f"{run.losses[-1]:.6f}", step=f"{run.step_seconds[-1]:.3f} s")
    run.accuracy = accuracy(model, images, device)
    run.weights_sha256 = fingerprint(model)
    return run


def set_axes(model: nn.Module, batch: tuple[Tensor, Tensor], options: argparse.Namespace) -> None:
    name_mnist_axis_groups(model, *batch)
    for name, sizes in options.axis_tiling:
        torch_nntile.set_axis_group_tiling(name, sizes)
    if options.print_axis_groups:
        torch_nntile.print_axis_groups()


@torch.no_grad()
def accuracy(model: nn.Module, images: mnist_data.Images, device: str) -> float:
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
    try:
        return run_all(options)
    except (ValueError, FileNotFoundError) as error:
        if options.verbose:
            raise
        print(f"{parser.prog}: error: {error}", file=sys.stderr)
        return 2


def run_all(options: argparse.Namespace) -> int:
    images = mnist_data.load(options.data, options.data_dir)
    print(images)
    generator = torch.Generator().manual_seed(options.seed)
    model = DeepReLU(
        images.features, options.hidden_dim, 10, depth=options.depth, generator=generator
    )
    reference = copy.deepcopy(model)
    torch_nntile.init_context(
        ncpu=options.ncpu,
        ncuda=options.ncuda,
        cpu_fallback=False,
        runtime_mode=options.runtime_mode,
        verbose=options.verbose,
    )
    try:
        if options.restrict_cuda:
            torch_nntile.restrict_cuda()
        runs = [train(model, images, options, "nntile")]
        difference = None
        if options.compare_torch:
            runs.append(train(reference, images, options, "cpu"))
            difference = largest_difference(model, reference)
        if options.verbose:
            torch_nntile.show_config()
            print(torch_nntile.stats())
        train_report.print_table(runs, difference)
        if options.output_dir:
            train_report.write(options, images, runs, difference)
    finally:
        torch_nntile.shutdown_context()
    return 0 if difference is None else verdict(runs, difference)


def verdict(runs: list[Run], weight_difference: float) -> int:
    """0 if both devices agree; prints which limit was crossed otherwise."""
    ours, theirs = (run.losses for run in runs)
    loss_difference = max(abs(a - b) for a, b in zip(ours, theirs, strict=True))
    failed = [
        f"{what} differ by {value:.2e}, more than {limit:.0e}"
        for what, value, limit in (
            ("losses", loss_difference, LOSS_TOLERANCE),
            ("weights", weight_difference, WEIGHT_TOLERANCE),
        )
        if not value <= limit  # nan is a failure too
    ]
    for text in failed:
        print(text, file=sys.stderr)
    if not failed:
        print(
            f"devices agree: losses within {LOSS_TOLERANCE:.0e}, "
            f"weights within {WEIGHT_TOLERANCE:.0e}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
