# SPDX-License-Identifier: BSD-3-Clause
"""grid_sampler: pixels at any places of images, by one gather, and its transpose by one scatter_add.

Along each dim of an image a place has taps: which elements, with which weights, and the slopes of those.
The taps of a pixel are all combinations. So two and three dims and all modes are one function.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_nntile.decomp_train import wide

__all__ = ["COMPOSITIONS"]

_BILINEAR, _NEAREST, _BICUBIC = 0, 1, 2  # numbers of a mode
_ZEROS, _BORDER, _REFLECTION = 0, 1, 2  # and of a padding
_CUBIC = -0.75


def _padded(x: Tensor, size: int, padding: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """Places that are in the image, if the padding says so, and their slopes."""
    slope = torch.ones_like(x)
    if padding == _ZEROS:
        return x, slope
    if padding == _REFLECTION:
        low = 0.0 if align_corners else -0.5
        span = size - 1.0 if align_corners else float(size)
        if span == 0:
            x, slope = torch.zeros_like(x), torch.zeros_like(x)
        else:
            beyond = (x - low).abs()
            flips = torch.floor(beyond / span)
            extra = beyond - flips * span
            odd = torch.remainder(flips, 2) != 0
            slope = torch.where(odd != (x < low), -1.0, slope)
            x = torch.where(odd, span - extra, extra) + low
    slope = slope * ((x > 0) & (x < size - 1))
    return x.clamp(0, size - 1), slope


def _taps(
    x: Tensor, size: int, mode: int, padding: int, align_corners: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Of places in [-1, 1] (images, places): elements, weights and slopes (taps, images, places)."""
    scale = (size - 1) / 2 if align_corners else size / 2
    x = (x + 1) * scale if align_corners else ((x + 1) * size - 1) / 2
    if mode == _BICUBIC:  # its taps are padded one by one
        below = x.floor()
        t = x - below
        weights, slopes = _cubic(t)
        taps = torch.stack([below + k for k in (-1, 0, 1, 2)])
        return _padded(taps, size, padding, align_corners)[0], weights, slopes * scale
    x, slope = _padded(x, size, padding, align_corners)
    if mode == _NEAREST:
        return x.round().unsqueeze(0), torch.ones_like(x)[None], torch.zeros_like(x)[None]
    below = x.floor()
    slope = slope * scale
    taps = torch.stack([below, below + 1])
    return taps, torch.stack([below + 1 - x, x - below]), torch.stack([-slope, slope])


def _cubic(t: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of elements at -1, 0, 1 and 2 for a place t in [0, 1), and slopes."""
    a = _CUBIC
    far, near = (1 + t, 2 - t), (t, 1 - t)
    outer = [((a * d - 5 * a) * d + 8 * a) * d - 4 * a for d in far]
    inner = [((a + 2) * d - (a + 3)) * d * d + 1 for d in near]
    outer_slope = [(3 * a * d - 10 * a) * d + 8 * a for d in far]
    inner_slope = [(3 * (a + 2) * d - 2 * (a + 3)) * d for d in near]
    weights = (outer[0], inner[0], inner[1], outer[1])
    slopes = (outer_slope[0], inner_slope[0], -inner_slope[1], -outer_slope[1])
    return torch.stack(weights), torch.stack(slopes)


class _Sampled:
    """Of one call: elements (images, taps, places), which are there, weights and slopes of each dim."""

    def __init__(
        self, input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool
    ) -> None:
        if not input.is_floating_point():  # whatever the sizes are, which stand-ins do not have
            raise NotImplementedError(f'"grid_sampler" not implemented for {input.dtype}')
        if input.dtype != grid.dtype:
            raise RuntimeError(f"expected scalar type {input.dtype} but found {grid.dtype}")
        sizes = input.shape[2:]
        self.spatial = len(sizes)
        given = wide(grid).flatten(1, -2).unbind(-1)[::-1]  # x is the last dim of an image
        index = torch.zeros((1, 1, 1), dtype=torch.int64, device=grid.device)
        inside = torch.ones((1, 1, 1), dtype=torch.bool, device=grid.device)
        self.weights: list[Tensor] = []
        self.slopes: list[Tensor] = []
        for d, (x, size) in enumerate(zip(given, sizes, strict=True)):
            taps, weights, slopes = _taps(x, size, mode, padding, align_corners)
            there = (taps >= 0) & (taps < size)
            place = torch.where(there, taps, 0).long()
            own, count = [1] * self.spatial, taps.shape[0]
            own[d] = count
            index = (index.unsqueeze(1) * size + place.unsqueeze(0)).flatten(0, 1)
            inside = (inside.unsqueeze(1) & there.unsqueeze(0)).flatten(0, 1)
            self.weights.append(weights.unflatten(0, own))
            self.slopes.append(slopes.unflatten(0, own))
        self.index, self.inside = index.movedim(0, 1), inside.movedim(0, 1)

    def weight(self, sloped: int = -1) -> Tensor:
        """Products (images, taps, places); along the dim `sloped` its slope takes part."""
        parts = [self.slopes[d] if d == sloped else self.weights[d] for d in range(self.spatial)]
        return functools.reduce(torch.mul, parts).flatten(0, self.spatial - 1).movedim(0, 1)

    def elements(self, input: Tensor) -> Tensor:
        """(images, channels, taps, places), 0 where there is none."""
        index = self.index.flatten(1).unsqueeze(1).expand(-1, input.shape[1], -1)
        found = input.flatten(2).gather(2, index).unflatten(2, self.index.shape[1:])
        return torch.where(self.inside.unsqueeze(1), found, 0)

    def spread(self, parts: Tensor, input: Tensor) -> Tensor:
        """The transpose of elements()."""
        index = self.index.flatten(1).unsqueeze(1).expand(-1, input.shape[1], -1)
        parts = torch.where(self.inside.unsqueeze(1), parts, 0).flatten(2)
        flat = parts.new_zeros((*input.shape[:2], math.prod(input.shape[2:])))
        return flat.scatter_add(2, index, parts).view(input.shape).to(input.dtype)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    shape = (*input.shape[:2], *grid.shape[1:-1])
    if 0 in shape:
        return input.new_zeros(shape)
    sampled = _Sampled(input, grid, interpolation_mode, padding_mode, align_corners)
    parts = sampled.elements(input) * sampled.weight().unsqueeze(1)
    return parts.sum(2).view(shape).to(input.dtype)


def grid_sampler_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: list[bool],
) -> tuple[Tensor | None, Tensor]:
    """As the CPU it gives the gradient of the grid whether that is asked for or not."""
    if not grad_output.numel():
        return input.new_zeros(input.shape) if output_mask[0] else None, grid.new_zeros(grid.shape)
    sampled = _Sampled(input, grid, interpolation_mode, padding_mode, align_corners)
    grad = grad_output.flatten(2).unsqueeze(2)  # images, channels, taps, places
    dx = sampled.spread(grad * sampled.weight().unsqueeze(1), input) if output_mask[0] else None
    along = (sampled.elements(input) * grad).sum(1)
    parts = [(along * sampled.weight(d)).sum(1) for d in reversed(range(sampled.spatial))]
    return dx, torch.stack(parts, -1).view(grid.shape).to(grid.dtype)


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    **{f"grid_sampler_{n}d": grid_sampler for n in (2, 3)},
    **{f"grid_sampler_{n}d_backward": grid_sampler_backward for n in (2, 3)},
}
