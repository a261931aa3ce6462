# SPDX-License-Identifier: BSD-3-Clause
"""Cross-entropy with classes in the last dim."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

__all__ = ["cross_entropy"]


def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Tensor:
    """Compute PyTorch's cross-entropy, but with the classes in the last dim of the logits.

    Args:
        logits: (..., classes), floating.
        labels: (...), int64. Labels equal to `ignore_index` do not count.
        weight: (classes,) or None.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: labels do not have the shape of logits without the class dim.
    """
    if logits.dim() == 0 or logits.shape[:-1] != labels.shape:
        raise ValueError(
            "cross_entropy: labels must have the shape of logits without the class dim, got "
            f"logits {tuple(logits.shape)} and labels {tuple(labels.shape)}"
        )
    rows = logits.reshape(-1, logits.shape[-1])
    loss = functional.cross_entropy(
        rows, labels.reshape(-1), weight, ignore_index=ignore_index, reduction=reduction
    )
    return loss.reshape(labels.shape) if reduction == "none" else loss
