# SPDX-License-Identifier: BSD-3-Clause
"""`torch.nntile.amp`: mixed precision by the names of torch.cuda.amp, for this device."""

from __future__ import annotations

import functools
from typing import Any

import torch

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(torch.amp.autocast):  # noqa: N801
    """`torch.autocast("nntile", ...)`."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype | None = None, cache_enabled: bool = True
    ) -> None:
        super().__init__("nntile", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("nntile", ...)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("nntile", *args, **kwargs)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="nntile")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="nntile")
