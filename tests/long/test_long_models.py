# SPDX-License-Identifier: BSD-3-Clause
"""Models of changing shapes, one after another, in one process."""

from __future__ import annotations

import time

import pytest
import torch
from long.watch import Watch, passes
from torch import nn
from torch.nn import functional as F

import torch_nntile

MODELS, STEPS = 20, 30


def model_of(i: int) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """A model, an input and labels: four kinds by turns, each time of other sizes."""
    torch.manual_seed(i)
    h = 48 + 8 * i
    batch = 32 + i
    if i % 4 == 0:
        layers = [nn.Linear(h, 2 * h), nn.ReLU(), nn.Linear(2 * h, h), nn.LayerNorm(h)]
        m, x = nn.Sequential(*layers, nn.Linear(h, 10)), torch.randn(batch, h)
    elif i % 4 == 1:
        c = 8 + i % 5
        layers = [nn.Conv2d(3, c, 3, padding=1), nn.BatchNorm2d(c), nn.ReLU(), nn.MaxPool2d(2)]
        m = nn.Sequential(*layers, nn.Flatten(), nn.Linear(c * 64, 10))
        x = torch.randn(batch, 3, 16, 16)
    elif i % 4 == 2:
        layer = nn.TransformerEncoderLayer(64, 4, 128 + i, 0.0, batch_first=True)
        n = 8 + i
        m = nn.Sequential(nn.Embedding(100, 64), layer, nn.Flatten(), nn.Linear(64 * n, 10))
        x = torch.randint(0, 100, (8, n))
    else:
        layers = [nn.Linear(h, h), nn.GELU(), nn.Dropout(0.1), nn.Linear(h, 10)]
        m, x = nn.Sequential(*layers), torch.randn(batch, h)
    return m, x, torch.randint(0, 10, (x.shape[0],))


def train(i: int) -> float:
    """Best CPU time of a step, in ms."""
    model, x, y = model_of(i)
    model.to("nntile")
    x, y = x.to("nntile"), y.to("nntile")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    best, losses = float("inf"), []
    for _ in range(STEPS):
        begin = time.process_time()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        best = min(best, time.process_time() - begin)
    assert losses[-1] < losses[0], losses
    return best * 1e3


def main() -> None:
    torch_nntile.init_context(ncpu=2)
    before = train(0)
    watch = Watch("models of changing shapes", MODELS)
    for i in range(MODELS):
        train(i)
        watch.step()
    # Four kinds of models differ in time; the first one is timed again.
    watch.assert_flat(plans=False, lowerings=False, slower=6)
    after = min(train(0) for _ in range(3))  # workers that poll cost as much again, by chance
    print(f"the first model: {before:.2f} ms of CPU a step, after the others {after:.2f}")
    assert after < 1.5 * before + 0.5


@pytest.mark.slow
def test_models_of_changing_shapes() -> None:
    passes(__file__)


if __name__ == "__main__":
    main()
