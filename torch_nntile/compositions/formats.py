# SPDX-License-Identifier: BSD-3-Clause
"""The memory format that strides suggest, as kernels of the CPU read them."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format as suggested_by_pytorch

from torch_nntile import versions

__all__ = ["suggest_memory_format"]


def suggest_memory_format(x: Tensor) -> torch.memory_format:
    """channels_last where the strides of four or five dims grow in its order."""
    if versions.PYTHON_KNOWS_CHANNELS_LAST or x.dim() not in (4, 5):
        return suggested_by_pytorch(x)
    strides, least = x.stride(), 0
    if strides[1] == 0 or 0 in x.shape:
        return torch.contiguous_format
    for d in (1, *range(x.dim() - 1, 1, -1), 0):
        if strides[d] < least or (d == 0 and least == strides[1]):
            return torch.contiguous_format
        least = strides[d] * x.shape[d]
    return torch.channels_last if x.dim() == 4 else torch.channels_last_3d
