# SPDX-License-Identifier: BSD-3-Clause
"""Example models; none of them knows of device "nntile"."""

from __future__ import annotations

from torch_nntile.models.deep_relu import DeepReLU

__all__ = ["DeepReLU"]
