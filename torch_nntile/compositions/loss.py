# SPDX-License-Identifier: BSD-3-Clause
"""Cross entropy that stores no probabilities; losses that PyTorch's decompositions compute otherwise.

The others are as on the CPU: of short floats it rounds after each part, so that what overflows
there is infinite here too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from torch_nntile.compositions.attention import is_usual
from torch_nntile.compositions.piecewise import MEAN as _MEAN
from torch_nntile.compositions.piecewise import NONE as _NONE
from torch_nntile.compositions.piecewise import norm_of, reduced
from torch_nntile.compositions.registry import (
    composing,
    composition,
    elementwise,
    gradients,
    own_op,
)
from torch_nntile.compositions.train import wide


@composition("l1_loss", above_autograd=True)
def l1_loss(self: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    """PyTorch's formula as one graph: where no gradient wants the difference, it is not stored."""
    with composing():
        result: Tensor = torch.ops.aten.l1_loss.default.decompose(self, target, reduction)
    return result


# ---- cross entropy


@composition("cross_entropy_loss", above_autograd=True)
def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    """self: (rows, classes, ..) or (classes,). Rows of ours, which keep one number for each row of classes.

    Probabilities as targets, gradients of weights, and what PyTorch refuses take its formula.
    """
    if weight is not None and weight.dtype != self.dtype:
        raise RuntimeError(
            f"cross_entropy: weight must have the dtype of input, {self.dtype}, got {weight.dtype}"
        )
    classes = 1 if self.dim() > 1 else 0
    fast = (
        target.dtype == torch.int64
        and self.is_floating_point()
        and self.dim() > 0
        and self.numel() > 0
        and target.shape == (*self.shape[:classes], *self.shape[classes + 1 :])
        and (weight is None or weight.shape == (self.shape[classes],))
        and (weight is None or not weight.requires_grad)
        and label_smoothing <= 1
        and is_usual(self, target, weight)
    )
    result: Tensor
    if not fast:
        formula = torch.ops.aten.cross_entropy_loss.default.decompose
        result = formula(self, target, weight, reduction, ignore_index, label_smoothing)
        return result
    result, _, _ = torch.ops.nntile.cross_entropy(
        self, target, weight, reduction, ignore_index, max(label_smoothing, 0.0)
    )
    return result


def _cross_entropy_meta(
    x: Tensor, target: Tensor, weight: Tensor | None, reduction: int, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    y = x.new_empty(target.shape if reduction == _NONE else ())
    logsumexp = x.new_empty(target.shape, dtype=torch.float64)
    return y, logsumexp, x.new_empty((), dtype=wide(x).dtype)


def _cross_entropy_setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *operands, ctx.reduction, ctx.ignore_index, ctx.label_smoothing = inputs
    ctx.mark_non_differentiable(*output[1:])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*operands, *output[1:])


def _cross_entropy_gradients(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return (None,) * 6
    x, target, weight, logsumexp, total = ctx.saved_tensors
    options = ctx.reduction, ctx.ignore_index, ctx.label_smoothing
    row = torch.ops.nntile.cross_entropy_backward
    if not torch.is_grad_enabled():
        return row(grad, x, target, weight, logsumexp, total, *options), *[None] * 5
    # To be differentiated again: of one unit the row's own, which follows x as the probabilities do.
    classes = 1 if x.dim() > 1 else 0
    with torch.no_grad():
        unit = row(grad.new_ones(()), x, target, weight, logsumexp, total, *options)
        slope = _weight_of_rows(x.shape[classes], target, weight, ctx.ignore_index, options[2])
        slope = (slope / total if ctx.reduction == _MEAN else slope).to(x.dtype)
    p = x.softmax(classes)
    if ctx.reduction == _NONE:
        grad = grad.unsqueeze(classes)
    return grad * (unit + (p - p.detach()) * slope.unsqueeze(classes)), *[None] * 5


def _weight_of_rows(
    classes: int, target: Tensor, weight: Tensor | None, ignore_index: int, smoothing: float
) -> Tensor:
    """Sum of the weights that a row gives its classes, of the shape of target."""
    ignored = target == ignore_index
    if weight is None:
        return (~ignored).double()
    own = F.embedding(target.masked_fill(ignored, 0), weight.unsqueeze(1)).squeeze(-1)
    all_of_row = own * (1 - smoothing) + weight.sum() * (smoothing / classes)
    return all_of_row.masked_fill(ignored, 0)


# ---- losses as on the CPU


@composition("soft_margin_loss")
def soft_margin_loss(self: Tensor, target: Tensor, reduction: int = _MEAN) -> Tensor:
    loss = torch.log1p(torch.exp(-self * target))
    return reduced(loss, reduction)


@composition("soft_margin_loss_backward")
def soft_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """In the order of the CPU: 1 - sigmoid() would cancel where the margin is wide."""
    norm = norm_of(self, reduction)
    z = torch.exp(-target * self)
    return target * z * -norm / (z + 1) * grad_output


@composition("binary_cross_entropy")
def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN
) -> Tensor:
    """Reading the result raises if an element of self is not in [0, 1]."""
    loss: Tensor = torch.ops.nntile.binary_cross_entropy(wide(self), wide(target))
    if weight is not None:
        loss = loss * weight
    return reduced(loss, reduction)


@composition("binary_cross_entropy_backward")
def binary_cross_entropy_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
) -> Tensor:
    backward = torch.ops.nntile.binary_cross_entropy_backward
    count = float(self.numel()) if reduction == _MEAN else 1.0
    if weight is None:
        return backward(grad_output, self, target, count)
    result = backward(wide(grad_output), wide(self), wide(target), 1.0) * weight / count
    return result.to(self.dtype)


_OPTIONS = "int reduction, int ignore_index, float label_smoothing"
own_op(
    f"cross_entropy(Tensor self, Tensor target, Tensor? weight, {_OPTIONS})"
    " -> (Tensor, Tensor, Tensor)",
    _cross_entropy_meta,
)
own_op(
    "cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
    f"Tensor logsumexp, Tensor total_weight, {_OPTIONS}) -> Tensor",
    "self",
)
own_op(
    "binary_cross_entropy_backward(Tensor grad_output, Tensor self, Tensor target, float count)"
    " -> Tensor",
    lambda grad_output, self, target, _: elementwise(grad_output, self, target),
)
own_op("binary_cross_entropy(Tensor self, Tensor target) -> Tensor", elementwise)

gradients("cross_entropy", _cross_entropy_gradients, _cross_entropy_setup)
