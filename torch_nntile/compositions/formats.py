# SPDX-License-Identifier: BSD-3-Clause
"""What PyTorch says of a result without its data; the memory format that strides suggest."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import suggest_memory_format as suggested_by_pytorch

from torch_nntile import versions

__all__ = ["like_on_meta", "suggest_memory_format"]

Form = tuple[tuple[int, ...], tuple[int, ...], torch.dtype]


def like_on_meta(
    op: Callable[..., Any], operands: Sequence[Tensor], *settings: Any, **named: Any
) -> Any:
    """Results without data, with PyTorch's shapes and strides; or its error. Asked once for a form."""
    forms = tuple((x.shape, x.stride(), x.dtype) for x in operands)
    return _like_forms(op, forms, *settings, **named)


@functools.lru_cache(maxsize=1024)
def _like_forms(
    op: Callable[..., Any], forms: tuple[Form, ...], *settings: Any, **named: Any
) -> Any:
    metas = (torch.empty_strided(n, s, dtype=dtype, device="meta") for n, s, dtype in forms)
    return op(*metas, *settings, **named)


def suggest_memory_format(x: Tensor) -> torch.memory_format:
    """channels_last where the strides of four or five dims grow in its order, as the CPU reads them."""
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
