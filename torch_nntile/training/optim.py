# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's optimizers, fused by default where all parameters are on the device.

State, `state_dict` and hyperparameters are PyTorch's own, so checkpoints move freely between both.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["SGD", "Adam", "AdamW"]


def _prefer_fused(options: dict[str, Any], params: Any) -> tuple[Any, dict[str, Any]]:
    """`fused=True`, unless the caller chose or a parameter is elsewhere or not floating."""
    params = list(params)
    if any(options.get(name) is not None for name in ("fused", "foreach")) or options.get(
        "differentiable"
    ):
        return params, options
    tensors = [tensor for entry in params for tensor in _tensors(entry)]
    fused = all(t.device.type == "nntile" and t.is_floating_point() for t in tensors)
    return params, {**options, "fused": True} if tensors and fused else options


def _tensors(entry: Any) -> list[torch.Tensor]:
    # An entry is a parameter, a (name, parameter) pair or a group with either inside.
    if isinstance(entry, torch.Tensor):
        return [entry]
    if isinstance(entry, tuple):
        return _tensors(entry[1])
    inner = entry["params"]
    if isinstance(inner, torch.Tensor):
        return [inner]
    entry["params"] = list(inner)  # it may be a generator
    return [tensor for item in entry["params"] for tensor in _tensors(item)]


class SGD(torch.optim.SGD):
    """torch.optim.SGD, fused by default: on the device one kernel updates a parameter."""

    def __init__(self, params: Any, lr: float | torch.Tensor = 1e-3, **options: Any) -> None:
        params, options = _prefer_fused(options, params)
        super().__init__(params, lr, **options)


class Adam(torch.optim.Adam):
    """torch.optim.Adam, fused by default: on the device one kernel updates a parameter."""

    def __init__(self, params: Any, lr: float | torch.Tensor = 1e-3, **options: Any) -> None:
        params, options = _prefer_fused(options, params)
        super().__init__(params, lr, **options)


class AdamW(torch.optim.AdamW):
    """torch.optim.AdamW, fused by default: on the device one kernel updates a parameter."""

    def __init__(self, params: Any, lr: float | torch.Tensor = 1e-3, **options: Any) -> None:
        params, options = _prefer_fused(options, params)
        super().__init__(params, lr, **options)
