# SPDX-License-Identifier: BSD-3-Clause
"""Your own ops: formulas, and kernels in Python that Numba compiles."""

from __future__ import annotations

from torch_nntile.kernels.annotations import In, InMut, Out, Scalar, Unused
from torch_nntile.kernels.expression import expression
from torch_nntile.kernels.operators import Kernel, jit, kernel
from torch_nntile.kernels.source import cuda, index

__all__ = [
    "In",
    "InMut",
    "Kernel",
    "Out",
    "Scalar",
    "Unused",
    "cuda",
    "expression",
    "index",
    "jit",
    "kernel",
]
