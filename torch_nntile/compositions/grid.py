# SPDX-License-Identifier: BSD-3-Clause
"""grid_sampler: pixels at any places of images, a row for any number of dims and all modes."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composition, own_op

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def _check(input: Tensor, grid: Tensor) -> None:
    if not input.is_floating_point():  # whatever the sizes are, which stand-ins do not have
        raise NotImplementedError(f'"grid_sampler" not implemented for {input.dtype}')
    if input.dtype != grid.dtype:
        raise RuntimeError(f"expected scalar type {input.dtype} but found {grid.dtype}")
    if grid.shape[0] != input.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with "
            f"sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.shape[-1] != input.dim() - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.dim() - 2} in last dimension, but "
            f"got grid with sizes {list(grid.shape)}"
        )


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    shape = (*input.shape[:2], *grid.shape[1:-1])
    if 0 in shape:
        return input.new_zeros(shape)
    _check(input, grid)
    words = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    return torch.ops.nntile.grid_sample(input, grid.flatten(1, -2), *words, align_corners).view(
        shape
    )


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
    _check(input, grid)
    words = _MODES[interpolation_mode], _PADDINGS[padding_mode]
    dx, dgrid = torch.ops.nntile.grid_sample_backward(
        grad_output.flatten(2), input, grid.flatten(1, -2), *words, align_corners
    )
    return dx if output_mask[0] else None, dgrid.view(grid.shape)


for n in (2, 3):
    composition(f"grid_sampler_{n}d")(grid_sampler)
    composition(f"grid_sampler_{n}d_backward")(grid_sampler_backward)

_OPTIONS = "str mode, str padding, bool align_corners"
own_op(
    f"grid_sample(Tensor self, Tensor grid, {_OPTIONS}) -> Tensor",
    lambda self, grid, *_: self.new_empty((*self.shape[:2], grid.shape[1])),
)
own_op(
    f"grid_sample_backward(Tensor grad_output, Tensor self, Tensor grid, {_OPTIONS})"
    " -> (Tensor, Tensor)",
    "self grid",
)
