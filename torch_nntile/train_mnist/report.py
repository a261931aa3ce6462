# SPDX-License-Identifier: BSD-3-Clause
"""What the training example prints and writes: a table, a picture of the losses, a JSON."""

from __future__ import annotations

import argparse
import json
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch_nntile.show_config import config

if TYPE_CHECKING:
    from torch_nntile.train_mnist.data import Images

__all__ = ["Run", "print_table", "print_training", "write"]


@dataclass(slots=True)
class Run:
    """What one device did."""

    device: str
    losses: list[float] = field(default_factory=list)
    step_seconds: list[float] = field(default_factory=list)
    accuracy: float = float("nan")
    weights_sha256: str = ""

    @property
    def seconds(self) -> float:
        return sum(self.step_seconds)

    @property
    def step_time(self) -> float:
        """Median seconds of a step, without the first, which also compiles."""
        return statistics.median(self.step_seconds[1:] or self.step_seconds or [float("nan")])


def print_table(runs: list[Run], weight_difference: float | None) -> None:
    """Loss per epoch on each device, then accuracy and time of a step."""
    names = [run.device for run in runs]
    compared = len(runs) == 2
    print(
        "epoch" + "".join(f"{name:>14}" for name in names) + ("    difference" if compared else "")
    )
    for epoch, losses in enumerate(zip(*(run.losses for run in runs), strict=True), start=1):
        line = f"{epoch:5d}" + "".join(f"{loss:14.8f}" for loss in losses)
        print(line + (f"{abs(losses[0] - losses[1]):14.2e}" if compared else ""))
    for run in runs:
        print(
            f"{run.device}: test accuracy {100 * run.accuracy:.2f} %, step {run.step_time:.4f} s "
            f"(first {run.step_seconds[0]:.4f} s)"
        )
    if weight_difference is not None:
        print(f"largest difference of a weight: {weight_difference:.2e}")


def print_training(run: Run) -> None:
    """One line: how a training in batches ended."""
    print(
        f"{run.device}, in batches: {len(run.losses)} epochs of {len(run.step_seconds) // len(run.losses)} "
        f"steps in {run.seconds:.1f} s, loss {run.losses[-1]:.4f}, test accuracy {100 * run.accuracy:.2f} %"
    )


def write(
    options: argparse.Namespace, images: Images, runs: list[Run], weight_difference: float | None
) -> None:
    """run.json and losses.png in the folder of --output-dir, which is made if needed."""
    folder = Path(options.output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "config": config(),
        "options": vars(options),
        "data": {"name": images.name, "source": images.source, "train": len(images.train_x)},
        "runs": [
            {
                "device": run.device,
                "losses": run.losses,
                "accuracy": run.accuracy,
                "weights_sha256": run.weights_sha256,
                "step_seconds": run.step_seconds,
            }
            for run in runs
        ],
        "weight_difference": weight_difference,
    }
    (folder / "run.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    draw(runs, folder / "losses.png", f"DeepReLU on {images.name}")
    print(f"wrote {folder / 'run.json'} and {folder / 'losses.png'}")


def draw(runs: list[Run], path: Path, title: str) -> None:
    from matplotlib.figure import Figure  # no pyplot: it would look for a display

    figure = Figure(figsize=(6, 4))
    axes = figure.add_subplot()
    for run, style in zip(runs, ("-", "--"), strict=False):
        axes.plot(range(1, len(run.losses) + 1), run.losses, style, marker="o", label=run.device)
    axes.set(xlabel="epoch", ylabel="cross-entropy", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120, bbox_inches="tight")
