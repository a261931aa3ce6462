# SPDX-License-Identifier: BSD-3-Clause
"""A training step that is captured: its Python code runs a few times, then its graph is replayed."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_nntile

STEPS = 12


def train(
    model: nn.Module, data: list[tuple[Tensor, Tensor]], *, captured: bool
) -> tuple[list[float], Callable[..., Tensor] | torch_nntile.Captured]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    called = torch_nntile.capture(step) if captured else step
    losses = []
    for x, y in data:
        before = torch_nntile.stats()
        losses.append(called(x, y).item())  # a read is outside of the step
        scheduler.step()  # and so is what changes numbers of Python
        after = torch_nntile.stats()
        if captured:
            print(f"loss {losses[-1]:.4f}: {after.ops - before.ops} ops recorded")
    return losses, called


def main() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 5))
    plain = plain.to("nntile")
    model = copy.deepcopy(plain)
    data = [(torch.randn(32, 20), torch.randint(5, (32,))) for _ in range(STEPS)]
    on_device = [(x.to("nntile"), y.to("nntile")) for x, y in data]

    torch.manual_seed(1)  # the same dropout for both
    expected, _ = train(plain, on_device, captured=False)
    torch.manual_seed(1)
    losses, step = train(model, on_device, captured=True)

    assert losses == expected, "the same bits"
    assert isinstance(step, torch_nntile.Captured)
    print(f"{step.recordings} calls were recorded, {step.replays} replayed")
    assert step.replays >= STEPS - 4


if __name__ == "__main__":
    main()
