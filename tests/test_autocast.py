# SPDX-License-Identifier: BSD-3-Clause
"""torch.autocast on the device."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import torch_nntile  # noqa: F401 - registers the device


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
