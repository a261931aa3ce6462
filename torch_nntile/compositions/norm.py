# SPDX-License-Identifier: BSD-3-Clause
"""RMS norm as rows, where PyTorch's formula is a chain of five ops and their gradients; the parts of a
batch norm whose batch is spread over processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.attention import is_usual
from torch_nntile.compositions.registry import composition, gradients, own_op
from torch_nntile.compositions.train import wide


@composition("rms_norm", above_autograd=True)
def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Over the last dims, those of normalized_shape; eps: that of float32, or float64, if None.

    Operands of two dtypes, layouts that the result takes over, and what PyTorch refuses take its formula.
    """
    dims = len(normalized_shape)
    fast = (
        input.is_floating_point()
        and 0 < dims <= input.dim()
        and input.numel() > 0
        and input.shape[-dims:] == tuple(normalized_shape)
        and input.is_contiguous()
        and (weight is None or (weight.dtype, weight.shape) == (input.dtype, input.shape[-dims:]))
        and is_usual(input, weight)
    )
    if not fast:
        formula = torch.ops.aten.rms_norm.default.decompose
        return formula(input, normalized_shape, weight, eps)
    if eps is None:
        eps = torch.finfo(wide(input).dtype).eps
    result, _ = torch.ops.nntile.rms_norm(input, normalized_shape, weight, eps)
    return result


@own_op(
    "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor, Tensor)"
)
def _meta(x: Tensor, shape: Sequence[int], *_: Any) -> tuple[Tensor, Tensor]:
    stats = (*x.shape[: x.dim() - len(shape)], *[1] * len(shape))
    return x.new_empty(x.shape), x.new_empty(stats, dtype=wide(x).dtype)


own_op(
    "rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, "
    "Tensor? weight) -> (Tensor, Tensor)",
    lambda _, x, shape, *__: (x.new_empty(x.shape), x.new_empty(shape)),
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    input, ctx.normalized_shape, weight, ctx.eps = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(input, weight, output[1])


def _gradients(ctx: Any, grad: Tensor | None, _: Any) -> tuple[Tensor | None, ...]:
    if grad is None:
        return None, None, None, None
    input, weight, rstd = ctx.saved_tensors
    if not torch.is_grad_enabled():
        dx, dweight = torch.ops.nntile.rms_norm_backward(
            grad, input, ctx.normalized_shape, rstd, weight
        )
        return dx, None, None if weight is None else dweight, None
    # Gradients of gradients, by the formula.
    dims = list(range(-len(ctx.normalized_shape), 0))
    x = wide(input)
    y = x * torch.rsqrt((x * x).mean(dims, keepdim=True) + ctx.eps)
    y = (y if weight is None else y * weight).to(input.dtype)
    wanted = [t for t in (input, weight) if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    first, second = (
        next(found) if t is not None and t.requires_grad else None for t in (input, weight)
    )
    return first, None, second, None


def _with_sums(x: Tensor, dims: int) -> tuple[Tensor, ...]:
    sums = (x.new_empty(x.shape[:dims], dtype=wide(x).dtype) for _ in range(2))
    return x.new_empty(x.shape), *sums


own_op(
    "group_norm(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    lambda x, *_: _with_sums(x, 2),
)
own_op(
    "group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight)"
    " -> (Tensor, Tensor, Tensor)",
    lambda _, x, *__: _with_sums(x, 3),
)
gradients("rms_norm", _gradients, _setup)


# ---- SyncBatchNorm: statistics of a part of the batch, and what is made of those of all. Formulas of
# PyTorch's CUDA kernels (aten/src/ATen/native/cuda/Normalization.cuh); sums are in float32 or wider.


def _by_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.view(1, -1, *[1] * (like.dim() - 2))


def _all_but_channels(x: Tensor) -> list[int]:
    return [d for d in range(x.dim()) if d != 1]


@composition("batch_norm_stats")
def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / sqrt(variance + eps) of each channel."""
    var, mean = torch.var_mean(wide(input), _all_but_channels(input), correction=0)
    return mean, torch.rsqrt(var + eps)


@composition("batch_norm_gather_stats_with_counts")
def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """Of the whole batch, from those of its parts: mean and invstd (parts, channels), counts (parts,)."""
    n = counts.to(mean.dtype).unsqueeze(1)
    total = n.sum()
    whole = (mean * n).sum(0) / total
    squares = ((1 / (invstd * invstd) - eps + (mean - whole) ** 2) * n).sum(0)
    if running_mean is not None:
        running_mean.mul_(1 - momentum).add_(momentum * whole.to(running_mean.dtype))
    if running_var is not None:
        unbiased = squares / (total - 1)
        running_var.mul_(1 - momentum).add_(momentum * unbiased.to(running_var.dtype))
    return whole, torch.rsqrt(squares / total + eps)


@composition("batch_norm_elemt")
def batch_norm_elemt(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor,
    invstd: Tensor,
    eps: float,
) -> Tensor:
    scale = invstd if weight is None else invstd * weight
    y = (wide(input) - _by_channel(mean, input)) * _by_channel(scale, input)
    return (y if bias is None else y + _by_channel(bias, input)).to(input.dtype)


@composition("batch_norm_backward_reduce")
def batch_norm_backward_reduce(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    input_g: bool,
    weight_g: bool,
    bias_g: bool,
) -> tuple[Tensor, ...]:
    """Sums of dy and of dy * (x - mean), and the gradients of weight and bias from this part."""
    dims, dy = _all_but_channels(input), wide(grad_out)
    sum_dy = dy.sum(dims)
    sum_dy_xmu = (dy * (wide(input) - _by_channel(mean, input))).sum(dims)
    dtype = sum_dy.dtype if weight is None else weight.dtype
    nothing = sum_dy.new_empty(0)
    return (
        sum_dy if input_g else nothing,
        sum_dy_xmu if input_g else nothing,
        (sum_dy_xmu * invstd).to(dtype) if weight_g else nothing,
        sum_dy.to(dtype) if bias_g else nothing,
    )


@composition("batch_norm_backward_elemt")
def batch_norm_backward_elemt(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    count: Tensor,
) -> Tensor:
    """The gradient of the input; sums and counts are those of the whole batch."""
    n = count.sum().to(sum_dy.dtype)
    slope = sum_dy_xmu / n * invstd * invstd
    scale = invstd if weight is None else invstd * weight
    x = wide(input) - _by_channel(mean, input)
    dx = wide(grad_out) - _by_channel(sum_dy / n, input) - x * _by_channel(slope, input)
    return (dx * _by_channel(scale, input)).to(input.dtype)
