# SPDX-License-Identifier: BSD-3-Clause
"""FlexAttention on the device.

    import torch_nntile.integrations.flex_attention
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    y = flex_attention(q, k, v, block_mask=create_block_mask(..., device="nntile"))

PyTorch asks first whether it knows the device by name, and refuses all others. Importing this
module answers for the device; nothing else is changed. The rest of FlexAttention is made of ops
that every device has: scores are tensors, forwards and backwards, eager, captured and compiled.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.nn.attention import flex_attention

_known: Any = getattr(flex_attention, "_validate_device", None)


def _validate_device(query: Tensor, key: Tensor, value: Tensor) -> None:
    if query.device.type != "nntile":
        _known(query, key, value)


if _known is not None:  # a PyTorch that asks nothing needs no answer
    flex_attention._validate_device = _validate_device
