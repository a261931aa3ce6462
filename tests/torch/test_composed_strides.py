# SPDX-License-Identifier: BSD-3-Clause
"""Compositions give the CPU's strides, those of dims of one element too, which expand() shows later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import torch_nntile  # noqa: F401

aten = torch.ops.aten
UNARY: dict[str, Callable[[Tensor], Any]] = {
    **{
        name: lambda x, name=name: getattr(torch, name)(x)
        for name in ("triu", "tril", "frac", "sinc", "nan_to_num", "isposinf", "isneginf", "logit")
    },
    **{
        name: lambda x, name=name: getattr(F, name)(x)
        for name in ("hardsigmoid", "hardswish", "hardshrink", "softshrink", "mish", "celu", "elu")
    },
    **{
        name: lambda x, name=name: getattr(F, name)(x)
        for name in ("selu", "hardtanh", "relu6", "logsigmoid", "relu", "gelu", "silu")
    },
    "flip": lambda x: x.flip(0),
    "deg2rad": torch.deg2rad,
    "entr": torch.special.entr,
    "round": lambda x: x.round(decimals=1),
    "clamp": lambda x: x.clamp(0, 1),
    "prelu": lambda x: F.prelu(x, torch.ones(1, device=x.device)),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "div by a number": lambda x: torch.div(x, 2, rounding_mode="trunc"),
    "div": lambda x: torch.div(x, x, rounding_mode="trunc"),
    "masked_fill": lambda x: x.masked_fill(x > 0, 1),
    "std": lambda x: x.std(-1, keepdim=True),
    "norm": lambda x: x.norm(dim=0, keepdim=True),
    "logsumexp": lambda x: x.logsumexp(0, keepdim=True),
}
LOSSES = {
    name: lambda x, name=name: getattr(F, name)(x, x, reduction="none")
    for name in (
        *("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy"),
        "binary_cross_entropy_with_logits",
    )
}
GRADIENTS: dict[str, Callable[[Tensor], Any]] = {
    "hardshrink_backward": lambda x: aten.hardshrink_backward(x, x, 0.5),
    "softshrink_backward": lambda x: aten.softshrink_backward(x, x, 0.5),
    "elu_backward": lambda x: aten.elu_backward(x, 1, 1, 1, False, x),
    "hardsigmoid_backward": lambda x: aten.hardsigmoid_backward(x, x),
    "hardswish_backward": lambda x: aten.hardswish_backward(x, x),
    "hardtanh_backward": lambda x: aten.hardtanh_backward(x, x, -1, 1),
    "mish_backward": lambda x: aten.mish_backward(x, x),
    "softplus_backward": lambda x: aten.softplus_backward(x, x, 1, 20),
    "logit_backward": lambda x: aten.logit_backward(x, x),
    "mse_loss_backward": lambda x: aten.mse_loss_backward(x, x, x, 0),
    "smooth_l1_loss_backward": lambda x: aten.smooth_l1_loss_backward(x, x, x, 0, 1.0),
    "huber_loss_backward": lambda x: aten.huber_loss_backward(x, x, x, 0, 1.0),
    "soft_margin_loss_backward": lambda x: aten.soft_margin_loss_backward(x, x, x, 0),
    "log_sigmoid_backward": lambda x: aten.log_sigmoid_backward(x, x, x),
}
CALLS = UNARY | LOSSES | GRADIENTS
LAYOUTS = (
    *(((2, 1, 1), (1, 2, 2)), ((1, 3), (1, 1)), ((1, 1, 2), (2, 2, 1)), ((2, 1, 3), (3, 7, 1))),
    *(((1, 1), (5, 9)), ((2, 1), (1, 1)), ((1, 2, 1, 1), (9, 1, 7, 3)), ((2, 3), (3, 1))),
    *(((2, 2), (1, 2)), ((1, 5, 1, 1), (5, 1, 1, 5)), ((2, 1, 2), (1, 5, 2)), ((1,), (7,))),
    ((2, 2, 1), (2, 0, 4)),
)


@pytest.mark.parametrize("name", CALLS)
def test_strides(name: str) -> None:
    for shape, strides in LAYOUTS:
        if name in ("triu", "tril") and len(shape) < 2:
            continue
        found, expected = (
            CALLS[name](torch.zeros(40, device=device).as_strided(shape, strides))
            for device in ("nntile", "cpu")
        )
        assert found.stride() == expected.stride(), (shape, strides)
