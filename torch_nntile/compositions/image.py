# SPDX-License-Identifier: BSD-3-Clause
"""Compositions for images: normalisation over batches and groups, shuffles of pixels."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.formats import suggest_memory_format
from torch_nntile.compositions.registry import composition, own_op


def _dense_format(self: Tensor) -> torch.memory_format:
    """channels_last if the elements lie so: what the CPU's norms take over."""
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    last = formats.get(self.dim(), torch.contiguous_format)
    is_last = not self.is_contiguous() and self.is_contiguous(memory_format=last)
    return last if is_last else torch.contiguous_format


# ---- normalisation


@composition("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit.out")
def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    if not training and (running_mean is None or running_var is None):
        raise RuntimeError(
            "Expected running_mean and running_var to be defined when training=False"
        )
    x, dim = _channels_at(input)
    y, mean, rstd, new_mean, new_var = torch.ops.nntile.batch_norm(
        x, weight, bias, running_mean, running_var, dim, training, momentum, eps
    )
    y = y if dim == 1 else y.movedim(-1, 1)
    if not training:
        return y, mean.new_empty(0), rstd.new_empty(0)
    if running_mean is not None:
        running_mean.copy_(new_mean)
    if running_var is not None:
        running_var.copy_(new_var)
    return y, mean, rstd


def _channels_at(input: Tensor) -> tuple[Tensor, int]:
    """The elements in the order in which they lie, and which dim the channels are then."""
    if _dense_format(input) == torch.contiguous_format:
        return input, 1
    return input.movedim(1, -1), input.dim() - 1


def _norm_meta(x: Tensor, weight: Tensor | None, dim: int, *others: Tensor | None) -> Any:
    stats = (x if weight is None else weight).new_empty(x.shape[dim])
    return x.new_empty(x.shape), *(torch.empty_like(stats if t is None else t) for t in others)


own_op(
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "int dim, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    lambda x, w, _, mean, var, dim, *__: _norm_meta(x, w, dim, None, None, mean, var),
)
own_op(
    "batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor mean, Tensor spread, "
    "int dim, bool training, float eps) -> (Tensor, Tensor, Tensor)",
    lambda dy, x, w, mean, spread, dim, *_: _norm_meta(x, w, dim, None, None),
)


def _blended(
    format: torch.memory_format,
    a: Tensor,
    p: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    q: Tensor | None = None,
    s: Tensor | None = None,
) -> Tensor:
    """p * a + q * (b - s) + r of each pixel, laid so. p, q, s, r: of channels, or of images, too."""
    last = format != torch.contiguous_format
    if last:  # then the row has the channels as its last dim
        a, b = a.movedim(1, -1), None if b is None else b.movedim(1, -1)
    kept = [*range(p.dim() - 1), a.dim() - 1 if last else 1]
    y = torch.ops.nntile.channel_blend(a, b, p, q, s, r, kept)
    return y.movedim(-1, 1) if last else y


own_op(
    "channel_sums(Tensor self, Tensor other, Tensor? shift, int[] kept) -> (Tensor, Tensor)",
    lambda x, _, __, kept: tuple(
        x.new_empty([x.shape[d] for d in kept], dtype=torch.float64) for _ in range(2)
    ),
)


