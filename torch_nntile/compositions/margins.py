# SPDX-License-Identifier: BSD-3-Clause
"""Losses of margins: how much the score of a class is too close to that of the class that is meant."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_nntile.compositions.distances import only_wide_floats
from torch_nntile.compositions.registry import composition

_NONE, _MEAN = 0, 1  # numbers of a reduction


def _margins(self: Tensor, target: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """(rows, classes), 0 where there is enough, and target as a column."""
    x, column = torch.atleast_2d(self), target.reshape(-1, 1)
    z = margin - x.gather(1, column) + x
    return torch.where(z > 0, z, 0).scatter(1, column, 0), column


def _check_margins(op: str, self: Tensor, target: Tensor) -> None:
    """The CPU's: floats of 32 and 64 bits, a row or rows, a target for each."""
    if self.dim() > 2 or 0 in self.shape[-1:]:
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self.shape)}"
        )
    if not self.numel():  # no kernel is asked
        return
    only_wide_floats(op, self)
    if target.dtype != torch.int64:
        raise RuntimeError(f"{op}: expected a target of dtype torch.int64 but found {target.dtype}")


def _check_multi_margin(self: Tensor, target: Tensor, p: float, weight: Tensor | None) -> None:
    _check_margins("multi_margin_loss", self, target)
    rows, classes = torch.atleast_2d(self).shape
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    if target.dim() > 1 or target.numel() != rows:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{rows}], but got {list(target.shape)}. "
            f"Input has shape {list(self.shape)}."
        )
    if weight is not None and (weight.dim() > 1 or weight.numel() != classes):
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )


@composition("multi_margin_loss")
def multi_margin_loss(
    self: Tensor,
    target: Tensor,
    p: float = 1,
    margin: float = 1,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    _check_multi_margin(self, target, p, weight)
    z, column = _margins(self, target, margin)
    loss = z if p == 1 else z * z
    if weight is not None:
        loss = loss * weight.reshape(-1).take(column)
    loss = loss.sum(1) / loss.shape[1]
    if reduction == _NONE:
        return loss.view(target.shape)
    return loss.sum() / max(loss.shape[0], 1) if reduction == _MEAN else loss.sum()


@composition("multi_margin_loss_backward")
def multi_margin_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    p: float,
    margin: float,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    _check_multi_margin(self, target, p, weight)
    z, column = _margins(self, target, margin)
    slope = (z > 0).to(z.dtype) if p == 1 else 2 * z
    if weight is not None:
        slope = slope * weight.reshape(-1).take(column)
    slope = slope * grad_output.reshape(-1, 1)
    slope = slope / (z.shape[1] * (max(z.shape[0], 1) if reduction == _MEAN else 1))
    return slope.scatter(1, column, -slope.sum(1, keepdim=True)).view(self.shape)


def _multilabel(self: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x and target as rows, the latter with 0 for -1, and which targets are before the first -1."""
    _check_margins("multilabel_margin_loss", self, target)
    if target.shape != self.shape:
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}"
        )
    x, labels = torch.atleast_2d(self), torch.atleast_2d(target)
    ends = labels == -1
    return x, torch.where(ends, 0, labels), ends.cumsum(1) == 0


def _short_of(x: Tensor, labels: Tensor, meant: Tensor, is_target: Tensor) -> Tensor:
    """(rows, targets, classes): by how much a margin is too small."""
    z = 1 - x.gather(1, labels).unsqueeze(2) + x.unsqueeze(1)
    counts = meant.unsqueeze(2) & (is_target == 0).reshape(x.shape).unsqueeze(1)
    return torch.where(counts & (z > 0), z, 0)


@composition("multilabel_margin_loss_forward")
def multilabel_margin_loss_forward(
    self: Tensor, target: Tensor, reduction: int
) -> tuple[Tensor, Tensor]:
    x, labels, meant = _multilabel(self, target)
    # Twice the same target is one, and what is behind the first -1 is none.
    is_target = torch.zeros_like(x).scatter_add(1, labels, meant.to(x.dtype)).clamp_max(1)
    loss = _short_of(x, labels, meant, is_target).sum((1, 2)) / x.shape[1]
    if reduction != _NONE:
        loss = loss.sum() / max(x.shape[0], 1) if reduction == _MEAN else loss.sum()
    elif self.dim() < 2:
        loss = loss.reshape(())
    return loss, is_target.view(self.shape)


@composition("multilabel_margin_loss_backward")
def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    x, labels, meant = _multilabel(self, target)
    count = x.shape[1] * (max(x.shape[0], 1) if reduction == _MEAN else 1)
    short = (_short_of(x, labels, meant, is_target) > 0).to(x.dtype)
    slope = short * (grad_output.reshape(-1, 1, 1) / count)
    return slope.sum(1).scatter_add(1, labels, -slope.sum(2)).view(self.shape)
