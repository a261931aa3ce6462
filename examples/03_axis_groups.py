# SPDX-License-Identifier: BSD-3-Clause
"""Name axes, cut them, and get the same numbers from whole data, even tiles and uneven tiles."""

from __future__ import annotations

import torch
from torch import Tensor

import torch_nntile
from torch_nntile.train_mnist import DeepReLU
from torch_nntile.training import SGD, train_full_batch_step

Cut = int | list[int] | str


def name_axes(model: DeepReLU, x: Tensor, y: Tensor) -> None:
    """Names belong to the script: the model has none. Ops carry them on to all other tensors."""
    torch_nntile.set_axis_group_name(x, {0: "batch", 1: "features"})
    torch_nntile.set_axis_group_name(y, {0: "batch"})
    for layer in list(model.layers)[:-1]:
        torch_nntile.set_axis_group_name(layer.weight, {0: "hidden"})


def train(cuts: dict[str, Cut]) -> tuple[list[float], int]:
    """Losses of five steps, and how many tasks they took."""
    generator = torch.Generator().manual_seed(42)
    model = DeepReLU.tiny(generator).to("nntile")
    x = torch.randn(500, 128, generator=generator).to("nntile")
    y = torch.randint(10, (500,), generator=generator).to("nntile")
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)

    name_axes(model, x, y)
    for name, sizes in cuts.items():
        torch_nntile.set_axis_group_tiling(name, sizes)
    before = torch_nntile.stats().tasks
    losses = [train_full_batch_step(model, optimizer, x, y) for _ in range(5)]
    print(torch_nntile.axis_groups())
    return losses, torch_nntile.stats().tasks - before


def main() -> None:
    runs: dict[str, dict[str, Cut]] = {
        "whole": {"batch": 500, "features": 128, "hidden": 64},
        "cut": {"batch": 125, "features": 64, "hidden": 32},
        "ragged": {"batch": [70, 430], "features": [100, 28], "hidden": "auto"},
    }
    results = {}
    for name, cuts in runs.items():
        results[name], tasks = train(cuts)
        print(f"{name}: {tasks} tasks, losses", *(f"{loss:.6f}" for loss in results[name]), "\n")

    for losses in results.values():
        assert losses[-1] < losses[0]
        assert all(abs(a - b) < 1e-5 for a, b in zip(losses, results["whole"], strict=True))
    message = ""
    try:
        torch_nntile.set_axis_group_tiling("batch", [100, 100])
    except ValueError as error:
        message = str(error)
    print("as it should be:", message)
    assert "500" in message


if __name__ == "__main__":
    main()
