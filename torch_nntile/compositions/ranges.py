# SPDX-License-Identifier: BSD-3-Clause
"""Ranges of numbers: linspace and logspace, in the roundings of the CPU's kernels; eye; windows.

PyTorch makes all their forms of the one with `out=`, which these write: the dtype is that of `out`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_nntile import versions
from torch_nntile.compositions.registry import composition

Number = float | int | complex
_SHORT = (torch.float16, torch.bfloat16)


@composition("linspace.out")
def linspace_out(start: Number, end: Number, steps: int, *, out: Tensor) -> Tensor:
    """The CPU's product and sum are one rounding; of short floats, up to PyTorch 2.14, each is
    rounded, the index too.
    """
    exact = out.is_complex() or (out.dtype in _SHORT and not versions.SHORT_RANGES_IN_FLOAT)
    _resize(out, steps)
    if steps == 0:  # no number is looked at
        return out
    if steps == 1:
        return out.fill_(start)
    line = _line(start, end, steps, out, out.dtype if exact else torch.float64)
    return out.copy_(line.view(out.shape))


@composition("logspace.out")
def logspace_out(
    start: Number, end: Number, steps: int, base: float = 10.0, *, out: Tensor
) -> Tensor:
    _resize(out, steps)
    if steps == 0:  # no number is looked at
        return out
    if steps == 1:
        return out.fill_(base**start)
    line = _line(start, end, steps, out, out.dtype if out.is_complex() else torch.float64)
    return out.copy_(torch.pow(base, line).view(out.shape))


@composition("eye.out", "eye.m_out")
def eye_out(n: int, m: int | None = None, *, out: Tensor) -> Tensor:
    m = n if m is None else m
    for name, extent in (("n", n), ("m", m)):
        if extent < 0:
            raise RuntimeError(f"{name} must be greater or equal to 0, got {extent}")
    out.resize_((n, m)).zero_().diagonal().fill_(1)
    return out


@composition("kaiser_window", "kaiser_window.periodic", "kaiser_window.beta")
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """PyTorch's calls a table of kernels that only knows its own devices."""
    layout = layout or torch.strided
    window = torch.kaiser_window(
        window_length, periodic, beta, dtype=dtype, layout=layout, device="cpu"
    )
    return window.to(device)


def _resize(out: Tensor, steps: int) -> None:
    """Another shape of as many elements stays."""
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if out.numel() != steps:
        out.resize_([steps])


def _line(start: Number, end: Number, steps: int, out: Tensor, dtype: torch.dtype) -> Tensor:
    """Counted from both ends. Ends, and the step of floats, are numbers of the dtype of `out`."""
    if out.dtype == torch.bool:  # of one step or none the CPU makes bools
        raise NotImplementedError("linspace and logspace are not implemented for 'Bool'")
    own = out.dtype if out.is_floating_point() or out.is_complex() else torch.float64
    if out.dtype in _SHORT and versions.SHORT_RANGES_IN_FLOAT:
        own = torch.float32

    def number(value: Number) -> Tensor:
        return torch.full((), value, dtype=out.dtype, device="cpu").to(own)

    first, last = number(start), number(end)
    step = (last - first) / torch.full((), steps - 1, dtype=own, device="cpu")
    index = torch.arange(steps, device=out.device)
    rising = index.to(dtype) * step.item() + first.item()
    falling = (steps - 1 - index).to(dtype) * -step.item() + last.item()
    return torch.where(index < steps // 2, rising, falling)
