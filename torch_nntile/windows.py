# SPDX-License-Identifier: BSD-3-Clause
"""Steps of optimizers: what one calls is submitted as one graph.

A step is some ten element-wise calls for each parameter. Held back until its end, they are fused:
one task for each tile of a parameter reads gradient, parameter and state once. Whatever else a step
does (a norm, a closure with a forward pass, `.item()`) submits what waits before it.

PyTorch runs no hook after a step that raises; the stub ends those (csrc/device/steps.cc).
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
        _c.call("nntile_stub_step_begin")


def _close(optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
    if _on_device(optimizer):
        _c.call("nntile_stub_step_end")


def register() -> None:
    """Registered once, when the package is imported."""
    _c.get("nntile_stub_watch_steps")
    register_optimizer_step_pre_hook(_open)
    register_optimizer_step_post_hook(_close)
