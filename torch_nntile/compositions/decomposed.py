# SPDX-License-Identifier: BSD-3-Clause
"""Overloads that PyTorch itself makes of other ops: by decompositions, or in its functions for the CPU."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from torch_nntile.compositions.registry import composition

__all__ = ["DECOMPOSED"]

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# Their kernels for the CPU ask nothing of where operands are.
_MADE_OF_OPS = ("_native_multi_head_attention", "_transformer_encoder_layer_fwd")

# Entries of torch._decomp.core_aten_decompositions() whose parts all have rows; a test checks it.
DECOMPOSED: tuple[str, ...] = (
    *("addr", "vdot", "deg2rad", "rad2deg", "frac", "sinc"),
    *("trace", "renorm"),
    *("mish_backward", "celu", "special_entr"),
    *("binary_cross_entropy_with_logits", "_weight_norm_interface"),
    *("aminmax", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype", "isin.Tensor_Scalar"),
    *("all.dims", "count_nonzero.dim_IntList"),
)


def _late(overload: str) -> Callable[..., Any]:
    """PyTorch's decomposition, looked up at the first call: the table takes 0.15 s to build."""

    @functools.cache
    def look_up() -> Callable[..., Any]:
        name, _, variant = overload.partition(".")
        op = getattr(getattr(torch.ops.aten, name), variant or "default")
        function: Callable[..., Any] = _core_decompositions()[op]
        return function

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        try:
            return look_up()(*args, **kwargs)
        except AssertionError as error:  # some assert what kernels check
            raise RuntimeError(f"{overload}: {error}") from error

    return decomposition


@functools.cache
def _core_decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())  # its own .get() knows no entry


for _overload in DECOMPOSED:
    composition(_overload)(_late(_overload))
for _overload in _MADE_OF_OPS:
    composition(_overload)(
        functools.partial(getattr(torch.ops.aten, _overload).default.redispatch, _CPU)
    )
