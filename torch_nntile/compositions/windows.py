# SPDX-License-Identifier: BSD-3-Clause
"""Windows of images that no row has: windows as columns, what undoes a maximum, and the name that
convolutions have in traced programs.

Shapes, layouts and errors are those that PyTorch's own functions of shapes say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.formats import like_on_meta, suggest_memory_format
from torch_nntile.compositions.registry import composition


@composition("_convolution", "_convolution.deprecated", above_autograd=True)
def _convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    transposed: bool,
    output_padding: list[int],
    groups: int,
    *settings_of_cudnn: bool,
) -> Tensor:
    """What torch.jit.trace writes for each convolution. PyTorch's own ends where a device has none."""
    where = (stride, padding, dilation, transposed, output_padding, groups)
    return torch.convolution(input, weight, bias, *where)


# ---- windows as columns


@composition("im2col")
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
    settings = (tuple(x) for x in (kernel_size, dilation, padding, stride))
    columns = like_on_meta(torch.ops.aten.im2col.default, (self,), *settings).shape
    x = torch.nn.functional.pad(self, [padding[1], padding[1], padding[0], padding[0]])
    across, down = x.stride()[-2:]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(x.shape[-2:], kernel_size, dilation, stride, strict=True)
    ]
    steps = [dilation[0] * across, dilation[1] * down, stride[0] * across, stride[1] * down]
    windows = x.as_strided([*x.shape[:-2], *kernel_size, *counts], [*x.stride()[:-2], *steps])
    return windows.reshape(columns)


@composition("col2im")
def col2im(
    self: Tensor,
    output_size: list[int],
    kernel_size: list[int],
    dilation: list[int],
    padding: list[int],
    stride: list[int],
) -> Tensor:
    """The transpose of im2col(): a sum for each element of a window, in the CPU's order."""
    settings = (tuple(x) for x in (output_size, kernel_size, dilation, padding, stride))
    image = like_on_meta(torch.ops.aten.col2im.default, (self,), *settings).shape
    (height, width), (down, right) = output_size, padding
    padded = [height + 2 * down, width + 2 * right]
    counts = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(padded, kernel_size, dilation, stride, strict=True)
    ]
    parts = self.reshape([*image[:-2], *kernel_size, *counts])
    if list(stride) == list(kernel_size) and all(
        c * s == n and (d == 1 or s == 1)
        for c, s, n, d in zip(counts, stride, padded, dilation, strict=True)
    ):  # windows beside each other: each element is one sum, 0 + part
        y = (parts + 0).movedim((-2, -4, -1, -3), (-4, -3, -2, -1)).reshape([*image[:-2], *padded])
        return y[..., down : down + height, right : right + width].contiguous()
    y = self.new_zeros([*image[:-2], *padded])
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
        like_on_meta(op, (self, indices), tuple(output_size), *map(tuple, rest))  # PyTorch's errors
        shape = (*self.shape[:-spatial], *output_size)
        flat = self.new_zeros((*self.shape[:-spatial], math.prod(output_size)))
        if flat.numel():
            flat = flat.scatter(-1, indices.flatten(-spatial), self.flatten(-spatial))
        format = suggest_memory_format(self) if spatial == 2 else torch.contiguous_format
        return flat.view(shape).contiguous(memory_format=format)

    return forward


for n in (2, 3):
    composition(f"max_unpool{n}d")(_max_unpool(n))
