# SPDX-License-Identifier: BSD-3-Clause
"""Windows of images that no row has: adaptive maxima, windows as columns, and what undoes a maximum.

Shapes, layouts and errors are those that PyTorch's own functions of shapes say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format

__all__ = ["COMPOSITIONS"]


def _meta(x: Tensor) -> Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def _laid_as(x: Tensor, like: Tensor) -> Tensor:
    """x with the strides of `like`, which has its shape and may have no data."""
    if x.stride() == like.stride():
        return x
    return torch.empty_strided(like.shape, like.stride(), dtype=x.dtype, device=x.device).copy_(x)


# ---- adaptive maxima: dim k of the result has windows from floor(k * n / m) to ceil((k + 1) * n / m)


def _windows(size: int, wanted: int, device: torch.device) -> Tensor:
    """(wanted, longest): which elements. A short window has its last one several times."""
    k = torch.arange(wanted, device=device).unsqueeze(1)
    begin, end = k * size // wanted, ((k + 1) * size + wanted - 1) // wanted
    most = max(
        (-(-(k + 1) * size // wanted) - k * size // wanted for k in range(wanted)), default=0
    )
    return torch.minimum(begin + torch.arange(most, device=device), end - 1)


def _adaptive_max_pool(spatial: int) -> Callable[..., tuple[Tensor, Tensor]]:
    op = getattr(torch.ops.aten, f"adaptive_max_pool{spatial}d").default
    pooling = getattr(torch.ops.aten, f"max_pool{spatial}d_with_indices").default

    def forward(self: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
        likes = op(_meta(self), output_size)
        sizes = self.shape[self.dim() - spatial :]
        if not likes[0].numel():
            values, places = (torch.empty_like(x, device=self.device) for x in likes)
            return values, places
        if not any(n % m for n, m in zip(sizes, output_size, strict=True)):
            values, places = pooling(
                self, [n // m for n, m in zip(sizes, output_size, strict=True)]
            )
            return _laid_as(values, likes[0]), _laid_as(places, likes[1])
        x, place = self, torch.zeros((), dtype=torch.int64, device=self.device)
        for d, (n, m) in enumerate(zip(sizes, output_size, strict=True)):
            windows = _windows(n, m, self.device)
            x = torch.ops.nntile.index(x, [windows], [self.dim() - spatial + 2 * d])
            place = place.unsqueeze(-1).unsqueeze(-1) * n + windows
        # Dims of windows go behind those of results, as one.
        order = [2 * d + k - 2 * spatial for k in (0, 1) for d in range(spatial)]
        last = list(range(-2 * spatial, 0))
        x, place = (t.movedim(order, last).flatten(-spatial) for t in (x, place))
        # The first of the largest, as argmax(); of several that are nan the CPU keeps the last.
        odd = torch.where(x.isnan(), torch.arange(x.shape[-1], device=x.device), -1).amax(-1)
        first = torch.where(odd < 0, x.argmax(-1), odd).unsqueeze(-1)
        values, places = x.gather(-1, first), place.expand(x.shape).gather(-1, first)
        return _laid_as(values.squeeze(-1), likes[0]), _laid_as(places.squeeze(-1), likes[1])

    return forward


def _adaptive_max_pool_backward(spatial: int) -> Callable[..., Tensor]:
    op = getattr(torch.ops.aten, f"adaptive_max_pool{spatial}d_backward").default

    def backward(grad_output: Tensor, self: Tensor, indices: Tensor) -> Tensor:
        like = op(*(_meta(x) for x in (grad_output, self, indices)))
        grad, places = (x.flatten(-spatial) for x in (grad_output, indices))
        flat = self.new_zeros((*self.shape[:-spatial], math.prod(self.shape[-spatial:])))
        return _laid_as(flat.scatter_add(-1, places, grad).view(self.shape), like)

    return backward


# ---- windows as columns


def im2col(
    self: Tensor,
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Tensor:
    """A view of the image that has each element once for each window that holds it, and one copy."""
    self.size(2)  # raises what the CPU does
    if min(padding) < 0:
        raise RuntimeError(f"padding should be non-negative, but got {padding}")
    settings = kernel_size, dilation, padding, stride
    columns = torch.ops.aten.im2col.default(_meta(self), *settings)
    x = torch.nn.functional.pad(self, [padding[1], padding[1], padding[0], padding[0]])
    across, down = x.stride()[-2:]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(x.shape[-2:], kernel_size, dilation, stride, strict=True)
    ]
    steps = [dilation[0] * across, dilation[1] * down, stride[0] * across, stride[1] * down]
    windows = x.as_strided([*x.shape[:-2], *kernel_size, *counts], [*x.stride()[:-2], *steps])
    return windows.reshape(columns.shape)


def col2im(
    self: Tensor,
    output_size: list[int],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Tensor:
    """The transpose of im2col(): a sum for each element of a window, in the CPU's order."""
    settings = kernel_size, dilation, padding, stride
    image = torch.ops.aten.col2im.default(_meta(self), output_size, *settings)
    (height, width), (down, right) = output_size, padding
    y = self.new_zeros([*image.shape[:-2], height + 2 * down, width + 2 * right])
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(y.shape[-2:], kernel_size, dilation, stride, strict=True)
    ]
    parts = self.reshape([*image.shape[:-2], *kernel_size, *counts])
    for k in range(kernel_size[0]):
        for j in range(kernel_size[1]):
            of = [
                slice(at * d, at * d + s * (n - 1) + 1, s)
                for at, d, s, n in zip((k, j), dilation, stride, counts, strict=True)
            ]
            y[..., of[0], of[1]] += parts[..., k, j, :, :]
    return y[..., down : down + height, right : right + width].contiguous()


# ---- back to where maxima were


def _max_unpool(spatial: int) -> Callable[..., Tensor]:
    op = getattr(torch.ops.aten, f"max_unpool{spatial}d").default

    def forward(self: Tensor, indices: Tensor, output_size: Sequence[int], *rest: Any) -> Tensor:
        """An index that is outside is an error of the task."""
        op(_meta(self), _meta(indices), output_size, *rest)  # PyTorch's errors
        shape = (*self.shape[:-spatial], *output_size)
        flat = self.new_zeros((*self.shape[:-spatial], math.prod(output_size)))
        if flat.numel():
            flat = flat.scatter(-1, indices.flatten(-spatial), self.flatten(-spatial))
        format = suggest_memory_format(self) if spatial == 2 else torch.contiguous_format
        return flat.view(shape).contiguous(memory_format=format)

    return forward


COMPOSITIONS: dict[str, Callable[..., Any]] = {
    **{f"adaptive_max_pool{n}d": _adaptive_max_pool(n) for n in (2, 3)},
    **{f"adaptive_max_pool{n}d_backward": _adaptive_max_pool_backward(n) for n in (2, 3)},
    "im2col": im2col,
    "col2im": col2im,
    **{f"max_unpool{n}d": _max_unpool(n) for n in (2, 3)},
}
