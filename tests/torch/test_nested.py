# SPDX-License-Identifier: BSD-3-Clause
"""Nested tensors of the strided layout, which torch.nn makes of padded batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import torch_nntile  # noqa: F401

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:.*runs on the host"),
]

LENGTHS = (4, 0, 3)


def sequences(device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(n, 2, generator=generator).to(device) for n in LENGTHS]


def nested(device: str) -> Tensor:
    return torch.nested.as_nested_tensor(sequences(device))


def fresh(x: Tensor) -> Tensor:
    result: Tensor = x.clone()
    return result


USES: dict[str, Callable[[Tensor], Any]] = {
    "unbind": lambda x: list(x.unbind()),
    "select": lambda x: x[2],
    "transpose": lambda x: x.transpose(1, 2).contiguous().unbind()[0],
    "to_padded_tensor": lambda x: x.to_padded_tensor(-1.0),
    "to_padded_tensor_size": lambda x: x.to_padded_tensor(0.0, (3, 6, 2)),
    "double": lambda x: x.double().unbind()[2],
    "add": lambda x: (x + x).unbind()[0],
    "relu_": lambda x: [y := fresh(x), y.relu_() is y, *y.unbind()][2:],
    "mul_number": lambda x: (x * 3).unbind()[2],
    "zero_": lambda x: fresh(x).zero_().unbind()[0],
    "zeros_like": lambda x: torch.zeros_like(x).unbind()[0],
    "softmax": lambda x: x.softmax(-1).unbind()[0],
    "linear": lambda x: torch.nn.functional.linear(x, x[2][:2]).unbind()[0],
    "write_through_a_view": lambda x: [y := fresh(x), y[0].fill_(2), y.unbind()[0]][2:],
    "copy_": lambda x: fresh(x).zero_().copy_(x).unbind()[0],
    "sizes": lambda x: x._nested_tensor_size(),
}


@pytest.mark.parametrize("use", USES)
def test_it_is_the_same(use: str) -> None:
    found, expected = (USES[use](nested(device)) for device in ("nntile", "cpu"))
    torch.testing.assert_close(found, expected, check_device=False, msg=use)


def test_moves() -> None:
    x = torch.nested.as_nested_tensor(sequences("cpu")).to("nntile")
    assert x.is_nested and x.device.type == "nntile"
    back = x.cpu()
    assert back.is_nested and back.device.type == "cpu"
    for found, expected in zip(back.unbind(), sequences("cpu"), strict=True):
        torch.testing.assert_close(found, expected)


def test_an_error_is_pytorchs() -> None:
    for device in ("cpu", "nntile"):
        with pytest.raises(RuntimeError, match="add does not support broadcasting"):
            nested(device) + torch.nested.as_nested_tensor(sequences(device)[:2])
    assert nested("nntile").unbind()[0].shape == (4, 2)


def test_gradients_of_its_parts() -> None:
    grads = []
    for device in ("nntile", "cpu"):
        parts = [x.requires_grad_() for x in sequences(device)]
        torch.nested.as_nested_tensor(parts).to_padded_tensor(0.0).square().sum().backward()
        grads.append([x.grad.cpu() for x in parts if x.grad is not None])
    torch.testing.assert_close(*grads)
