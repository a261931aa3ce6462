# SPDX-License-Identifier: BSD-3-Clause
"""Strides of compositions' results. Their last part chose others than the CPU's kernel does.

Mostly they differ in dims of one element, which change no element; but expand() of such a result shows
them. A TensorIterator whose operands lie alike makes a contiguous result where they are contiguous,
other kernels take over the strides of the operand, and a few gradients are contiguous.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["with_strides_of_cpu"]

_ALIKE = frozenset(
    (
        *("triu", "tril", "sinc", "isneginf", "isposinf", "frac", "mish", "celu", "elu"),
        *("hardshrink", "softshrink", "hardsigmoid", "hardswish", "logit", "special_entr"),
        *("round.decimals", "hardsigmoid_backward", "hardtanh_backward", "hardswish_backward"),
        *("_prelu_kernel_backward", "soft_margin_loss", "smooth_l1_loss", "div.Tensor_mode"),
        *("hardshrink_backward", "softshrink_backward", "elu_backward", "logit_backward"),
        *("mish_backward", "softplus_backward", "soft_margin_loss_backward"),
    )
)
_TAKEN_OVER = frozenset(
    (
        *("hardtanh", "nan_to_num", "deg2rad", "rad2deg", "binary_cross_entropy_with_logits"),
        *("binary_cross_entropy_backward", "log_sigmoid_backward", "_prelu_kernel"),
    )
)


_CONTIGUOUS = frozenset(("mse_loss_backward", "smooth_l1_loss_backward", "huber_loss_backward"))


def with_strides_of_cpu(overload: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, whose results of the shape of the first operand get the CPU's strides."""
    if overload in _CONTIGUOUS:
        return functools.wraps(function)(lambda *args, **kw: function(*args, **kw).contiguous())
    if overload not in _ALIKE | _TAKEN_OVER:
        return function

    @functools.wraps(function)
    def restrided(first: Tensor, *args: Any, **kwargs: Any) -> Any:
        result = function(first, *args, **kwargs)
        if 1 not in first.shape:
            return result
        alike = [
            x.shape == first.shape and x.stride() == first.stride()
            for x in args
            if isinstance(x, Tensor)
        ]
        if overload in _ALIKE and not all(alike):
            return result
        strides = first.stride()
        if overload == "div.Tensor_mode" and not alike:  # by a number
            like = torch.empty_strided(first.shape, strides, device="meta")
            strides = (like + torch.empty((), device="meta")).stride()
        elif overload in _ALIKE and first.is_contiguous():
            strides = torch.empty(first.shape, device="meta").stride()
        if isinstance(result, tuple):
            return tuple(_restrided(x, first.shape, strides) for x in result)
        return _restrided(result, first.shape, strides)

    return restrided


def _restrided(x: Any, shape: torch.Size, strides: tuple[int, ...]) -> Any:
    """The same elements; x as it is where other strides than those of dims of one element differ."""
    if not isinstance(x, Tensor) or x.shape != shape or x.stride() == strides:
        return x
    same = all(n == 1 or a == b for n, a, b in zip(shape, x.stride(), strides, strict=True))
    return x.as_strided_(shape, strides) if same and x.numel() else x
