# SPDX-License-Identifier: BSD-3-Clause
"""Losses that PyTorch's decompositions compute otherwise than its CPU does.

Of short floats the CPU rounds after each part, so that what overflows there is infinite here too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_nntile.decomp_train import wide

__all__ = ["COMPOSITIONS", "OWN_OPS", "like_first"]

_MEAN, _SUM = 1, 2  # numbers of a reduction


def like_first(result: Tensor, first: Tensor) -> Tensor:
    """With the dtype of the first argument, and its strides if it has the shape."""
    if result.shape != first.shape:
        return result.to(first.dtype)
    like = torch.empty_like(first)
    same = (result.dtype, result.stride()) == (like.dtype, like.stride())
    return result if same else like.copy_(result)


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss.mean() if reduction == _MEAN else loss.sum() if reduction == _SUM else loss


def soft_margin_loss(self: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    loss = torch.log1p(torch.exp(-self * target))
    return like_first(_reduced(loss, reduction), self)


def soft_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """In the order of the CPU: 1 - sigmoid() would cancel where the margin is wide."""
    norm = 1 / self.numel() if reduction == _MEAN and self.numel() else 1.0
    z = torch.exp(-target * self)
    return target * z * -norm / (z + 1) * grad_output


def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN
) -> Tensor:
    """Reading the result raises if an element of self is not in [0, 1]."""
    loss: Tensor = torch.ops.nntile.binary_cross_entropy(wide(self), wide(target))
    if weight is not None:
        loss = loss * weight
    return like_first(_reduced(loss, reduction), self)


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    "soft_margin_loss": soft_margin_loss,
    "soft_margin_loss_backward": soft_margin_loss_backward,
    "binary_cross_entropy": binary_cross_entropy,
}

OWN_OPS: dict[str, Callable[..., Any] | None] = {
    "binary_cross_entropy(Tensor self, Tensor target) -> Tensor": lambda self, target: self * target
}
