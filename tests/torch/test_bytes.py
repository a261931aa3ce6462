# SPDX-License-Identifier: BSD-3-Clause
"""One storage seen as several dtypes, of which some do not divide its size: no byte is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from parity import runtime_mode
from torch import Tensor

BOTH = pytest.mark.parametrize("mode", ["eager", "graph"])


def undefined(device: str) -> Tensor:
    x = torch.empty(14, dtype=torch.uint8, device=device)
    x[:12].view(torch.float32).fill_(1)
    x[12:] = 7
    return x


def strided(device: str) -> Tensor:
    x = torch.arange(15, dtype=torch.uint8, device=device)
    x[2:10].view(torch.float16)[::2] += 1
    return x


def transposed(device: str) -> Tensor:
    x = torch.ones(22, dtype=torch.uint8, device=device)
    x[:16].view(torch.float32).view(2, 2).t().copy_(torch.arange(4.0, device=device).view(2, 2))
    return x


def grown(device: str) -> Tensor:
    x = torch.ones(3, device=device)
    whole = x.view(torch.uint8)
    whole.resize_(14).fill_(3)
    x.sub_(1)
    return whole


def wider(device: str) -> Tensor:
    """20 bytes are 5 floats, and 2 doubles with 4 bytes more."""
    x = torch.ones(5, device=device)
    x[:4].view(torch.float64).fill_(3)
    return x


CASES = (undefined, strided, transposed, grown, wider)


@BOTH
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_bytes_behind_the_last_element_stay(case: Callable[[str], Tensor], mode: str) -> None:
    with runtime_mode(mode):
        assert torch.equal(case("nntile").cpu(), case("cpu"))


DTYPES = (torch.uint8, torch.int16, torch.float32, torch.float64, torch.int64, torch.bfloat16)
WRITES: dict[str, Callable[[Tensor], Tensor]] = {
    "fill": lambda x: x.fill_(1),
    "zero": lambda x: x.zero_(),
    "copy": lambda x: x.copy_(torch.arange(x.numel(), device=x.device).view(x.shape) % 2),
    "add": lambda x: x.copy_(x.numel() * torch.ones_like(x)).add_(1),
}


@st.composite
def views(draw: st.DrawFn, size: int) -> tuple[torch.dtype, int, int, int, int]:
    """dtype, offset, rows, columns, and the stride of rows, within so many bytes."""
    dtype = draw(st.sampled_from([d for d in DTYPES if d.itemsize <= size]))
    count = size // dtype.itemsize
    offset = draw(st.integers(0, count - 1))
    columns = draw(st.integers(1, min(3, count - offset)))
    stride = draw(st.integers(columns, 4))
    rows = draw(st.integers(1, 1 + (count - offset - columns) // stride))
    return dtype, offset, rows, columns, stride


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_writes_through_any_dtypes(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 40))
    steps = data.draw(
        st.lists(st.tuples(views(size), st.sampled_from(sorted(WRITES))), min_size=1, max_size=5)
    )
    found = []
    for device in ("cpu", "nntile"):
        base = torch.ones(size, dtype=torch.uint8, device=device)
        for (dtype, offset, rows, columns, stride), write in steps:
            x = torch.empty(0, dtype=dtype, device=device)
            x.set_(base.untyped_storage(), offset, (rows, columns), (stride, 1))
            WRITES[write](x)
        found.append(base.cpu())
    assert torch.equal(*found)
