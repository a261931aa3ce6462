# SPDX-License-Identifier: BSD-3-Clause
"""Helpers for training. Each is PyTorch's own, with the setting that is fastest on the device."""

from __future__ import annotations

from torch_nntile.training.checkpoint import load_checkpoint, save_checkpoint
from torch_nntile.training.loss import cross_entropy
from torch_nntile.training.optim import SGD, Adam, AdamW
from torch_nntile.training.step import train_full_batch_step

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "cross_entropy",
    "load_checkpoint",
    "save_checkpoint",
    "train_full_batch_step",
]
