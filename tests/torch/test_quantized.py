# SPDX-License-Identifier: BSD-3-Clause
"""Quantised tensors keep their bytes on the device and are computed on the host; fake quantisation trains."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import torch_nntile
from torch_nntile.fallback import fallback_report

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*deprecated"),
    pytest.mark.filterwarnings("ignore:.*runs on the host"),
    pytest.mark.filterwarnings("ignore:Please use quant_min and quant_max"),
]


def numbers(device: str) -> Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(1)).to(device)


def by_tensor(device: str) -> Tensor:
    return torch.quantize_per_tensor(numbers(device), 0.1, 3, torch.quint8)


def by_channel(device: str) -> Tensor:
    scales, zeros = torch.full((4,), 0.1).to(device), torch.arange(4).to(device)
    return torch.quantize_per_channel(numbers(device), scales, zeros, 0, torch.qint8)


USES: dict[str, Callable[[Tensor], Any]] = {
    "dequantize": lambda q: q.dequantize(),
    "int_repr": lambda q: q.int_repr(),
    "back": lambda q: q.cpu().to(q.device).dequantize(),
    "to_cpu": lambda q: q.cpu().dequantize(),
    "scheme": lambda q: q.qscheme() == torch.per_tensor_affine,
    "clone": lambda q: q.clone().dequantize(),
    "copy_": lambda q: q.clone().copy_(q).dequantize(),
    "from_floats": lambda q: q.clone().copy_(numbers(q.device.type)).dequantize(),
    "equal": lambda q: q.equal(q),
    "deepcopy": lambda q: copy.deepcopy(q).dequantize(),
    "pickle": lambda q: pickle.loads(pickle.dumps(q)).dequantize(),
}
BY_TENSOR: dict[str, Callable[[Tensor], Any]] = {
    "view": lambda q: q.view(6, 4).dequantize(),
    "t": lambda q: q.t().dequantize(),
    "row": lambda q: q[1].dequantize(),
    "column": lambda q: q[:, 2].dequantize(),
    "numbers": lambda q: (q.q_scale(), q.q_zero_point()),
    "relu": lambda q: torch.relu(q).dequantize(),
    "relu_": lambda q: q.clone().relu_().dequantize(),
    "cat": lambda q: torch.cat([q, q]).dequantize(),
    "max_pool2d": lambda q: nn.functional.max_pool2d(q[None, None], 2).dequantize(),
    "add": lambda q: torch.ops.quantized.add(q, q, 0.2, 0).dequantize(),
}


@pytest.mark.parametrize("use", [*USES, *BY_TENSOR])
def test_it_is_the_same(use: str) -> None:
    for make in (by_tensor, by_channel)[: 2 if use in USES else 1]:
        call = USES.get(use) or BY_TENSOR[use]
        q = make("nntile")
        assert q.is_quantized and q.device.type == "nntile"
        torch.testing.assert_close(call(q), call(make("cpu")), check_device=False, msg=use)


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))


def test_training_for_quantisation() -> None:
    found = []
    for device in ("nntile", "cpu"):
        model = layers().train()
        model.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")  # type: ignore[assignment]
        model = torch.ao.quantization.prepare_qat(model).to(device)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(numbers(device)).square().sum()
            loss.backward()
            optimizer.step()
        found.append([loss.detach().cpu(), *(x.cpu() for x in model.state_dict().values())])
        assert torch.ao.quantization.convert(model.cpu().eval())
    torch.testing.assert_close(*found)


def test_quantised_layers() -> None:
    q = torch.ao.quantization
    model = nn.Sequential(q.QuantStub(), *layers(), q.DeQuantStub()).eval()
    model.qconfig = torch.ao.quantization.get_default_qconfig("fbgemm")  # type: ignore[assignment]
    model = torch.ao.quantization.prepare(model)
    model(numbers("cpu"))
    model = torch.ao.quantization.convert(model)
    expected = model(numbers("cpu"))
    found = copy.deepcopy(model).to("nntile")(numbers("nntile"))
    assert found.device.type == "nntile"
    torch.testing.assert_close(found.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("m", [1, 7])
def test_weights_of_8_bits(dtype: torch.dtype, m: int) -> None:
    """Weight-only quantisation: the weights are read as they are, nothing runs on the host."""
    torch.manual_seed(0)
    x, scales = torch.randn(m, 300).to(dtype), torch.rand(401).to(dtype)
    weight = torch.randint(-128, 128, (401, 300), dtype=torch.int8)
    exact = (x.double() @ weight.double().t()) * scales.double()
    on_device = [t.to("nntile") for t in (x, weight, scales)]
    torch_nntile.set_axis_group_name(on_device[1], {0: "int8_rows"})
    torch_nntile.set_axis_group_tiling("int8_rows", [150, 251])
    found = torch._weight_int8pack_mm(*on_device)
    assert found.dtype == dtype
    error = (found.cpu().double() - exact).abs().max() / exact.abs().max()
    assert not [line for line in fallback_report() if "int8" in line.overload]
    assert error <= (2e-6 if dtype == torch.float32 else torch.finfo(dtype).eps)


def test_weights_of_8_bits_refuse_what_does_not_fit() -> None:
    x, weight, scales = torch.ones(2, 3), torch.ones(4, 3, dtype=torch.int8), torch.ones(4)
    for bad in (
        (x.double(), weight, scales),
        (x, weight.int(), scales),
        (x, weight[:, :2], scales),
        (x, weight, scales[:3]),
        (x, weight, scales.bfloat16()),
    ):
        for device in ("cpu", "nntile"):
            with pytest.raises(RuntimeError):
                torch._weight_int8pack_mm(*(t.to(device) for t in bad))
