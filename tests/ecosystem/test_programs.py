# SPDX-License-Identifier: BSD-3-Clause
"""Models as programs of PyTorch's own: TorchScript, torch.export, torch.fx."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torch_nntile  # noqa: F401 - registers the device

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning"),
]


def model() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 16, 5))


def traced(module: nn.Module, x: Tensor) -> Any:
    return torch.jit.trace(module, x).to("nntile")


def scripted(module: nn.Module, x: Tensor) -> Any:
    return torch.jit.script(module.to("nntile"))


def loaded(module: nn.Module, x: Tensor) -> Any:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    file.seek(0)
    return torch.jit.load(file, map_location="nntile")


def exported(module: nn.Module, x: Tensor) -> Any:
    return torch.export.export(module, (x,)).module().to("nntile")


def exported_there(module: nn.Module, x: Tensor) -> Any:
    return torch.export.export(module.to("nntile"), (x.to("nntile"),)).module()


def symbolic(module: nn.Module, x: Tensor) -> Any:
    return torch.fx.symbolic_trace(module).to("nntile")


WAYS: list[Callable[[nn.Module, Tensor], Any]] = [
    *(traced, scripted, loaded, exported, exported_there, symbolic)
]


@pytest.mark.parametrize("way", WAYS)
def test_a_program_trains_as_its_model(way: Callable[[nn.Module, Tensor], Any]) -> None:
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    plain, program = model(), way(model(), x)
    for _ in range(3):  # TorchScript compiles at the second call
        for module in (plain, program):
            module.zero_grad()
        expected, y = plain(x), program(x.to("nntile"))
        torch.testing.assert_close(y.cpu(), expected, atol=1e-4, rtol=1e-4)
        expected.square().sum().backward()
        y.square().sum().backward()
    gradients = dict(program.named_parameters())
    for name, parameter in plain.named_parameters():
        found = gradients[name].grad
        assert found is not None
        torch.testing.assert_close(found.cpu(), parameter.grad, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("way", [scripted, loaded])
def test_a_frozen_program_gives_the_same(way: Callable[[nn.Module, Tensor], Any]) -> None:
    x = torch.randn(4, 3, 8, 8)
    plain = model().eval()
    expected, frozen = plain(x), torch.jit.freeze(way(plain, x))
    for _ in range(3):
        torch.testing.assert_close(frozen(x.to("nntile")).cpu(), expected, atol=1e-4, rtol=1e-4)
