# SPDX-License-Identifier: BSD-3-Clause
"""A stock model and a stock training loop, on the device and on the CPU: the same losses."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import torch_nntile


def spirals(count: int = 1000) -> tuple[Tensor, Tensor]:
    """Two arms of a spiral, and on which arm each point lies."""
    label = torch.arange(count) % 2
    turn = torch.rand(count) * 6 + 1
    angle = turn + label * torch.pi
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], dim=1) / 4
    return points + 0.02 * torch.randn(count, 2), label


def train(model: nn.Module, data: DataLoader[tuple[Tensor, ...]], device: str) -> list[float]:
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(12):
        for x, y in data:
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def main() -> None:
    torch_nntile.init_context(cpu_fallback=False)  # an op without a row is an error now
    torch.manual_seed(0)
    x, y = spirals()
    data = DataLoader(TensorDataset(x, y), batch_size=250)
    model = nn.Sequential(
        nn.Linear(2, 64),
        nn.GELU(),
        nn.Linear(64, 64),
        nn.GELU(),
        nn.LayerNorm(64),
        nn.Linear(64, 2),
    )
    reference = copy.deepcopy(model)

    ours = train(model, data, "nntile")
    theirs = train(reference, data, "cpu")
    with torch.no_grad():
        found = model(x.to("nntile")).argmax(dim=1).cpu()
    accuracy = (found == y).float().mean().item()
    for epoch in range(0, 12, 3):
        print(f"epoch {epoch:2}: nntile {ours[epoch]:.5f}, cpu {theirs[epoch]:.5f}")
    print(f"accuracy {accuracy:.3f}")

    assert accuracy > 0.95
    assert max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) < 1e-2
    # A checkpoint moves freely between devices.
    reference.load_state_dict(model.state_dict())
    assert torch.allclose(reference(x), model(x.to("nntile")).cpu(), atol=1e-4)


if __name__ == "__main__":
    main()
