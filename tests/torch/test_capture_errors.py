# SPDX-License-Identifier: BSD-3-Clause
"""torch_nntile.capture: what cannot be captured says so, and the next call works."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from parity import runtime_mode
from torch import Tensor, nn

import torch_nntile

DEVICE = "nntile"


class Stateful(nn.Module):
    """Replaces a tensor that it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = torch.zeros(3, device=DEVICE)

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + x
        return self.seen * 1


class Growing(nn.Module):
    """Computes with a number of Python that changes."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * (self.calls + 0.25)


def from_host() -> Callable[[Tensor], Tensor]:
    return lambda x: x + torch.randn(3).to(DEVICE)


def of_other_shape() -> Callable[[Tensor], Tensor]:
    made: list[Any] = []

    def function(x: Tensor) -> Tensor:
        made.append(None)
        return x.repeat(len(made))

    return function


def on_the_host() -> Callable[[Tensor], Tensor]:
    return lambda x: torch.poisson(x)


def with_own_generator() -> Callable[[Tensor], Tensor]:
    own = torch.Generator(device=DEVICE)
    return lambda x: x + torch.rand(3, device=DEVICE, generator=own)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (Stateful, "no argument and is gone"),
        (Growing, "`Growing.calls` is 5 and was 4: change it between two calls.*other numbers"),
        (from_host, "data from the host"),
        (of_other_shape, "`made` has 5 items and had 4.*other ops or shapes: copy .*.py:.* takes"),
        (on_the_host, "random numbers on the host"),
        (with_own_generator, "random numbers on the host, of another generator"),
    ],
)
def test_what_changes_by_itself_is_refused(make: Callable[[], Any], reason: str) -> None:
    """After five true calls; the results of these were right."""
    function, twin = make(), make()
    captured = torch_nntile.capture(function)
    x = torch.ones(3, device=DEVICE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(4):
            found = captured(x)
            if make in (Stateful, Growing, of_other_shape):
                assert found.tolist() == twin(x).tolist(), k
        with pytest.raises(RuntimeError, match=f"cannot be replayed.*{reason}"):
            captured(x)
    assert (x + 1).tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.sum().item(),
        str,
        lambda x: x + 1 if x.sum() > 0 else x,
        lambda x: x.cpu(),
        lambda x: torch_nntile.run_graph(),
        lambda x: torch.accelerator.synchronize(),
    ],
    ids=["item", "str", "if", "cpu", "run", "synchronize"],
)
def test_a_read_is_refused_at_its_line(read: Callable[[Tensor], Any]) -> None:
    function = torch_nntile.capture(lambda x: read(x.add_(1)))
    x = torch.zeros(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="captured function"):
        function(x)
    assert x.tolist() == [1.0] * 3  # what was called before has happened
    assert (x + 1).tolist() == [2.0] * 3


def test_a_scheduler_inside_is_refused() -> None:
    layer = nn.Linear(8, 4).to(DEVICE)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    @torch_nntile.capture
    def step(x: Tensor) -> Tensor:
        loss = F.relu(layer(x)).sum()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss

    with pytest.raises(
        RuntimeError, match=r"param_groups\[0\]\['lr'\] of SGD from .* to 0.0015625"
    ):
        [step(torch.randn(3, 8).to(DEVICE)) for _ in range(6)]  # the first finds no gradients
    assert optimizer.param_groups[0]["lr"] == 0.1 / 64  # true calls


@pytest.mark.parametrize("wrong", [3, "step"])
def test_only_functions(wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected a function"):
        torch_nntile.capture(wrong)
    with pytest.raises(ValueError, match="signatures must be 1 or more"):
        torch_nntile.capture(len, signatures=0)


def test_method_and_names() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.weight = torch.full((2,), 2.0).to(DEVICE)

        @torch_nntile.capture
        def scaled(self, x: Tensor) -> Tensor:
            """Documented."""
            return x * self.weight

    trainers = [Trainer(), Trainer()]
    trainers[1].weight.mul_(2)
    x = torch.ones(2, device=DEVICE)
    for _ in range(4):
        assert [t.scaled(x).tolist() for t in trainers] == [[2.0, 2.0], [4.0, 4.0]]
    assert Trainer.scaled.__doc__ == "Documented."
    assert Trainer.scaled.replays >= 2


def test_mode_is_not_changed_inside() -> None:
    with runtime_mode("graph"):
        assert torch_nntile.capture(lambda x: x + 1)(torch.ones(2, device=DEVICE)).tolist() == [
            2,
            2,
        ]
        assert torch_nntile.runtime_mode() == "graph"


def test_why_a_call_was_recorded_again() -> None:
    factor = 2.0

    @torch_nntile.capture
    def scaled(x: Tensor) -> Tensor:
        return x * factor

    x, whys = torch.ones(3, device=DEVICE), []
    for factor in (2.0, 3.0, 3.0, 3.0, 4.0):  # noqa: B007  read by the function
        y = scaled(x)
        whys.append(scaled.why)
    assert whys[0] == "the first of its kind"
    place = r"other numbers: mul \(.*test_capture_errors.py:\d+\) with \w.* = 3, it was 2"
    assert re.fullmatch(place + "; `factor` is 3.0 and was 2.0", whys[1])
    assert whys[2:4] == ["", ""]
    assert re.match("other numbers: mul .* = 4, it was 3; `factor` is 4.0", whys[4])
    assert (scaled.recordings, scaled.replays, y.tolist()) == (4, 1, [4.0] * 3)
