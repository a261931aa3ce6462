# SPDX-License-Identifier: BSD-3-Clause
"""A step of training: `run` makes it in a budget with a disk, `estimate` says before what that takes.

python estimated_models.py estimate|run MODEL BUDGET FOLDER     BUDGET "": memory for everything
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace

import torch
from stock_models import built
from stock_transformers import ROWS
from torch import Tensor, nn

import torch_nntile as nt

WARM, COUNTED = 3, 3  # steps
WORDS = 2048


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(512, 512, batch_first=True)
        self.out = nn.Linear(512, 512)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.out(self.lstm(x)[0])
        return y


class Gpt(nn.Module):
    """It makes no mask of its own, for which it would look at numbers."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"n_embd": 256, "n_layer": 3, "n_head": 4, "vocab_size": WORDS}
        options = sizes | {"use_cache": False}
        self.model = built(replace(ROWS["gpt2"], options=ROWS["gpt2"].options | options))

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(1, 1, *2 * x.shape[1:], dtype=torch.bool, device=x.device).tril()
        logits: Tensor = self.model(input_ids=x, attention_mask=mask).logits
        return logits


def mlp() -> nn.Module:
    return nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(12)))


def transformer() -> nn.Module:
    layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def convolutions() -> nn.Module:
    first = [nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU()]
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(64 * 16 * 16, 32))


Batch = Callable[[torch.Generator], Tensor]


def numbers(*shape: int) -> Batch:
    return lambda generator: torch.randn(shape, generator=generator)


MODELS: dict[str, tuple[Callable[[], nn.Module], Batch]] = {
    "mlp": (mlp, numbers(256, 512)),
    "transformer": (transformer, numbers(8, 64, 256)),
    "convolutions": (convolutions, numbers(64, 3, 32, 32)),
    "lstm": (Recurrent, numbers(16, 32, 512)),
    "gpt": (Gpt, lambda generator: torch.randint(WORDS, (8, 64), generator=generator)),
}


def step_of(name: str) -> Callable[[], None]:
    build, batch = MODELS[name]
    model = build().to("nntile")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(3)

    def step() -> None:
        model(batch(generator).to("nntile")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def run(name: str) -> dict[str, float]:
    step = step_of(name)
    read, written = [], []
    for _ in range(WARM + COUNTED):
        step()
        nt.wait()
        stats = torch.nntile.memory_stats()
        read.append(stats["read_bytes"])
        written.append(stats["written_bytes"])
    return {
        "peak": stats["peak_bytes"],
        "reserved": stats["reserved_peak_bytes"],
        "read": (read[-1] - read[WARM - 1]) / COUNTED,
        "written": (written[-1] - written[WARM - 1]) / COUNTED,
    }


def estimated(name: str, budget: str) -> dict[str, float]:
    with nt.estimate_only():
        e = nt.estimate(step_of(name), workers=2, memory=budget or None, swap_gbps=3)
    assert torch.nntile.memory_stats()["reserved_peak_bytes"] == 0  # of all of this
    return {
        "peak": e.peak_bytes,
        "reserved": e.memory_peak_bytes if budget else e.reserved_peak_bytes,
        "read": e.read_bytes,
        "written": e.written_bytes,
        "least": e.least_read_bytes + e.least_written_bytes,
    }


def main() -> None:
    what, name, budget, folder = sys.argv[1:]
    torch.manual_seed(0)
    small = {"memory": budget, "swap": folder, "swap_size": "4GiB"}
    nt.init_context(ncpu=2, **(small if budget and what == "run" else {}))  # type: ignore[arg-type]
    print(json.dumps(run(name) if what == "run" else estimated(name, budget)))


if __name__ == "__main__":
    main()
