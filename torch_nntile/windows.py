# SPDX-License-Identifier: BSD-3-Clause
"""Windows of eager mode: what an optimizer's step calls is submitted as one graph.

A step is some ten element-wise calls for each parameter. Held back until its end, they are fused:
one task for each tile of a parameter reads gradient, parameter and state once. Whatever else a step
does (a norm, a closure with a forward pass, `.item()`) submits what waits before it.
"""

from __future__ import annotations

from typing import Any

from torch.optim import Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from torch_nntile import _c


def _on_device(optimizer: Optimizer) -> bool:
    return any(
        parameter.device.type == "nntile"
        for group in optimizer.param_groups
        for parameter in group["params"][:1]
    )


def _open(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    if _on_device(optimizer):
        _c.call("nntile_record_window", _c.record(), 1)


def _close(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    if _on_device(optimizer):
        _c.call("nntile_record_window", _c.record(), 0)


def register() -> None:
    """Registered once, when the package is imported."""
    register_optimizer_step_pre_hook(_open)
    register_optimizer_step_post_hook(_close)