@composition("_native_batch_norm_legit.no_stats")
def batch_norm_without_running(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return native_batch_norm(input, weight, bias, None, None, *settings)


@composition("_batch_norm_with_update", "_batch_norm_with_update.out")
def batch_norm_with_update(*args: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The last result is what cuDNN keeps: nothing."""
    input, weight, bias, mean, var, momentum, eps = args
    found = native_batch_norm(input, weight, bias, mean, var, True, momentum, eps)
    return *found, input.new_empty(0, dtype=torch.uint8)


@composition("batch_norm_backward")
def batch_norm_backward(*args: Any) -> Any:
    """The last argument is what cuDNN keeps."""
    return native_batch_norm_backward(*args[:-1])


@composition("native_batch_norm_backward")
def native_batch_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_invstd: Tensor | None,
    train: bool,
    eps: float,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    input.size(1)  # raises what the CPU does
    one = train and input.shape[0] == 1 and _is_row(input, grad_out, weight, save_mean)
    if one and torch.finfo(input.dtype).bits >= 32:
        # Channels of one image, as those of instance_norm(): each is a group, and is read once.
        assert save_mean is not None and save_invstd is not None
        shape = (1, input.shape[1], 1, -1)
        dx, products, sums = torch.ops.nntile.group_norm_backward(
            *(t.contiguous().view(shape) for t in (grad_out, input)),
            *(t.unsqueeze(0) for t in (save_mean, save_invstd)),
            None if weight is None else weight.unsqueeze(1),
        )
        return (
            dx.view(input.shape) if output_mask[0] else None,
            products.flatten() if output_mask[1] else None,
            sums.flatten() if output_mask[2] else None,
        )
    mean, spread = (save_mean, save_invstd) if train else (running_mean, running_var)
    assert mean is not None and spread is not None
    x, dim = _channels_at(input)
    dy = grad_out if dim == 1 else grad_out.movedim(1, -1)
    dx, dweight, dbias = torch.ops.nntile.batch_norm_backward(
        dy, x, weight, mean, spread, dim, train, eps
    )
    dx = dx if dim == 1 else dx.movedim(-1, 1)
    return (
        dx if output_mask[0] else None,
        dweight if output_mask[1] else None,
        dbias if output_mask[2] else None,
    )


def _is_row(input: Tensor, *params: Tensor | None) -> bool:
    return (
        input.is_contiguous()
        and input.numel() > 0
        and input.is_floating_point()
        and all(p is None or p.dtype == input.dtype for p in params)
    )


@composition("native_group_norm")
def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    pixels: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """A row. Channels last, two dtypes: sums of channels make those of groups; the rest is element-wise."""
    # group_norm() of the CPU makes it so; for other devices PyTorch does up to 2.13.
    input = input.contiguous(memory_format=suggest_memory_format(input))
    stats = input.dtype if weight is None else weight.dtype
    if _is_row(input, weight, bias):
        x = input.reshape(batch, group, channels // group, pixels)
        of_groups = (None if p is None else p.reshape(group, -1) for p in (weight, bias))
        y, mean, rstd = torch.ops.nntile.group_norm(x, *of_groups, eps)
        return y.view(input.shape), mean.to(stats), rstd.to(stats)
    if input.shape[:2] != (batch, channels):
        input = input.reshape(batch, channels, pixels)
    parts, count = (group, channels // group), channels // group * pixels
    if input.dtype == torch.float64:  # sums of squares would have to be longer than that
        x = input.unflatten(1, parts)
        var, mean = torch.var_mean(x, list(range(2, x.dim())), correction=0)
        var, mean = var.unsqueeze(2), mean.unsqueeze(2)
    else:
        first, second = torch.ops.nntile.channel_sums(input, input, None, [0, 1])
        mean = first.unflatten(1, parts).sum(2, keepdim=True) / count
        squares = second.unflatten(1, parts).sum(2, keepdim=True) / count
        var = torch.clamp_min(squares - mean * mean, 0)
    rstd = torch.rsqrt(var + eps)
    # As on the CPU: two numbers for each channel, and one product and sum for each pixel.
    scale = rstd.expand(batch, *parts) if weight is None else rstd * weight.view(parts)
    offset = -mean * scale if bias is None else bias.view(parts) - mean * scale
    of_all = scale.reshape(batch, channels), offset.reshape(batch, channels)
    y = _blended(_dense_format(input), input, *of_all)
    return y, mean.squeeze(2).to(stats), rstd.squeeze(2).to(stats)


@composition("native_group_norm_backward")
def native_group_norm_backward(
    grad_out: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    batch: int,
    channels: int,
    pixels: int,
    group: int,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    # PyTorch makes the input contiguous for devices other than the CPU, not the gradient.
    memory_format = suggest_memory_format(grad_out)
    stats = input.dtype if weight is None else weight.dtype
    if memory_format == torch.contiguous_format and _is_row(input, weight, None):
        dy, x = (t.reshape(batch, group, channels // group, pixels) for t in (grad_out, input))
        dx, products, sums = torch.ops.nntile.group_norm_backward(
            dy, x, mean, rstd, None if weight is None else weight.reshape(group, -1)
        )
        return (
            dx.view(input.shape) if output_mask[0] else None,
            products.sum(0).flatten().to(stats) if output_mask[1] else None,
            sums.sum(0).flatten().to(stats) if output_mask[2] else None,
        )
    shape = input.shape
    if shape[:2] != (batch, channels):
        input, grad_out = (t.reshape(batch, channels, pixels) for t in (input, grad_out))
    parts, count = (group, channels // group), channels // group * pixels
    slope = rstd.double().unsqueeze(2)
    shift = mean.double().unsqueeze(2).expand(batch, *parts).reshape(batch, channels)
    first, second = (
        t.unflatten(1, parts) for t in torch.ops.nntile.channel_sums(grad_out, input, shift, [0, 1])
    )
    dweight = (second * slope).sum(0).flatten() if output_mask[1] else None
    dbias = first.sum(0).flatten() if output_mask[2] else None
    dx = None
    if output_mask[0]:
        # dx = rstd * (g - mean of g - (x - mean) * rstd^2 * mean of g * (x - mean)) with g = dy * weight
        if weight is not None:
            first, second = first * weight.view(parts), second * weight.view(parts)
        level = -slope * first.sum(2, keepdim=True) / count
        bend = -slope * slope * slope * second.sum(2, keepdim=True) / count
        if weight is not None:
            slope = slope * weight.view(parts)
        slope, level, bend = (
            t.expand(batch, *parts).reshape(batch, channels) for t in (slope, level, bend)
        )
        dense = memory_format if input.shape == shape else torch.contiguous_format
        dx = _blended(dense, grad_out, slope, level, input, bend, shift).reshape(shape)
        dx = dx.contiguous(memory_format=memory_format)
    return (
        dx,
        None if dweight is None else dweight.to(stats),
        None if dbias is None else dbias.to(stats),
    )


# ---- shuffles


@composition("pixel_shuffle")
def pixel_shuffle(self: Tensor, upscale_factor: int) -> Tensor:
    r = upscale_factor
    y = _like_images(self, torch.pixel_shuffle(_no_data(self), r).shape)
    *_, height, width = self.shape
    x = self.unflatten(-3, (-1, r, r)).movedim((-4, -3), (-3, -1))
    y.unflatten(-1, (width, r)).unflatten(-3, (height, r)).copy_(x)
    return y


@composition("pixel_unshuffle")
def pixel_unshuffle(self: Tensor, downscale_factor: int) -> Tensor:
    r = downscale_factor
    y = _like_images(self, torch.pixel_unshuffle(_no_data(self), r).shape)
    *_, channels, height, width = self.shape
    x = self.unflatten(-1, (width // r, r)).unflatten(-3, (height // r, r))
    y.unflatten(-3, (channels, r, r)).copy_(x.movedim((-3, -1), (-4, -3)))
    return y


@composition("channel_shuffle", "native_channel_shuffle")
def channel_shuffle(self: Tensor, groups: int) -> Tensor:
    """Channels of (groups, n) become those of (n, groups)."""
    y = _like_images(self, torch.channel_shuffle(_no_data(self), groups).shape)
    y.unflatten(1, (-1, groups)).copy_(self.unflatten(1, (groups, -1)).transpose(1, 2))
    return y


def _like_images(self: Tensor, shape: torch.Size) -> Tensor:
    return torch.empty(
        shape, dtype=self.dtype, device=self.device, memory_format=suggest_memory_format(self)
    )


def _no_data(self: Tensor) -> Tensor:
    """Of the same shape: PyTorch says what the result's is, or raises."""
    return torch.empty(self.shape, dtype=self.dtype, device="meta")


own_op(
    "channel_blend(Tensor self, Tensor? other, Tensor p, Tensor? q, Tensor? s, Tensor r, "
    "int[] kept) -> Tensor",
    "self",
)
