# SPDX-License-Identifier: BSD-3-Clause
"""One step of training on a whole batch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from torch_nntile import modes
from torch_nntile.training.loss import cross_entropy

__all__ = ["train_full_batch_step"]


def full_batch_loss(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> Tensor:
    """The same step without a read, so that it can be captured."""
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


def train_full_batch_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    x: Tensor,
    y: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
    name_axes: Callable[[nn.Module, Tensor, Tensor], None] | None = None,
) -> float:
    """Run forward, backward and the optimizer's step, and return the loss before the step.

    In graph mode the step is one graph, which this compiles and runs.

    Args:
        model: the model to train.
        optimizer: the optimizer of its parameters.
        x: inputs (batch, ...), on the model's device.
        y: labels (batch,), on the model's device.
        loss_fn: called as loss_fn(model(x), y).
        name_axes: called as name_axes(model, x, y) before the forward pass, to name axis groups.
    """
    if name_axes is not None:
        name_axes(model, x, y)
    loss = full_batch_loss(model, optimizer, x, y, loss_fn)
    if loss.device.type == "nntile" and modes.runtime_mode() == "graph":
        modes.compile_graph()
        modes.run_graph()
    return loss.item()
