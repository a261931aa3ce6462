# SPDX-License-Identifier: BSD-3-Clause
"""Training loops that are met in programs: what is refused says what to write instead, and that works.

The table of docs/concepts/modes.md has a line for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import torch_nntile

DEVICE = "nntile"
Capture = Callable[[Callable[..., Any]], Any]


class Loop:
    """A model, an optimizer, and what a test makes of them."""

    def __init__(self, make: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(DEVICE)
        self.optimizer = make(self.model.parameters(), lr=0.01)
        self.others: list[nn.Module] = []
        self.captured: Any = None

    def loss(self, x: Tensor, y: Tensor, reduction: str = "mean") -> Tensor:
        return F.cross_entropy(self.model(x), y, reduction=reduction)

    def train(self, call: Callable[[Tensor, Tensor], Tensor]) -> list[Any]:
        generator = torch.Generator().manual_seed(1)
        seen = []
        for _ in range(12):
            x, y = (
                torch.randn(6, 8, generator=generator),
                torch.randint(4, (6,), generator=generator),
            )
            seen.append(call(x.to(DEVICE), y.to(DEVICE)).item())
        left = [p.tolist() for module in (self.model, *self.others) for p in module.parameters()]
        return [*seen, left]


# ---- as it is written first, and what it is told


def counter(loop: Loop) -> Any:
    n = [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = loop.loss(x, y) / 4
        loss.backward()
        n[0] += 1
        if n[0] % 4 == 0:
            loop.optimizer.step()
            loop.optimizer.zero_grad()
        return loss

    return step


def scaler(loop: Loop) -> Any:
    scale = torch.amp.GradScaler(DEVICE)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loop.optimizer.zero_grad()
        loss = loop.loss(x, y)
        scale.scale(loss).backward()
        scale.step(loop.optimizer)
        scale.update()
        return loss

    return step


def averaged(loop: Loop) -> Any:
    average = torch.optim.swa_utils.AveragedModel(loop.model)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = whole(loop, x, y)
        average.update_parameters(loop.model)
        return loss

    return step


def rebound(loop: Loop) -> Any:
    state = {"total": torch.zeros((), device=DEVICE)}

    def step(x: Tensor, y: Tensor) -> Tensor:
        state["total"] = state["total"] + whole(loop, x, y).detach()
        return state["total"]

    return step


def rate_by_hand(loop: Loop) -> Any:
    n = [0]

    def step(x: Tensor, y: Tensor) -> Tensor:
        n[0] += 1
        for group in loop.optimizer.param_groups:
            group["lr"] = 0.01 / n[0]
        return whole(loop, x, y)

    return step


def scheduler(loop: Loop) -> Any:
    schedule = torch.optim.lr_scheduler.ExponentialLR(loop.optimizer, 0.9)

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = whole(loop, x, y)
        schedule.step()
        return loss

    return step


def read(loop: Loop) -> Any:
    return lambda x, y: whole(loop, x, y) * 2 if whole(loop, x, y).item() > 0 else None


def mask(loop: Loop) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        losses = loop.loss(x, y, "none")
        return losses[losses > 1].mean()

    return step


def mask_backward(loop: Loop) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        losses = loop.loss(x, y, "none").clone()
        losses[y > 1] = loop.model[2].bias.sum()
        losses.mean().backward()
        return losses.mean()

    return step


def noise(loop: Loop) -> Any:
    return lambda x, y: whole(loop, x + torch.randn(6, 8).to(DEVICE), y)


def if_finite(loop: Loop) -> Any:
    def step(x: Tensor, y: Tensor) -> Tensor:
        loop.optimizer.zero_grad()
        loss = loop.loss(x, y)
        loss.backward()
        if torch.isfinite(loss):
            loop.optimizer.step()
        return loss

    return step


def lbfgs(loop: Loop) -> Any:
    optimizer = torch.optim.LBFGS(loop.model.parameters(), lr=0.1, max_iter=3)

    def step(x: Tensor, y: Tensor) -> Tensor:
        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = loop.loss(x, y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return step


def whole(loop: Loop, x: Tensor, y: Tensor) -> Tensor:
    loop.optimizer.zero_grad()
    loss = loop.loss(x, y)
    loss.backward()
    loop.optimizer.step()
    return loss


BETWEEN = "between two calls"
REFUSED: list[tuple[Callable[[Loop], Any], str]] = [
    (counter, rf"`n\[0\]` is \d and was \d: change it {BETWEEN}.*is an argument"),
    (scaler, f"call what reads here {BETWEEN}"),
    (averaged, f"call what reads here {BETWEEN}"),
    (rebound, r"`state\['total'\]` is another tensor: write into it in place, or return it"),
    (rate_by_hand, r"changes param_groups\[0\]\['lr'\] of AdamW.*do it outside"),
    (scheduler, r"changes param_groups\[0\]\['lr'\] of AdamW.*do it outside"),
    (read, "return the tensor, and read it outside"),
    (mask, "what a mask selects has a shape that depends on data: use torch.where"),
    (mask_backward, "what a mask selects has a shape that depends on data: use torch.where"),
    (noise, r"other data from the host, read by copy \(.*test_capture_loops.py:\d+\)"),
    (if_finite, "return the tensor, and read it outside"),
    (lbfgs, f"call what reads here {BETWEEN}"),
]


@pytest.mark.parametrize(("make", "advice"), REFUSED, ids=[make.__name__ for make, _ in REFUSED])
def test_a_refusal_says_what_to_write(make: Callable[[Loop], Any], advice: str) -> None:
    loop = Loop()
    step = torch_nntile.capture(make(loop))
    with pytest.raises(RuntimeError, match=advice):
        loop.train(step)


# ---- as it is written then


def flag_is_an_argument(loop: Loop, capture: Capture) -> list[Any]:
    @capture
    def step(x: Tensor, y: Tensor, last: bool) -> Tensor:
        loss = loop.loss(x, y) / 4
        loss.backward()
        if last:
            loop.optimizer.step()
            loop.optimizer.zero_grad()
        return loss

    loop.captured = step
    calls = iter(range(12))
    return loop.train(lambda x, y: step(x, y, next(calls) % 4 == 3))


def optimizer_outside(loop: Loop, capture: Capture) -> list[Any]:
    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = loop.loss(x, y) / 4
        loss.backward()
        return loss

    loop.captured = step
    calls = iter(range(12))

    def call(x: Tensor, y: Tensor) -> Tensor:
        loss = step(x, y)
        if next(calls) % 4 == 3:
            loop.optimizer.step()
            loop.optimizer.zero_grad()
        return loss

    return loop.train(call)


def scaler_outside(loop: Loop, capture: Capture) -> list[Any]:
    scale = torch.amp.GradScaler(DEVICE)

    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        loop.optimizer.zero_grad()
        loss = loop.loss(x, y)
        scale.scale(loss).backward()
        return loss

    loop.captured = step

    def call(x: Tensor, y: Tensor) -> Tensor:
        loss = step(x, y)
        scale.step(loop.optimizer)
        scale.update()
        return loss

    return loop.train(call)


def average_outside(loop: Loop, capture: Capture) -> list[Any]:
    average = torch.optim.swa_utils.AveragedModel(loop.model)
    loop.others.append(average)
    loop.captured = step = capture(lambda x, y: whole(loop, x, y))

    def call(x: Tensor, y: Tensor) -> Tensor:
        loss = step(x, y)
        average.update_parameters(loop.model)
        return loss

    return loop.train(call)


def average_by_lerp(loop: Loop, capture: Capture) -> list[Any]:
    average = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to(DEVICE)
    loop.others.append(average)

    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = whole(loop, x, y)
        with torch.no_grad():
            for mine, new in zip(average.parameters(), loop.model.parameters(), strict=True):
                mine.lerp_(new, 0.1)
        return loss

    loop.captured = step
    return loop.train(step)


def metric_in_place(loop: Loop, capture: Capture) -> list[Any]:
    total = torch.zeros((), device=DEVICE)

    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        total.add_(whole(loop, x, y).detach())
        return total.clone()

    loop.captured = step
    return loop.train(step)


def rate_outside(loop: Loop, capture: Capture) -> list[Any]:
    loop.captured = step = capture(lambda x, y: whole(loop, x, y))
    calls = iter(range(1, 13))

    def call(x: Tensor, y: Tensor) -> Tensor:
        for group in loop.optimizer.param_groups:
            group["lr"] = 0.01 / next(calls)
        return step(x, y)

    return loop.train(call)


def factor_is_a_tensor(loop: Loop, capture: Capture) -> list[Any]:
    @capture
    def step(x: Tensor, y: Tensor, factor: Tensor) -> Tensor:
        loss = loop.loss(x, y) * factor
        loss.backward()
        return loss

    loop.captured = step
    calls = iter(range(12))
    return loop.train(lambda x, y: step(x, y, torch.tensor(1.0 / (1 + next(calls)))))


def weights_for_a_mask(loop: Loop, capture: Capture) -> list[Any]:
    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        loop.optimizer.zero_grad()
        losses = loop.loss(x, y, "none")
        weight = (losses > 1).float()
        loss = (losses * weight).sum() / weight.sum().clamp(min=1)
        loss.backward()
        loop.optimizer.step()
        return loss

    loop.captured = step
    return loop.train(step)


def noise_on_the_device(loop: Loop, capture: Capture) -> list[Any]:
    loop.captured = step = capture(lambda x, y: whole(loop, x + torch.randn_like(x), y))
    return loop.train(step)


def where_finite(loop: Loop, capture: Capture) -> list[Any]:
    @capture
    def step(x: Tensor, y: Tensor) -> Tensor:
        loop.optimizer.zero_grad()
        loss = loop.loss(x, y)
        loss.backward()
        for p in loop.model.parameters():
            assert p.grad is not None
            p.grad = torch.where(torch.isfinite(loss), p.grad, 0.0)
        loop.optimizer.step()
        return loss

    loop.captured = step
    return loop.train(step)


def closure_of_lbfgs(loop: Loop, capture: Capture) -> list[Any]:
    optimizer = torch.optim.LBFGS(loop.model.parameters(), lr=0.1, max_iter=3)

    @capture
    def closure(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = loop.loss(x, y)
        loss.backward()
        return loss

    loop.captured = closure
    return loop.train(lambda x, y: optimizer.step(lambda: closure(x, y)))


WORKING: list[Callable[[Loop, Capture], list[Any]]] = [
    flag_is_an_argument, optimizer_outside, scaler_outside, average_outside, average_by_lerp,
    metric_in_place, rate_outside, factor_is_a_tensor, weights_for_a_mask, noise_on_the_device,
    where_finite, closure_of_lbfgs,
]  # fmt: skip


@pytest.mark.parametrize("program", WORKING, ids=lambda program: program.__name__)
def test_what_to_write_instead(program: Callable[[Loop, Capture], list[Any]]) -> None:
    expected = program(Loop(), lambda function: function)
    loop = Loop()
    assert program(loop, torch_nntile.capture) == expected
    assert loop.captured.replays >= 5, (loop.captured.recordings, loop.captured.why)
