# SPDX-License-Identifier: BSD-3-Clause
"""torch.autocast on the device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.autocast_test_lists import AutocastTestLists, TestAutocast

import torch_nntile


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_run_lower_and_sums_wide(dtype: torch.dtype) -> None:
    x = torch.ones(2, 4, device="nntile")
    layer = torch.nn.Linear(4, 3).to("nntile")
    with torch.autocast("nntile", dtype=dtype):
        y = layer(x)
        loss = F.cross_entropy(y, torch.tensor([0, 2], device="nntile"))
        assert (y.dtype, (x @ x.t()).dtype, y.relu().dtype) == (dtype, dtype, dtype)
        assert (loss.dtype, y.sum().dtype, y.softmax(1).dtype) == (torch.float32,) * 3
        assert torch.cat([x, y], 1).dtype == torch.float32
    loss.backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32
    assert layer(x).dtype == torch.float32


def test_float64_and_other_devices_are_left_alone() -> None:
    x = torch.ones(2, 2, dtype=torch.float64, device="nntile")
    with torch.autocast("nntile", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float64
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_supported_dtypes() -> None:
    assert torch.nntile.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]


# What PyTorch's lists for accelerators hold, beside the dtype that the call must give, or None where
# it promotes. Losses: some dtypes of targets differ, so only the results are asked.
PYTORCH = {
    "torch_fp16": (torch, torch.float16),
    "torch_fp32": (torch, torch.float32),
    "nn_fp16": (torch._C._nn, torch.float16),
    "nn_fp32": (torch._C._nn, torch.float32),
    "linalg_fp16": (torch._C._linalg, torch.float16),
    "methods_fp16": (None, torch.float16),
    "methods_fp32": (None, torch.float32),
    "torch_need_autocast_promote": (torch, torch.float32),
    "torch_expect_builtin_promote": (torch, None),
    "methods_expect_builtin_promote": (None, None),
}


def cases() -> Iterator[Any]:
    lists = AutocastTestLists("cpu")
    for name in PYTORCH:
        for k, row in enumerate(getattr(lists, name)):
            if not row[0].startswith(("cudnn_", "einsum")):  # the row of einsum() is no call
                yield pytest.param(name, k, id=f"{name}-{row[0]}-{k}")


@pytest.mark.parametrize(("name", "k"), list(cases()))
def test_lists_of_pytorch(name: str, k: int) -> None:
    module, dtype = PYTORCH[name]
    op, args, *rest = getattr(AutocastTestLists("nntile"), name)[k]
    test, out = TestAutocast(), None
    if dtype is None:
        dtype, out = torch.float32, rest.pop()
    kwargs = next((word for word in rest if isinstance(word, dict)), None)
    test._run_autocast_outofplace(
        op, args, dtype, "nntile", out, module, kwargs, amp_dtype=torch.float16
    )


LAYERS = [nn.LSTM, nn.GRU, nn.RNN]


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers_run_lower_as_a_whole(layer: type[nn.LSTM], packed: bool) -> None:
    """As CUDA's do: all results in the lower precision, weights' gradients in float32."""
    torch.manual_seed(0)
    model, x = layer(8, 16), torch.randn(5, 3, 8)
    before = model(x)[0]
    model.to("nntile")
    moved: Any = x.to("nntile")
    if packed:
        moved = nn.utils.rnn.pack_padded_sequence(moved, torch.tensor([5, 5, 5]))
    ops = torch_nntile.stats().ops
    with torch.autocast("nntile", dtype=torch.bfloat16):
        y, last = model(moved)
    assert torch_nntile.stats().ops - ops < 40  # 5 steps would be 100 and more
    data = y.data if packed else y
    assert data.dtype == torch.bfloat16
    assert {state.dtype for state in (last if isinstance(last, tuple) else [last])} == {data.dtype}
    torch.testing.assert_close(data.float().cpu().view_as(before), before, atol=0.02, rtol=0.02)
    data.sum().backward()
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}


def test_a_binary_cross_entropy_is_of_float32() -> None:
    """CUDA refuses it; the CPU, as here, takes it in float32."""
    p = torch.tensor([0.25, 0.5], device="nntile").bfloat16()
    with torch.autocast("nntile", dtype=torch.bfloat16):
        loss = F.binary_cross_entropy(p, torch.ones(2, device="nntile"))
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(1.0397, rel=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_resampling_is_of_float32(mode: str) -> None:
    x = torch.ones(1, 1, 4, 4, device="nntile", dtype=torch.bfloat16)
    with torch.autocast("nntile", dtype=torch.bfloat16):
        assert F.interpolate(x, scale_factor=2, mode=mode).dtype == torch.float32


def test_a_decoder_of_volumes() -> None:
    """Its transposed convolution gets bfloat16 of the layer before it."""
    model = nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.ConvTranspose3d(4, 1, 3)).to("nntile")
    with torch.autocast("nntile", dtype=torch.bfloat16):
        y = model(torch.ones(1, 1, 5, 5, 5, device="nntile"))
    assert y.dtype == torch.bfloat16
    y.sum().backward()
