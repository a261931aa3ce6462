# SPDX-License-Identifier: BSD-3-Clause
"""Interpolation and padding by what is there: the row `resample` along the last dims.

What a dim becomes is a linear map with few inputs for each output, the gradient is that map transposed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions.formats import like_on_meta, suggest_memory_format
from torch_nntile.compositions.registry import composition, own_op

_KINDS = {1: "3D", 2: "4D", 3: "5D"}


def _resampled(
    x: Tensor, sizes: Sequence[int], mode: str, scales: Sequence[float | None], **options: int
) -> Tensor:
    """The last dims of x become `sizes`; channels that lie last stay there."""
    format, spatial = suggest_memory_format(x), len(sizes)
    channels_last = format != torch.contiguous_format and x.dim() == spatial + 2
    if channels_last:
        x = x.movedim(1, -1)
    first = x.dim() - spatial - channels_last
    lefts = [options.get(f"left{back}", 0) for back in range(spatial, 0, -1)]
    asked = [
        (first + d, size, left, scale or 0.0)
        for d, (size, left, scale) in enumerate(zip(sizes, lefts, scales, strict=True))
        if size != x.shape[first + d] or scale or left
    ]
    if asked:
        dims, to, left, factors = (list(of_all) for of_all in zip(*asked, strict=True))
        flags = (options.get(name, 0) for name in ("align_corners", "antialias", "transposed"))
        factors = [*factors, 0.0, 0.0][:3]
        x = torch.ops.nntile.resample(x, dims, to, mode, *flags, left, *factors)
    else:
        x = x.clone()
    return (x.movedim(-1, 1) if channels_last else x).contiguous(memory_format=format)


# ---- torch.nn.functional.interpolate


def _check_sizes(op: str, shape: Sequence[int], sizes: Sequence[int]) -> None:
    spatial = len(sizes)
    if len(shape) != spatial + 2:
        raise RuntimeError(
            f"{op}: It is expected input_size equals to {spatial + 2}, but got size {len(shape)}"
        )
    if not all(size > 0 for size in (*shape[2:], *sizes)):
        raise RuntimeError(
            f"{op}: Input and output sizes should be greater than 0, but got input "
            f"{list(shape[2:])} and output {list(sizes)}"
        )
    if math.prod(shape[1:]) == 0:
        raise RuntimeError(
            f"{op}: Non-empty {_KINDS[spatial]} data tensor expected, got sizes {list(shape)}"
        )


def _interpolation(op: str, mode: str, spatial: int, *, aligns: bool, **options: int) -> Any:
    def forward(self: Tensor, output_size: Sequence[int], *rest: Any, **named: Any) -> Tensor:
        align, scales = _read(rest, named, spatial, aligns)
        _check_sizes(op, self.shape, output_size)
        return _resampled(self, output_size, mode, scales, align_corners=align, **options)

    return forward


def _interpolation_backward(
    op: str, mode: str, spatial: int, *, aligns: bool, **options: int
) -> Any:
    def backward(
        grad_output: Tensor,
        output_size: Sequence[int],
        input_size: Sequence[int],
        *rest: Any,
        **named: Any,
    ) -> Tensor:
        align, scales = _read(rest, named, spatial, aligns)
        _check_sizes(op, input_size, output_size)
        expected = [*input_size[:2], *output_size]
        if list(grad_output.shape) != expected:
            raise RuntimeError(
                f"{op}: Expected grad_output to have the shape {expected} of the output, "
                f"got {list(grad_output.shape)}"
            )
        return _resampled(
            grad_output,
            input_size[2:],
            mode,
            scales,
            align_corners=align,
            transposed=1,
            **options,
        )

    return backward


def _read(
    rest: Sequence[Any], named: dict[str, Any], spatial: int, aligns: bool
) -> tuple[int, list[float | None]]:
    """align_corners, if the op has it, and a scale for each dim, by place or by name."""
    names = ["scales"] if spatial == 1 else [f"scales_{d}" for d in "dhw"[-spatial:]]
    values = dict(zip((["align_corners"] if aligns else []) + names, rest, strict=False)) | named
    return int(values.get("align_corners", False)), [values.get(name) for name in names]


_AA = {"antialias": 1}
_OPS: dict[str, tuple[str, int, bool, dict[str, int]]] = {
    **{f"upsample_nearest{n}d": ("nearest", n, False, {}) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": ("nearest_exact", n, False, {}) for n in (1, 2, 3)},
    "upsample_linear1d": ("linear", 1, True, {}),
    "upsample_bilinear2d": ("linear", 2, True, {}),
    "upsample_trilinear3d": ("linear", 3, True, {}),
    "upsample_bicubic2d": ("cubic", 2, True, {}),
    "_upsample_bilinear2d_aa": ("linear", 2, True, _AA),
    "_upsample_bicubic2d_aa": ("cubic", 2, True, _AA),
}


# ---- torch.nn.functional.pad


def _pad(op: str, mode: str, spatial: int) -> tuple[Any, Any]:
    shape = getattr(torch.ops.aten, op).default

    def lefts(padding: Sequence[int]) -> dict[str, int]:
        return {f"left{back + 1}": padding[2 * back] for back in range(spatial)}

    def forward(self: Tensor, padding: Sequence[int]) -> Tensor:
        sizes = like_on_meta(shape, (self,), tuple(padding)).shape[-spatial:]
        return _resampled(self, sizes, mode, [None] * spatial, **lefts(padding))

    def backward(grad_output: Tensor, self: Tensor, padding: Sequence[int]) -> Tensor:
        expected = like_on_meta(shape, (self,), tuple(padding)).shape
        if grad_output.shape != expected:
            raise RuntimeError(
                f"{op}_backward: grad_output must have shape {list(expected)}, "
                f"got {list(grad_output.shape)}"
            )
        sizes = self.shape[self.dim() - spatial :]
        return _resampled(
            grad_output, sizes, mode, [None] * spatial, transposed=1, **lefts(padding)
        )

    return forward, backward


_PADS = {
    f"{name}_pad{n}d": _pad(f"{name}_pad{n}d", mode, n)
    for name, mode in (("reflection", "reflect"), ("replication", "replicate"))
    for n in (1, 2, 3)
}

for op, (mode, spatial, aligns, options) in _OPS.items():
    composition(op)(_interpolation(op, mode, spatial, aligns=aligns, **options))
    composition(f"{op}_backward")(
        _interpolation_backward(op, mode, spatial, aligns=aligns, **options)
    )
for op, (forward, backward) in _PADS.items():
    composition(op)(forward)
    composition(f"{op}_backward")(backward)


@own_op(
    "resample(Tensor self, int[] dims, int[] size, str mode, bool align_corners, bool antialias, "
    "bool transposed, int[] left, float scale, float scale_2, float scale_3) -> Tensor"
)
def _of_size(self: Tensor, dims: Sequence[int], size: Sequence[int], *_: Any) -> Tensor:
    sizes = list(self.shape)
    for dim, n in zip(dims, size, strict=True):
        sizes[dim] = n
    return self.new_empty(sizes)
