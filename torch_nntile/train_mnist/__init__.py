# SPDX-License-Identifier: BSD-3-Clause
"""The example with 60,000 images: its model, its data and its report. `import torch_nntile` does not
load it. `python -m torch_nntile.train_mnist` runs it."""

from __future__ import annotations

from torch_nntile.train_mnist.model import DeepReLU

__all__ = ["DeepReLU"]
