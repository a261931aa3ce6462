# SPDX-License-Identifier: BSD-3-Clause
"""Determinants, and up to PyTorch 2.10 solutions.

Their backward reads a factorisation of A, or of its transpose where A is contiguous.
The host's kernels see dense blocks and would always factorise the transpose.
"""

from __future__ import annotations

import torch
from torch import Tensor

from torch_nntile import versions
from torch_nntile.compositions.formats import like_on_meta
from torch_nntile.compositions.registry import composition, own_op

_SHORT = {torch.float16: "Half", torch.bfloat16: "BFloat16"}


def _factorised(name: str, A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # noqa: N803
    """LU, pivots, diagonal of U, and the sign of the permutation."""
    if A.dim() < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are "
            f"{A.shape[-2]} by {A.shape[-1]} matrices"
        )
    transposed = A.is_contiguous() and not A.is_complex()
    lu, pivots, _ = torch.linalg.lu_factor_ex(A.mT if transposed else A)
    in_place = torch.arange(1, A.shape[-1] + 1, dtype=pivots.dtype, device=A.device)
    swaps = (pivots != in_place).sum(-1)
    return lu, pivots, lu.diagonal(0, -2, -1), (1 - 2 * (swaps % 2)).to(A.dtype)


def solve(
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    *,
    left: bool = True,
    check_errors: bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    transposed = A.is_contiguous() and not A.is_complex()
    lu, pivots, info = torch.linalg.lu_factor_ex(A.mT if transposed else A)
    if check_errors:
        torch._linalg_check_errors(info, "torch.linalg.solve_ex", is_matrix=A.dim() == 2)
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and B.shape == A.shape[:-1])
    right = B.unsqueeze(-1) if vector else B
    result = torch.linalg.lu_solve(lu, pivots, right, left=left, adjoint=transposed)
    if vector:
        result = result.squeeze(-1)
        if result.dim() > 1:  # one matrix, with its columns in a row
            result = result.mT.contiguous().mT
    return result, lu, pivots, info


if versions.SOLVE_MAY_TRANSPOSE:
    composition("_linalg_solve_ex")(solve)


@composition("_linalg_det")
def det(A: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # noqa: N803
    lu, pivots, diagonal, sign = _factorised("det", A)
    return diagonal.prod(-1) * sign, lu, pivots


@composition("_linalg_slogdet")
def slogdet(A: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # noqa: N803
    if A.dtype in _SHORT:  # also where there is nothing to factorise
        raise RuntimeError(
            f"linalg.slogdet: Low precision dtypes not supported. Got {_SHORT[A.dtype]}"
        )
    lu, pivots, diagonal, sign = _factorised("slogdet", A)
    return diagonal.sgn().prod(-1) * sign, diagonal.abs().log().sum(-1), lu, pivots


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
