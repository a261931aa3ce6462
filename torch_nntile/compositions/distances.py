# SPDX-License-Identifier: BSD-3-Clause
"""Distances between points: cdist and pdist of any norm.

Differences of all pairs are an operand like any other. cdist() of more than 25 points, of norm 2, is a
product that PyTorch makes by itself.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composition

__all__ = ["only_wide_floats"]


def only_wide_floats(kernel: str, *tensors: Tensor) -> None:
    """What the CPU's kernel says of 16 bits, of integers, and of two dtypes."""
    for x in tensors:
        if x.dtype not in (torch.float32, torch.float64):
            raise NotImplementedError(f'"{kernel}" not implemented for {x.dtype}')
        if x.dtype != tensors[0].dtype:
            raise RuntimeError(f"{kernel}: expected dtype {tensors[0].dtype} but found {x.dtype}")


def _norm(difference: Tensor, p: float) -> Tensor:
    """Along the last dim."""
    if p == 0:  # as the CPU counts: nan is no number
        return difference.abs().ceil().clamp_max(1).sum(-1)
    if not difference.shape[-1]:
        return difference.sum(-1)
    return torch.linalg.vector_norm(difference, p, -1)


def _sign(x: Tensor) -> Tensor:
    """As the CPU has it here: of nan it is nan."""
    return x.ceil().clamp(0, 1) + x.floor().clamp(-1, 0)


def _slope(difference: Tensor, distance: Tensor, p: float) -> Tensor:
    """Of the norm at each difference, as the CPU has it: 0 where the distance is, also in a corner."""
    if p == 0:
        return torch.zeros_like(difference)
    if p == 1:
        return _sign(difference)
    if p == 2:
        return torch.where(distance == 0, 0, difference / distance)
    if p == math.inf:  # all that are the largest
        return _sign(difference) * (difference.abs() == distance)
    size = difference.abs()
    slope = _sign(difference) * (size / distance).pow(p - 1)
    corner = (difference == 0) & (p < 1)
    return torch.where((distance == 0) | corner, 0, slope)


@composition("_cdist_forward")
def cdist_forward(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    for name, x in (("X1", x1), ("X2", x2)):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {x.dtype}")
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.dim()}D")
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}"
        )
    if not p >= 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in (None, 0, 1, 2):
        raise RuntimeError(f"possible modes: 0, 1, 2, but was: {compute_mode}")
    many = max(x1.shape[-2], x2.shape[-2]) > 25
    if p == 2 and (compute_mode == 1 or (not compute_mode and many)) and x1.numel() and x2.numel():
        batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
        return torch._euclidean_dist(
            x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:])
        )
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if difference.numel():  # else no kernel is asked
        only_wide_floats("cdist", x1, x2)
    return _norm(difference, p)


@composition("_cdist_backward")
def cdist_backward(grad: Tensor, x1: Tensor, x2: Tensor, p: float, cdist: Tensor) -> Tensor:
    """Of x1, of the batch of both: autograd sums what was expanded."""
    only_wide_floats("cdist_backward", x1, x2, grad)
    slope = _slope(x1.unsqueeze(-2) - x2.unsqueeze(-3), cdist.unsqueeze(-1), p)
    return (grad.unsqueeze(-1) * slope).sum(-2)


def _pairs(self: Tensor) -> tuple[Tensor, Tensor]:
    """Numbers (i, j) with i < j of all pairs of rows, in the order of the CPU."""
    n = self.shape[0]
    k = torch.arange(n * (n - 1) // 2, device=self.device)
    i = (n - 0.5 - torch.sqrt((n - 0.5) ** 2 - 2 * k.double() - 1)).floor().long()
    return i, k - n * i + i * (i + 1) // 2 + i + 1


def _differences(self: Tensor, pairs: tuple[Tensor, Tensor]) -> Tensor:
    i, j = (self.index_select(0, index) for index in pairs)
    return i - j


@composition("_pdist_forward")
def pdist_forward(self: Tensor, p: float = 2) -> Tensor:
    if not self.is_contiguous():
        raise RuntimeError("_pdist_forward requires contiguous input")
    difference = _differences(self, _pairs(self))
    if difference.numel():
        only_wide_floats("pdist", self)
    return _norm(difference, p)


@composition("_pdist_backward")
def pdist_backward(grad: Tensor, self: Tensor, p: float, pdist: Tensor) -> Tensor:
    if not grad.numel():
        return self.new_zeros(self.shape)
    only_wide_floats("pdist_backward", self, grad)
    pairs = _pairs(self)
    parts = grad.unsqueeze(-1) * _slope(_differences(self, pairs), pdist.unsqueeze(-1), p)
    dx = self.new_zeros(self.shape).index_add(0, pairs[0], parts)
    return dx.index_add(0, pairs[1], parts, alpha=-1)
