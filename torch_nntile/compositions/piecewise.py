# SPDX-License-Identifier: BSD-3-Clause
"""Functions of pieces, activations and losses among them: a row of ours, after what the CPU refuses."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composition, elementwise, own_op

__all__ = ["MEAN", "NONE", "norm_of", "reduced"]

Number = float | int | bool
NONE, MEAN, SUM = 0, 1, 2  # numbers of a reduction


def reduced(loss: Tensor, reduction: int) -> Tensor:
    return loss.mean() if reduction == MEAN else loss.sum() if reduction == SUM else loss


def norm_of(self: Tensor, reduction: int) -> float:
    return 1 / self.numel() if reduction == MEAN and self.numel() else 1.0


@composition("elu_backward")
def elu_backward(
    grad_output: Tensor,
    alpha: Number,
    scale: Number,
    input_scale: Number,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    if is_result and alpha < 0:
        raise RuntimeError(
            "In-place elu backward calculation is triggered with a negative slope which is not "
            "supported. This is caused by calling in-place forward function with a negative slope, "
            "please call out-of-place version instead."
        )
    by = "result" if is_result else "operand"
    return torch.ops.nntile.elu_backward(grad_output, self_or_result, by, alpha, scale, input_scale)


@composition("softshrink")
def softshrink(self: Tensor, lambd: Number = 0.5) -> Tensor:
    if self.is_floating_point() and not 0 <= lambd <= torch.finfo(self.dtype).max:
        raise RuntimeError(
            f"lambda must be in range [0, {torch.finfo(self.dtype).max:g}] for input dtype "
            f"{self.dtype}, but found {lambd}"
        )
    return torch.ops.nntile.softshrink(self, lambd)


@composition("logit")
def logit(self: Tensor, eps: Number | None = None) -> Tensor:
    if not self.is_floating_point():
        self = self.to(torch.get_default_dtype())
    if eps is None or eps < 0:
        low, high = -math.inf, math.inf
    elif self.dtype in (torch.float16, torch.bfloat16):  # the CPU's bounds are of this dtype
        low = torch.tensor(eps, dtype=self.dtype).item()
        high = torch.tensor(1 - low, dtype=self.dtype).item()
    else:
        low, high = float(eps), 1.0 - eps
    return torch.ops.nntile.logit(self, low, high)


def _loss(name: str, *, width: bool = True) -> None:
    """A loss of the difference and its gradient; `width` of the piece about 0, if it has one."""

    def loss(self: Tensor, target: Tensor, reduction: int = MEAN, size: float = 1.0) -> Tensor:
        if name == "smooth_l1" and size < 0:
            raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
        if name == "huber" and size <= 0:
            raise RuntimeError("huber_loss does not support non-positive values for delta.")
        numbers = (size,) if width else ()
        return reduced(getattr(torch.ops.nntile, name)(self, target, *numbers), reduction)

    def backward(
        grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, *numbers: float
    ) -> Tensor:
        norm = norm_of(self, reduction) * (1 if width else 2)
        row = getattr(torch.ops.nntile, f"{name}_backward")
        return row(grad_output, self, target, norm, *numbers)

    composition(f"{name}_loss")(loss)
    composition(f"{name}_loss_backward")(backward)
    numbers = ", float width" if width else ""
    own_op(
        f"{name}(Tensor self, Tensor target{numbers}) -> Tensor", lambda x, t, *_: elementwise(x, t)
    )
    own_op(
        f"{name}_backward(Tensor grad_output, Tensor self, Tensor target, float norm{numbers})"
        " -> Tensor",
        lambda dy, x, t, *_: elementwise(dy, x, t),
    )


def _halves(self: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    if self.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = self.size(dim)
    if size % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim % self.dim()} is size {size}"
        )
    return self.narrow(dim, 0, size // 2), self.narrow(dim, size // 2, size // 2)


@composition("glu")
def glu(self: Tensor, dim: int = -1) -> Tensor:
    return torch.ops.nntile.glu(*_halves(self, dim))


@composition("glu_backward")
def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """Each half is a pass of its own, which writes its part of the result."""
    a, gate = _halves(self, dim)
    da = torch.ops.nntile.glu(grad_output, gate)
    return torch.cat((da, torch.ops.nntile.glu_gate_backward(grad_output, a, gate)), dim)


@composition("nan_to_num")
def nan_to_num(
    self: Tensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Tensor:
    if not self.is_floating_point():
        return self.clone()
    numbers = torch.finfo(self.dtype)
    return torch.ops.nntile.nan_to_num(
        self,
        0.0 if nan is None else nan,
        numbers.max if posinf is None else posinf,
        numbers.min if neginf is None else neginf,
    )


@composition("nansum")
def nansum(
    self: Tensor,
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    if self.is_floating_point():
        self = torch.ops.nntile.nan_to_num(self, 0.0, math.inf, -math.inf)
    return torch.sum(self, dim, keepdim, dtype=dtype)


own_op("glu(Tensor self, Tensor gate) -> Tensor", elementwise)
own_op(
    "glu_gate_backward(Tensor grad_output, Tensor self, Tensor gate) -> Tensor",
    elementwise,
)
own_op(
    "elu_backward(Tensor grad_output, Tensor self, str by, Scalar alpha, Scalar scale, "
    "Scalar input_scale) -> Tensor",
    lambda grad_output, self, *_: elementwise(grad_output, self),
)
own_op("softshrink(Tensor self, Scalar lambd) -> Tensor", lambda self, _: elementwise(self))
own_op("logit(Tensor self, float low, float high) -> Tensor", lambda self, *_: elementwise(self))
own_op(
    "nan_to_num(Tensor self, float nan, float posinf, float neginf) -> Tensor",
    lambda self, *_: elementwise(self),
)
_loss("mse", width=False)
_loss("smooth_l1")
_loss("huber")
