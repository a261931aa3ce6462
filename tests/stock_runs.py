# SPDX-License-Identifier: BSD-3-Clause
"""Training and generation of the models of stock_models.py, on the device and on the CPU, compared.

>>> assert_trains_as_on_the_cpu(family("gpt2"), "AdamW", "captured")
>>> assert_generates("gpt2")
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import stock_models
import torch
from parity import tolerance
from stock_models import Family, family, loss_of, moved
from torch import Tensor, nn

import torch_nntile

__all__ = [
    "OPTIMIZERS",
    "STEPS",
    "WAYS",
    "Training",
    "assert_generates",
    "assert_trains_as_on_the_cpu",
    "dtype_of",
    "generator_of",
    "host_overloads",
    "seed",
    "trained",
    "words",
]

STEPS = 3
# A way to call the model -> how many steps: what is captured is replayed after two of the same kind.
WAYS = {"eager": STEPS, "captured": 2 * STEPS, "compiled": STEPS}

# By name: the optimizer, and how much of what a step changes may differ. An eps above the rounding of
# float32: where a gradient is nothing else (the bias of keys), Adam's default makes a whole step of it.
OPTIMIZERS: dict[str, tuple[Callable[[Iterator[nn.Parameter]], torch.optim.Optimizer], float]] = {
    "AdamW": (lambda p: torch.optim.AdamW(p, lr=1e-3, eps=1e-5), 0.02),
    "SGD": (lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), 0.001),
}


def seed(value: int) -> None:
    torch.manual_seed(value)
    np.random.seed(value)
    random.seed(value)


def dtype_of(family: Family) -> torch.dtype:
    return torch.float64 if family.double else torch.float32


def host_overloads() -> list[str]:
    """What ran on the host since the report was reset."""
    return sorted(r.overload.removeprefix("aten::") for r in torch_nntile.fallback_report())


class Training:
    """Steps of a model: `step()` gives the loss as a tensor."""

    def __init__(self, family: Family, model: nn.Module, device: str, optimizer: str, way: str):
        self.model, self.inputs = model.to(device), moved(family.inputs(), device, dtype_of(family))
        self.optimizer = OPTIMIZERS[optimizer][0](self.model.parameters())
        self.called: Any = self.model
        if way == "compiled":
            torch._dynamo.reset()
            self.called = torch.compile(self.model, backend="nntile")
        self.step: Any = torch_nntile.capture(self._step) if way == "captured" else self._step

    def _step(self) -> Tensor:
        self.optimizer.zero_grad()
        loss = loss_of(self.called, self.inputs)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def trained(
    family: Family,
    model: nn.Module,
    device: str,
    optimizer: str,
    way: str = "eager",
    steps: int = 0,
) -> list[float]:
    training = Training(family, model, device, optimizer, way)
    seed(1)
    losses = [training.step().item() for _ in range(steps or WAYS[way])]
    if way == "captured":
        assert training.step.replays > 0, "each step was recorded, none replayed"
    return losses


def changes(model: nn.Module, before: dict[str, Tensor]) -> dict[str, Tensor]:
    """What training did to parameters and buffers; numbers that count steps are left out."""
    return {
        name: x.detach().cpu().double() - before[name].double()
        for name, x in model.state_dict().items()
        if x.is_floating_point() and x.numel()
    }


def assert_trains_as_on_the_cpu(family: Family, optimizer: str, way: str = "eager") -> None:
    seed(0)
    on_cpu = family.build().to(dtype_of(family)).train()
    on_device = copy.deepcopy(on_cpu)
    before = {name: x.clone() for name, x in on_cpu.state_dict().items()}
    expected = trained(family, on_cpu, "cpu", optimizer, steps=WAYS[way])
    found = trained(family, on_device, "nntile", optimizer, way)
    assert all(math.isfinite(loss) for loss in expected)
    # Rounding grows from layer to layer and from step to step: as a sum of ten thousand terms.
    assert found == pytest.approx(expected, rel=tolerance(torch.float32, 10_000), abs=1e-6)

    ours, theirs = changes(on_device, before), changes(on_cpu, before)
    assert ours.keys() == theirs.keys()
    sizes = {name: x.abs().max().item() for name, x in theirs.items()}
    usual = sorted(sizes.values())[len(sizes) // 2]
    assert usual > 0, "nothing was trained"
    for name, x in theirs.items():
        allowed = OPTIMIZERS[optimizer][1] * max(sizes[name], usual)
        difference = (ours[name] - x).abs().max().item()
        assert difference <= allowed, f"{name}: {difference:.1e} of {sizes[name]:.1e}"
    host = ", ".join(host_overloads())
    print(f"{family.name}, {optimizer}, {way}: losses {found}; on the host: {host or 'nothing'}")


# ---- words

SEARCHES: dict[str, dict[str, object]] = {
    "greedy": {},
    "greedy without cache": {"use_cache": False},
    "beam": {"num_beams": 3},
}


def generator_of(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model whose next words are clear enough to compare, and what it starts from."""
    seed(0)
    model, inputs = family(name).build().eval(), family(name).inputs()
    model.config.update({"output_router_logits": False})  # only its training takes a mask
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(4)
    return model, {k: v for k, v in inputs.items() if k in stock_models.PROMPTS}


@torch.no_grad()
def words(model: nn.Module, prompt: dict[str, Tensor], **options: object) -> Tensor:
    torch.manual_seed(7)
    device = next(model.parameters()).device.type
    generate: Any = model.generate
    found: Tensor = generate(
        **moved(prompt, device), max_new_tokens=8, **({"do_sample": False} | options)
    )
    return found.cpu()


def assert_generates(name: str) -> None:
    """The words of the CPU, by each search; drawn ones repeat, as numbers of a seed are others there."""
    model, prompt = generator_of(name)
    expected = {way: words(model, prompt, **options) for way, options in SEARCHES.items()}
    model.to("nntile")
    for way, options in SEARCHES.items():
        assert torch.equal(words(model, prompt, **options), expected[way]), way
    for cache in (True, False):
        assert_draws_again(model, prompt, use_cache=cache)


def assert_draws_again(model: nn.Module, prompt: dict[str, Tensor], **options: object) -> None:
    drawn = [
        words(model, prompt, do_sample=True, temperature=0.8, top_k=20, top_p=0.9, **options)
        for _ in range(2)
    ]
    assert torch.equal(*drawn)
