# SPDX-License-Identifier: BSD-3-Clause
"""Determinants, and up to PyTorch 2.10 solutions.

Their backward reads a factorisation of A, or of its transpose where A is contiguous.
The host's kernels see dense blocks and would always factorise the transpose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from torch_nntile import versions
from torch_nntile.compositions.formats import like_on_meta
from torch_nntile.compositions.registry import composition, own_op

_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _as_on_cpu(name: str, writing: str) -> Callable[..., Any]:
    """PyTorch's function for the CPU, with results of the device: it calls ops that write them."""
    packet = getattr(torch.ops.aten, name)
    op = getattr(packet, writing)
    results = [argument.name for argument in op._schema.arguments if argument.is_out]

    def call(*operands: Tensor, **options: Any) -> Any:
        try:
            like = like_on_meta(packet.default, operands, **options)
        except Exception:  # the CPU has other words for it
            packet.default(*(torch.empty_like(x, device="cpu") for x in operands), **options)
            raise
        made = (
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=operands[0].device)
            for x in like
        )
        return op.redispatch(_CPU, *operands, **options, **dict(zip(results, made, strict=True)))

    return call


composition("_linalg_det")(_as_on_cpu("_linalg_det", "result"))
composition("_linalg_slogdet")(_as_on_cpu("_linalg_slogdet", "sign"))
if versions.SOLVE_MAY_TRANSPOSE:
    composition("_linalg_solve_ex")(_as_on_cpu("_linalg_solve_ex", "result"))


@composition("_weight_int8pack_mm")
def weight_int8pack_mm(self: Tensor, mat2: Tensor, scales: Tensor) -> Tensor:
    """Activations (m, k) by weights (n, k) of 8 bits with a scale for each row: weight-only quantisation."""
    like_on_meta(torch.ops.aten._weight_int8pack_mm.default, (self, mat2, scales))
    if scales.shape != mat2.shape[:1] or scales.dtype != self.dtype:
        raise RuntimeError(
            f"_weight_int8pack_mm: expected {mat2.shape[0]} scales of {self.dtype}, "
            f"but got {list(scales.shape)} of {scales.dtype}"
        )
    product: Tensor = torch.ops.nntile.int8_mm(self.float(), mat2.t())
    return (product * scales.float()).to(self.dtype)


own_op("int8_mm(Tensor self, Tensor mat2) -> Tensor", lambda self, mat2: self @ mat2.to(self.dtype))
