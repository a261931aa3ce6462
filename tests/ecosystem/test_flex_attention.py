# SPDX-License-Identifier: BSD-3-Clause
"""FlexAttention, once its question for the device is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import torch_nntile
import torch_nntile.integrations.flex_attention

pytestmark = pytest.mark.slow

N = 48


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def with_distance(score: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return score + 0.1 * (i - j)


def operands(device: str) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randn(2, 4, N, 16, generator=generator).to(device).requires_grad_() for _ in range(3)
    ]


def mask() -> Any:
    return create_block_mask(causal, None, None, N, N, device="nntile", BLOCK_SIZE=16)


WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "compiled": lambda function: torch.compile(function, backend="nntile"),
    "captured": torch_nntile.capture,
}


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("way", WAYS)
def test_a_causal_mask_is_that_of_attention(way: str) -> None:
    attend = WAYS[way](lambda q, k, v: flex_attention(q, k, v, block_mask=blocks))
    blocks = mask()
    expected = F.scaled_dot_product_attention(*operands("cpu"), is_causal=True)
    for _ in range(4 if way == "captured" else 1):
        y = attend(*operands("nntile"))
    torch.testing.assert_close(y.cpu(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_gradients_of_a_changed_score() -> None:
    q, k, v = operands("cpu")
    distance = 0.1 * (torch.arange(N)[:, None] - torch.arange(N))
    F.scaled_dot_product_attention(q, k, v, attn_mask=distance).square().sum().backward()
    moved = operands("nntile")
    y: Any = flex_attention(*moved, score_mod=with_distance)
    y.square().sum().backward()
    for x, expected in zip(moved, (q, k, v), strict=True):
        torch.testing.assert_close(x.grad.cpu(), expected.grad, atol=1e-4, rtol=1e-4)


def test_other_devices_are_asked_for_as_before() -> None:
    assert torch_nntile.integrations.flex_attention._known is not None
    with pytest.raises(ValueError, match="only supported on"):
        flex_attention(*(x.to("meta") for x in operands("cpu")))
