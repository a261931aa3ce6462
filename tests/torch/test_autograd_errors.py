# SPDX-License-Identifier: BSD-3-Clause
"""Wrong uses of autograd: exceptions of the same class and with the same message as on the CPU."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from parity import runtime_mode
from torch import Tensor


def numbers(*shape: int) -> Tensor:
    return torch.linspace(-1, 2, torch.Size(shape).numel()).reshape(shape).clone()


def leaf(device: str, *shape: int) -> Tensor:
    return numbers(*shape).to(device).requires_grad_()


def changed_leaf(device: str) -> None:
    leaf(device, 3).add_(1)


def changed_view_of_leaf(device: str) -> None:
    leaf(device, 3)[0] = 1


def changed_saved(device: str) -> None:
    y = leaf(device, 3).exp()
    y.add_(1)
    y.sum().backward()


def changed_saved_by_its_view(device: str) -> None:
    y = leaf(device, 3, 2).sigmoid()
    y[0].zero_()
    y.sum().backward()


def changed_unbound(device: str) -> None:
    parts = (leaf(device, 3, 2) * 2).unbind()
    parts[0].add_(1)


def not_a_scalar(device: str) -> None:
    (leaf(device, 3) * 2).backward()


def no_grad_at_all(device: str) -> None:
    numbers(3).to(device).sum().backward()


def unused(device: str) -> None:
    a, b = leaf(device, 2), leaf(device, 2)
    torch.autograd.grad(a.sum(), b)


def integers(device: str) -> None:
    torch.ones(3, dtype=torch.int64, device=device, requires_grad=True)


def changed_inference(device: str) -> None:
    with torch.inference_mode():
        x = torch.ones(3, device=device)
    x.add_(1)


def copied_result(device: str) -> None:
    copy.deepcopy(leaf(device, 3) * 2)


def wrong_grad(device: str) -> None:
    leaf(device, 3).grad = torch.ones(4, device=device)


def from_python(device: str) -> None:
    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, dy: Tensor) -> Tensor:
            raise KeyError("in backward")

    Bad.apply(leaf(device, 3)).sum().backward()


ERRORS = (
    *(changed_leaf, changed_view_of_leaf, changed_saved, changed_saved_by_its_view),
    *(changed_unbound, not_a_scalar, no_grad_at_all, unused, integers),
    *(changed_inference, copied_result, wrong_grad, from_python),
)


def message(error: BaseException) -> str:
    """Without what may differ: names of devices and tensor classes."""
    return re.sub(r"torch\.\w*FloatTensor|nntileFloatType|nntile:0|cpu", "", str(error))


@pytest.mark.parametrize("mode", ["eager", "graph"])
@pytest.mark.parametrize("call", ERRORS, ids=lambda call: call.__name__)
def test_errors_are_those_of_the_cpu(call: Callable[[str], None], mode: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - the class is compared below
        call("cpu")
    with runtime_mode(mode), pytest.raises(expected.type) as found:
        call("nntile")
    assert message(found.value) == message(expected.value)
