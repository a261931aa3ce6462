# SPDX-License-Identifier: BSD-3-Clause
"""Compositions for training: losses on images, dropout, optimizers, loss scaling."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from torch_nntile.compositions.registry import composition, nothing, own_op

__all__ = ["wide"]


def wide(self: Tensor) -> Tensor:
    """Short floats as float32, in which means and sums of them are kept."""
    return self.float() if self.dtype in (torch.float16, torch.bfloat16) else self


# ---- negative log-likelihood of images: classes are dim 1 in PyTorch, the last in libnntile_c


def _classes_last(self: Tensor, target: Tensor) -> Tensor:
    if self.dim() != 4 or target.dim() != 3:
        raise RuntimeError(
            "only batches of spatial inputs supported (4D tensors), with targets of dimension 3; "
            f"got self {tuple(self.shape)} and target {tuple(target.shape)}"
        )
    x = self.permute(0, 2, 3, 1)
    if x.shape[:3] != target.shape:
        raise RuntimeError(
            f"size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})"
        )
    return x


@composition("nll_loss2d_forward")
def nll_loss2d_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    x = _classes_last(self, target)
    if target.dtype not in (torch.int64, torch.uint8):
        labels = torch.zeros(1, 1, 1, dtype=target.dtype, device="cpu")
        one = torch.zeros(1, 1, 1, 1, device="cpu")
        torch.ops.aten.nll_loss2d_forward(one, labels, None, 0, -100)  # PyTorch's error
    return torch.ops.nntile.nll_loss(x, target, weight, reduction, ignore_index)


@composition("nll_loss2d_backward")
def nll_loss2d_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> Tensor:
    x = _classes_last(self, target)
    return torch.ops.nntile.nll_loss_backward(
        grad_output, x, target, weight, reduction, ignore_index, total_weight
    ).permute(0, 3, 1, 2)


own_op(
    "nll_loss(Tensor self, Tensor target, Tensor? weight, int reduction, int ignore_index)"
    " -> (Tensor, Tensor)",
    lambda x, target, _, reduction, __: (
        x.new_empty(() if reduction else target.shape),
        x.new_empty(()),
    ),
)
own_op(
    "nll_loss_backward(Tensor grad_output, Tensor self, Tensor target, Tensor? weight, "
    "int reduction, int ignore_index, Tensor total_weight) -> Tensor",
    "self",
)


# ---- dropout


@composition("native_dropout")
def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    if train is False:
        return input.clone(), torch.ones_like(input, dtype=torch.bool)
    return torch.ops.nntile.dropout(input, p)


own_op(
    "dropout(Tensor self, float p) -> (Tensor, Tensor)",
    lambda x, _: (torch.empty_like(x), torch.empty_like(x, dtype=torch.bool)),
)


# ---- optimizers


def _is_step_skipped(
    grads: list[Tensor], grad_scale: Tensor | None, found_inf: Tensor | None
) -> bool:
    """Loss scaling inside a fused optimizer; gradients are unscaled in place, as PyTorch does."""
    if found_inf is not None and found_inf.item():
        return True
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale)
    return False


@composition("_fused_sgd_", "_fused_sgd_.tensor_lr")
def fused_sgd_(
    self: list[Tensor],
    grads: list[Tensor],
    momentum_buffer_list: list[Tensor],
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    if _is_step_skipped(grads, grad_scale, found_inf):
        return
    if not momentum_buffer_list:
        torch.ops.nntile.sgd_(self, grads, float(lr), weight_decay, maximize)
        return
    torch.ops.nntile.sgd_momentum_(
        self,
        grads,
        momentum_buffer_list,
        float(lr),
        momentum,
        dampening,
        weight_decay,
        nesterov,
        maximize,
        is_first_step,
    )


def _fused_adam(name: str) -> Callable[..., None]:
    def fused_adam_(
        self: list[Tensor],
        grads: list[Tensor],
        exp_avgs: list[Tensor],
        exp_avg_sqs: list[Tensor],
        max_exp_avg_sqs: list[Tensor],
        state_steps: list[Tensor],
        *,
        lr: float | Tensor,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: Tensor | None = None,
        found_inf: Tensor | None = None,
    ) -> None:
        if _is_step_skipped(grads, grad_scale, found_inf):
            return
        state = (self, grads, exp_avgs, exp_avg_sqs, state_steps)
        numbers = (float(lr), beta1, beta2, eps, weight_decay, maximize)
        if amsgrad:
            getattr(torch.ops.nntile, f"{name}_amsgrad_")(*state, max_exp_avg_sqs, *numbers)
        else:
            getattr(torch.ops.nntile, f"{name}_")(*state, *numbers)

    return fused_adam_


# ---- torch.amp.GradScaler, without a look at the host


@composition("_amp_foreach_non_finite_check_and_unscale_")
def amp_unscale_(self: list[Tensor], found_inf: Tensor, inv_scale: Tensor) -> None:
    for grad in self:
        infinite = torch.logical_not(torch.isfinite(grad)).any()
        found_inf.copy_(torch.maximum(found_inf, infinite.to(found_inf.dtype)))
        grad.mul_(inv_scale)


@composition("_amp_update_scale_")
def amp_update_scale_(
    self: Tensor,
    growth_tracker: Tensor,
    found_inf: Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:
    infinite = found_inf > 0
    successes = growth_tracker + 1
    grows = torch.logical_and(successes == growth_interval, torch.logical_not(infinite))
    grown = self * scale_growth_factor
    scale = torch.where(torch.logical_and(grows, torch.isfinite(grown)), grown, self)
    self.copy_(torch.where(infinite, self * scale_backoff_factor, scale))
    growth_tracker.copy_(successes.masked_fill(torch.logical_or(infinite, grows), 0))
    return self


composition("_fused_adam_")(_fused_adam("adam"))
composition("_fused_adam_.tensor_lr")(_fused_adam("adam"))
composition("_fused_adamw_")(_fused_adam("adamw"))
composition("_fused_adamw_.tensor_lr")(_fused_adam("adamw"))

_STATE = (
    "Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
    "Tensor[] state_steps"
)
_NUMBERS = "float lr, float beta1, float beta2, float eps, float weight_decay, bool maximize"

own_op(
    "sgd_(Tensor(a!)[] self, Tensor[] grads, float lr, float weight_decay, bool maximize) -> ()",
    nothing,
)
own_op(
    "sgd_momentum_(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] bufs, float lr, float momentum,"
    " float dampening, float weight_decay, bool nesterov, bool maximize, bool first) -> ()",
    nothing,
)
for name, extra in (
    ("adam_", ""),
    ("adamw_", ""),
    ("adam_amsgrad_", ", Tensor(d!)[] max_exp_avg_sqs"),
    ("adamw_amsgrad_", ", Tensor(d!)[] max_exp_avg_sqs"),
):
    own_op(f"{name}({_STATE}{extra}, {_NUMBERS}) -> ()", nothing)
