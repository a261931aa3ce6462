# SPDX-License-Identifier: BSD-3-Clause
"""Train a model three times as large as its memory, with the same losses, bit for bit.

The runtime writes the tiles (parts of tensors) that it needs last to a file, and reads them back
before their tasks run.

    python examples/larger_than_memory.py [MiB of parameters and Adam's state, by default 96]
"""

from __future__ import annotations

import sys
import tempfile

import torch
from torch import nn

import torch_nntile as nt

WIDTH = 512


def train(layers: int, **limits: str) -> tuple[list[float], dict[str, int]]:
    nt.init_context(**limits)
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(layers)]
    model = nn.Sequential(*blocks).to("nntile")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(5):
        x = torch.randn(256, WIDTH).to("nntile")
        loss = (model(x) - x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    stats = torch.nntile.memory_stats()
    nt.shutdown_context()
    return losses, stats


def main() -> None:
    size = int(sys.argv[1]) if len(sys.argv) > 1 else 96
    layers = max(1, size * 2**20 // (3 * 4 * WIDTH * (WIDTH + 1)))
    free, unlimited = train(layers)
    with tempfile.TemporaryDirectory() as folder:
        small, limited = train(layers, memory=f"{size // 3}MiB", swap=folder)
    for k, (a, b) in enumerate(zip(free, small, strict=True)):
        print(f"step {k}: loss {a:.8f} in unlimited memory, {b:.8f} in a third")
    for name, stats in (("unlimited", unlimited), ("limited", limited)):
        print(
            f"{name}: at most {stats['reserved_peak_bytes'] / 2**20:.0f} MiB in memory, "
            f"{stats['read_bytes'] / 2**20:.0f} MiB read from the disk, "
            f"{stats['written_bytes'] / 2**20:.0f} MiB written"
        )
    assert free == small, "the losses differ"


if __name__ == "__main__":
    main()
