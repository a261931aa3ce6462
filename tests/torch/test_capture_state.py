# SPDX-License-Identifier: BSD-3-Clause
"""State of Python that a captured step reads or changes: seen, or refused with what to write instead."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import torch_nntile

DEVICE = "nntile"


def repeat(step: Callable[[Tensor], Any], between: Callable[[], None] = lambda: None) -> None:
    for _ in range(9):
        between()
        step(torch.ones(2, device=DEVICE))


@pytest.mark.parametrize(
    "make", [itertools.count, lambda: iter(range(100)), lambda: (k for k in range(100))]
)
def test_an_iterator_is_refused(make: Callable[[], Any]) -> None:
    numbers = make()

    @torch_nntile.capture
    def step(x: Tensor) -> Tensor:
        return x * 2 if next(numbers) > 20 else x

    with pytest.raises(RuntimeError, match=r"changes Python state.*`numbers`"):
        repeat(step)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: __import__("random").random() < 2,
        lambda: np.random.rand() < 2,
        lambda: bool(torch.rand(()) < 2),
    ],
    ids=["random", "numpy", "torch"],
)
def test_a_decision_by_lot_is_refused(draw: Callable[[], bool]) -> None:
    step = torch_nntile.capture(lambda x: x * 2 if draw() else x)
    with pytest.raises(RuntimeError, match="draws random numbers on the CPU"):
        repeat(step)


def test_a_scheduler_inside_whose_rate_does_not_change_yet() -> None:
    weight = nn.Parameter(torch.ones(2, device=DEVICE))
    optimizer = torch.optim.SGD([weight], 0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 20)

    @torch_nntile.capture
    def step(x: Tensor) -> None:
        (weight * x).sum().backward()
        optimizer.step()
        scheduler.step()

    with pytest.raises(RuntimeError, match=r"changes Python state.*`scheduler\.\w+` is \d and was"):
        repeat(step)


def test_a_rate_that_decides() -> None:
    """A hyperparameter that only the step's own code looks at."""

    def run(capture: Any) -> list[Any]:
        weight = nn.Parameter(torch.ones(2, device=DEVICE))
        optimizer = torch.optim.SGD([weight], 1.0)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.8)

        @capture
        def step(x: Tensor) -> Any:
            loss = (weight * x).sum()
            if optimizer.param_groups[0]["lr"] < 0.3:
                loss = loss * 2
            loss.backward()
            optimizer.step()
            return loss

        seen = []
        for _ in range(12):
            seen.append(step(torch.ones(2, device=DEVICE)).item())
            scheduler.step()
        return [*seen, weight.tolist()]

    assert run(torch_nntile.capture) == run(lambda function: function)


def test_a_rate_that_is_returned() -> None:
    weight = nn.Parameter(torch.ones(2, device=DEVICE))
    optimizer = torch.optim.SGD([weight], 1.0)

    @torch_nntile.capture
    def step(x: Tensor) -> tuple[Tensor, float]:
        (weight * x).sum().backward()
        optimizer.step()
        return weight * 1, optimizer.param_groups[0]["lr"]

    for k in range(12):
        optimizer.param_groups[0]["lr"] = 1.0 / (1 + k // 4)
        assert step(torch.ones(2, device=DEVICE))[1] == 1.0 / (1 + k // 4)
    assert step.replays


def test_a_replay_does_not_append() -> None:
    kept: list[Any] = []

    @torch_nntile.capture
    def step(x: Tensor) -> Tensor:
        kept.append(x + 1)
        return x * 2

    with pytest.raises(
        RuntimeError, match="`kept` has 5 items and had 4: do that between two calls"
    ):
        repeat(step)


def test_what_changes_each_time_is_refused_in_the_end() -> None:
    n = [0]
    step = torch_nntile.capture(lambda x: x * 2 if n[0] < 1000 else x)
    with pytest.raises(RuntimeError, match=r"cannot be replayed.*`n\[0\]` is \d and was \d"):
        repeat(step, lambda: n.__setitem__(0, n[0] + 1))


def test_a_rebound_tensor_is_read() -> None:
    """A closure's tensor that is another one from the sixth call on."""
    scale = torch.full((2,), 2.0, device=DEVICE)
    step = torch_nntile.capture(lambda x: x * scale)
    seen = []
    for k in range(9):
        if k == 5:
            scale = torch.full((2,), 3.0, device=DEVICE)
        seen.append(step(torch.ones(2, device=DEVICE)).tolist()[0])
    assert seen == [2.0] * 5 + [3.0] * 4
    assert step.replays == 5


def test_modules_that_the_function_makes_itself() -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.Sequential(nn.Sequential(nn.ReLU()), nn.MSELoss(reduction="sum"))[0](x)

    model = Model()
    step = torch_nntile.capture(lambda x: nn.Sequential(nn.Tanh())(model(x)))
    for _ in range(6):
        step(torch.ones(2, device=DEVICE))
    assert step.replays == 4


# ---- many kinds of arguments


def test_lengths_in_turn_are_all_kept() -> None:
    step = torch_nntile.capture(lambda x: x * 2 + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            for length in range(10, 102, 2):
                assert step(torch.ones(length, device=DEVICE)).shape == (length,)
    assert (step.recordings, step.replays) == (2 * 46, 2 * 46)


def test_who_drops_recordings_says_so_once() -> None:
    step = torch_nntile.capture(signatures=2)(lambda x: x * 2)
    with pytest.warns(UserWarning, match="drops recordings of the arguments") as found:
        [step(torch.ones(length, device=DEVICE)) for length in (1, 2, 3, 4) * 3]
    assert [w.filename for w in found] == [__file__]


def test_a_number_as_an_argument_says_that_nothing_is_replayed() -> None:
    step = torch_nntile.capture(lambda x, factor: x * factor)
    with pytest.warns(UserWarning, match="was recorded 128 times and never replayed.*as tensors"):
        seen = [step(torch.ones(1, device=DEVICE), float(k)).item() for k in range(130)]
    assert seen == list(range(130))


def test_gradients_that_a_function_only_drops() -> None:
    weights = [nn.Parameter(torch.ones(2, device=DEVICE)) for _ in range(2)]

    @torch_nntile.capture
    def step(x: Tensor) -> Tensor:
        for weight in weights:
            weight.grad = None
        loss = (weights[0] * x).sum()
        loss.backward()
        return loss

    for _ in range(6):
        for weight in weights:
            weight.grad = torch.ones(2, device=DEVICE)
        step(torch.full((2,), 3.0, device=DEVICE))
        assert weights[1].grad is None
        assert weights[0].grad is not None
        assert weights[0].grad.tolist() == [3.0, 3.0]
    assert step.replays >= 3
