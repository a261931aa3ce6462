# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile(backend="nntile"): AOTAutograd's graphs are recorded once, then replayed."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

import torch_nntile


def main() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 5))
    plain = plain.to("nntile")
    model = copy.deepcopy(plain)
    compiled = torch.compile(model, backend="nntile", dynamic=True)

    losses: dict[str, list[float]] = {}
    for name, owner, call in (("plain", plain, plain), ("compiled", model, compiled)):
        torch.manual_seed(1)
        optimizer = torch.optim.SGD(owner.parameters(), lr=0.1)
        losses[name] = []
        for rows in (32, 24, 32, 24, 32, 24):  # two sizes, one graph of Dynamo
            x = torch.randn(rows, 20).to("nntile")
            y = torch.randint(5, (rows,)).to("nntile")
            before = torch_nntile.stats()
            optimizer.zero_grad()
            loss = F.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
            after = torch_nntile.stats()
            print(f"{name}: loss {losses[name][-1]:.4f}, {after.ops - before.ops} ops recorded")
    assert losses["compiled"] == losses["plain"], "the same bits"


if __name__ == "__main__":
    main()
