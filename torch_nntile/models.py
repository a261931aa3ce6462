# SPDX-License-Identifier: BSD-3-Clause
"""The old place of the example's model. It goes with version 0.2."""

from __future__ import annotations

import warnings

from torch_nntile.train_mnist import DeepReLU

__all__ = ["DeepReLU"]

warnings.warn(
    "torch_nntile.models goes with version 0.2: write torch_nntile.train_mnist",
    DeprecationWarning,
    stacklevel=2,
)
