# SPDX-License-Identifier: BSD-3-Clause
"""Threads that train, processes that load, hooks that raise: for long, in one process."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from long.watch import Watch, passes
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import torch_nntile


def two_threads(rounds: int = 100, steps: int = 20) -> None:
    """Two threads train two models; each gets the losses that it gets alone."""
    torch_nntile.init_context(ncpu=2)
    torch.manual_seed(0)
    x = torch.randn(64, 32).to("nntile")
    y = torch.randint(0, 10, (64,)).to("nntile")
    shared = nn.Linear(32, 32).to("nntile").requires_grad_(False)

    def model_of(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        width = 64 + 16 * seed
        layers = [nn.Linear(32, width), nn.ReLU(), nn.Linear(width, 10)]
        return nn.Sequential(*layers).to("nntile")

    def train(seed: int, model: nn.Module, losses: dict[int, list[float]]) -> None:
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        mine = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(shared(x) + x), y)
            loss.backward()
            optimizer.step()
            mine.append(loss.item())
        losses[seed] = mine

    alone: dict[int, list[float]] = {}
    for seed in (1, 2):
        train(seed, model_of(seed), alone)
    watch = Watch("two threads train two models", rounds)
    for _ in range(rounds):
        together: dict[int, list[float]] = {}
        work = [
            threading.Thread(target=train, args=(seed, model_of(seed), together)) for seed in (1, 2)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert together == alone
        watch.step()
    watch.assert_flat()


class Pairs(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __len__(self) -> int:
        return 256

    def __getitem__(self, i: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.randn(32, generator=torch.Generator().manual_seed(i))
        return x, (x.sum() > 0).long()


def loaders(epochs: int = 10) -> None:
    """Workers by fork and by spawn, started anew in each epoch, after the first op."""
    torch_nntile.init_context(ncpu=2)
    torch.manual_seed(0)
    model = nn.Linear(32, 2).to("nntile")
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    F.cross_entropy(model(torch.ones(4, 32, device="nntile")), torch.zeros(4).long().to("nntile"))
    watch = Watch("loaders by fork and spawn", 2 * epochs)
    for epoch in range(2 * epochs):
        # One of ten is spawned: it takes seconds to import everything.
        how = "spawn" if epoch % 10 == 0 else "fork"
        last = 0.0
        for x, y in DataLoader(
            Pairs(), batch_size=32, num_workers=2, multiprocessing_context=how, timeout=120
        ):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x.to("nntile")), y.to("nntile"))
            loss.backward()
            optimizer.step()
            last = loss.item()
        watch.step()
    assert last < 0.5, last
    watch.assert_flat(slower=6)  # of the parent: starting processes is not its steady state


def hooks(steps: int = 300) -> None:
    """Each third step dies in a hook or in a function's backward; the others know nothing of it."""
    torch_nntile.init_context(ncpu=2)
    torch.manual_seed(0)
    boom = [0]

    def hook(grad: torch.Tensor) -> torch.Tensor:
        if boom[0] == 1:
            raise ValueError("the hook says no")
        return grad

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):  # type: ignore[no-untyped-def,override]
            return a * 1

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def,override]
            if boom[0] == 2:
                raise RuntimeError("the function says no")
            return grad

    def models() -> tuple[nn.Sequential, nn.Sequential]:
        cpu = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        device = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        device.load_state_dict(cpu.state_dict())
        return cpu, device.to("nntile")

    def step(m: nn.Sequential, o: torch.optim.Optimizer, a: torch.Tensor, b: torch.Tensor) -> float:
        o.zero_grad()
        h = m[1](m[0](a))
        h.register_hook(hook)
        loss = F.cross_entropy(m[2](Function.apply(h)), b)
        loss.backward()
        o.step()
        return loss.item()

    reference, model = models()
    x, y = torch.randn(256, 64), torch.randint(0, 10, (256,))
    dx, dy = x.to("nntile"), y.to("nntile")
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    expected = torch.optim.Adam(reference.parameters(), 1e-3)
    watch = Watch("exceptions in hooks", steps)
    for i in range(steps):
        if i % 3 == 1:
            boom[0] = 1 + i % 2
            with pytest.raises((ValueError, RuntimeError), match="says no"):
                step(model, optimizer, dx, dy)
            boom[0] = 0
        ours, theirs = step(model, optimizer, dx, dy), step(reference, expected, x, y)
        assert abs(ours - theirs) < 1e-3, (i, ours, theirs)
        watch.step()
    watch.assert_flat()


PARTS = {f.__name__: f for f in (two_threads, loaders, hooks)}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_threads(part: str) -> None:
    passes(__file__, part)


if __name__ == "__main__":
    PARTS[sys.argv[1]]()
