# SPDX-License-Identifier: BSD-3-Clause
"""Arithmetic, comparisons and reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_nntile.compositions import train
from torch_nntile.compositions.registry import composition, own_op

Number = float | int | bool


# ---- arithmetic


@composition("clamp", "clamp.Tensor")
def clamp(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if max is None:
        return torch.clamp_min(self, min)
    if min is None:
        return torch.clamp_max(self, max)
    if not isinstance(min, Tensor) and not self.is_floating_point():
        torch.clamp(torch.empty(0, dtype=self.dtype), min, max)  # errors: bounds that do not fit
    op = torch.ops.nntile.clamp
    return (op.default if isinstance(min, Tensor) else op.Scalar)(self, min, max)


@composition("hardtanh")
def hardtanh(self: Tensor, min_val: Number = -1, max_val: Number = 1) -> Tensor:
    if not self.is_floating_point():  # bounds are cut, and do not promote
        min_val, max_val = int(min_val), int(max_val)
        torch.nn.functional.hardtanh(torch.empty(0, dtype=self.dtype), min_val, max_val)  # errors
    return clamp(self, min_val, max_val)


@composition("log_sigmoid_forward")
def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    """The second result, exp(-|x|), is what the gradient needs. Both are contiguous on the CPU."""
    x = train.wide(self)
    z = torch.exp(-x.abs())
    y = torch.clamp_max(x, 0) - torch.log1p(z)
    return y.to(self.dtype).contiguous(), z.to(self.dtype).contiguous()


@composition("div.Tensor_mode")
def div_mode(self: Tensor, other: Any, *, rounding_mode: str | None) -> Tensor:
    if rounding_mode is None:
        return torch.true_divide(self, other)
    if rounding_mode == "floor":
        return torch.floor_divide(self, other)
    if rounding_mode == "trunc":
        return torch.ops.nntile.div_trunc(self, other)
    raise RuntimeError(
        "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
        f"'{rounding_mode}'"
    )


@composition("round.decimals")
def round_decimals(self: Tensor, *, decimals: int) -> Tensor:
    power = 10.0 ** abs(decimals)
    scaled = self * power if decimals >= 0 else self / power
    rounded = torch.round(scaled)
    return rounded / power if decimals >= 0 else rounded * power


@composition("addmv")
def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    column = torch.addmm(self.unsqueeze(-1), mat, vec.unsqueeze(-1), beta=beta, alpha=alpha)
    return column.squeeze(-1)


@composition("dot")
def dot(self: Tensor, tensor: Tensor) -> Tensor:
    if self.dim() != 1 or tensor.dim() != 1 or self.shape != tensor.shape:
        raise RuntimeError(
            f"dot: expected two 1D tensors of one size, got {tuple(self.shape)} and "
            f"{tuple(tensor.shape)}"
        )
    return torch.mm(self.unsqueeze(0), tensor.unsqueeze(1)).reshape(())


# ---- reductions


def _dims(self: Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(self.dim()))
    return [dim] if isinstance(dim, int) else list(dim)


@composition("linalg_vector_norm")
def vector_norm(
    self: Tensor,
    ord: Number = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    if not self.numel():
        torch.linalg.vector_norm(torch.empty(self.shape), ord, dim)  # PyTorch's error
    result_dtype = dtype or self.dtype
    x, dims = self if self.dtype == result_dtype else self.to(result_dtype), _dims(self, dim)
    norm: Tensor
    if ord == 2:
        norm = torch.ops.nntile.norm2.default(x, dims, keepdim)
        return norm
    x = train.wide(x)
    if ord == 1:
        norm = x.abs().sum(dims, keepdim=keepdim)
    elif ord == math.inf:
        norm = x.abs().amax(dims, keepdim=keepdim)
    elif ord == -math.inf:
        norm = x.abs().amin(dims, keepdim=keepdim)
    elif ord == 0:
        norm = (x != 0).to(x.dtype).sum(dims, keepdim=keepdim)
    else:
        norm = x.abs().pow(ord).sum(dims, keepdim=keepdim).pow(1 / ord)
    return norm if norm.dtype == result_dtype else norm.to(result_dtype)


@composition("_foreach_norm.Scalar")
def foreach_norm(
    self: list[Tensor], ord: Number = 2, dtype: torch.dtype | None = None
) -> list[Tensor]:
    if ord == 2 and dtype is None and all(x.is_floating_point() for x in self):
        of_all: list[Tensor] = torch.ops.nntile.foreach_norm2(self)
        return of_all
    return [
        vector_norm(x, ord, dtype=dtype)
        if x.is_floating_point() and dtype is None
        else torch.linalg.vector_norm(x, ord, dtype=dtype)
        for x in self
    ]


@composition("max.dim")
def max_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not self.numel():
        torch.empty(self.shape).max(dim)  # PyTorch's error
    return self.amax(dim, keepdim=keepdim), _ordered(self).argmax(dim, keepdim=keepdim)


@composition("min.dim")
def min_dim(self: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    if not self.numel():
        torch.empty(self.shape).min(dim)  # PyTorch's error
    return self.amin(dim, keepdim=keepdim), _ordered(self).argmin(dim, keepdim=keepdim)


def _ordered(self: Tensor) -> Tensor:
    """argmax() takes no bools, max() does."""
    return self.to(torch.uint8) if self.dtype == torch.bool else self


@composition("equal")
def equal(self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape and bool((self == other).all().item())


@composition("masked_select")
def masked_select(self: Tensor, mask: Tensor) -> Tensor:
    """The shape of the result depends on the mask, so the host must read that; print(tensor) needs it."""
    if mask.dtype != torch.bool:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    self, mask = torch.broadcast_tensors(self, mask.to(self.device))
    return self[mask]


# ---- fills


@composition("fill_.Tensor")
def fill_tensor_(self: Tensor, value: Tensor) -> Tensor:
    if value.dim() != 0:
        raise RuntimeError(
            "fill_ only supports 0-dimension value tensor but got tensor with "
            f"{value.dim()} dimensions."
        )
    return self.copy_(value.expand(self.shape))


composition("isneginf")(lambda self: self == -math.inf)
composition("isposinf")(lambda self: self == math.inf)
composition("_lazy_clone")(torch.clone)


for overload in ("(Tensor self, Tensor", ".Scalar(Tensor self, Scalar"):
    own_op(
        f"div_trunc{overload} other) -> Tensor",
        lambda self, other: torch.div(self, other, rounding_mode="trunc"),
    )
for overload, kind in (("", "Tensor"), (".Scalar", "Scalar")):
    own_op(f"clamp{overload}(Tensor self, {kind} min, {kind} max) -> Tensor", torch.clamp)
own_op(
    "norm2(Tensor self, int[] dim, bool keepdim) -> Tensor",
    lambda self, dim, keepdim: torch.sum(self, dim, keepdim),
)
own_op("foreach_norm2(Tensor[] self) -> Tensor[]", lambda self: [x.new_empty(()) for x in self])
