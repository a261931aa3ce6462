# SPDX-License-Identifier: BSD-3-Clause
"""Replayed steps of PyTorch's optimizers: the numbers of each step, whatever computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_nntile

DEVICE = "nntile"
Capture = Callable[[Callable[..., Any]], Any]


def model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(DEVICE)


class Own(torch.optim.AdamW):
    """A user's optimizer."""


OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1),
    "sgd, momentum": lambda p: torch.optim.SGD(p, 0.1, 0.9, weight_decay=0.01, nesterov=True),
    "sgd, fused": lambda p: torch.optim.SGD(p, 0.1, 0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, weight_decay=0.01, amsgrad=True),
    "adam, one by one": lambda p: torch.optim.Adam(p, 0.01, foreach=False),
    "adamw": lambda p: torch.optim.AdamW(p, 0.01, maximize=True),
    "adamw, fused": lambda p: torch.optim.AdamW(p, 0.01, fused=True),
    "nadam": lambda p: torch.optim.NAdam(p, 0.01),
    "radam": lambda p: torch.optim.RAdam(p, 0.01),
    "adamax": lambda p: torch.optim.Adamax(p, 0.01),
    "adagrad": lambda p: torch.optim.Adagrad(p, 0.01, lr_decay=0.1),
    "adadelta": lambda p: torch.optim.Adadelta(p),
    "a user's": lambda p: Own(p, 0.01),
    "ours": lambda p: torch_nntile.training.Adam(p, 0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, 0.01, momentum=0.9, centered=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("schedule", ["none", "each", "some"])
def test_optimizer(name: str, schedule: str) -> None:
    """Learning rates, step counts and bias corrections are those of each step."""

    def trained(capture: Capture) -> tuple[list[Any], Any]:
        torch.manual_seed(0)
        module = model()
        optimizer = OPTIMIZERS[name](
            [
                {"params": list(module[0].parameters())},
                {"params": list(module[2:].parameters()), "lr": 0.02},
            ]
        )
        schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

        @capture
        def step(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = F.mse_loss(module(x), y)
            loss.backward()
            optimizer.step()
            return loss

        seen = []
        for k in range(12):
            x, y = torch.randn(6, 8).to(DEVICE), torch.randn(6, 4).to(DEVICE)
            seen.append(step(x, y).item())
            if schedule == "each" or (schedule == "some" and k == 8):
                schedulers[0].step()
        states = optimizer.state_dict()["state"].values()
        left = [t for state in states for t in state.values() if isinstance(t, Tensor)]
        return seen + [t.tolist() for t in [*module.parameters(), *left]], step

    expected, _ = trained(lambda step: step)
    found, step = trained(torch_nntile.capture)
    assert found == expected
    assert step.replays >= (3 if schedule == "some" else 6), (step.recordings, step.replays)
