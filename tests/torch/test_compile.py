# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile: what AOTAutograd makes of a program, functionalised, runs here, and is replayed.

Storages that are resized in a compiled function are those of FSDP: full parameters are freed after
use and made again before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import assert_close, runtime_mode
from torch import Tensor, nn

Function = Callable[[Tensor, Tensor], Any]


def views_and_writes(x: Tensor, y: Tensor) -> Any:
    x.add_(1)
    x.view(-1)[2:5].mul_(2)
    x.t()[0].copy_(y[1])
    return x @ y, x.sum(1)


def freed(x: Tensor, y: Tensor) -> Any:
    result = x * 2 + y
    x.untyped_storage().resize_(0)
    return result


def made_again(x: Tensor, y: Tensor) -> Any:
    x.untyped_storage().resize_(y.numel() * 4)
    x.copy_(y)
    return x * 2


def made_again_and_freed(x: Tensor, y: Tensor) -> Any:
    x.untyped_storage().resize_(y.numel() * 4)
    x.copy_(y)
    result = x @ y
    x.untyped_storage().resize_(0)
    return result


BACKENDS = ("aot_eager", "nntile")
STARTS_FREED = (made_again, made_again_and_freed)


def outcome(function: Function, device: str, backend: str | None) -> list[Any]:
    """Results of a third call, and what the function left in its argument."""
    torch._dynamo.reset()
    called = torch.compile(function, backend=backend, fullgraph=True) if backend else function
    for _ in range(3):
        x = torch.arange(9.0).reshape(3, 3).to(device)
        y = (torch.arange(9.0) % 4).reshape(3, 3).to(device)
        if function in STARTS_FREED:
            x.untyped_storage().resize_(0)
        with torch.no_grad():
            results = called(x, y)
    size = x.untyped_storage().size()
    left = [x.tolist()] if size else []
    results = results if isinstance(results, tuple) else (results,)
    return [size, *left, *(result.tolist() for result in results)]


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize(
    ("function", "backend"),
    [
        *((views_and_writes, backend) for backend in BACKENDS),
        *((freed, backend) for backend in BACKENDS),
        *((made_again, backend) for backend in BACKENDS),
        *((function, None) for function in (freed, made_again, made_again_and_freed)),
    ],
)
def test_as_on_the_cpu(function: Function, backend: str | None, mode: str) -> None:
    expected = outcome(function, "cpu", backend and "aot_eager")
    with runtime_mode(mode):
        assert outcome(function, "nntile", backend) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_freeing_of_what_was_made_again_is_refused(backend: str) -> None:
    """PyTorch 2.13 then copies from the freed storage: the CPU crashes there."""
    with pytest.raises(RuntimeError, match="out of bounds of its storage of 0 bytes"):
        outcome(made_again_and_freed, "nntile", backend)
    assert torch.ones(2, device="nntile").sum().item() == 2  # the next call works


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_a_compiled_model_trains(mode: str, backend: str) -> None:
    losses: dict[str, list[float]] = {}
    for device in ("cpu", "nntile"):
        torch._dynamo.reset()
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 5), nn.LayerNorm(5), nn.GELU(), nn.Linear(5, 3))
        model = model.to(device)
        x, y = torch.randn(8, 6).to(device), (torch.arange(8) % 3).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        compiled = torch.compile(model, backend=backend if device == "nntile" else "aot_eager")
        losses[device] = []
        with runtime_mode(mode):
            for _ in range(5):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(compiled(x), y)
                loss.backward()
                optimizer.step()
                losses[device].append(loss.item())
    assert_close(torch.tensor(losses["nntile"]), torch.tensor(losses["cpu"]), length=64)
