# SPDX-License-Identifier: BSD-3-Clause
"""A deep multi-layer perceptron without bias."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

__all__ = ["DeepReLU"]


class DeepReLU(nn.Module):
    """`depth` hidden layers of equal width with ReLU, then a linear classifier, without bias.

    The weights are uniform in ±sqrt(1 / fan_in). One generator draws them on the CPU, so the same
    seed gives the same model on every device.

    Args:
        features: width of the input (batch, features).
        hidden: width of each hidden layer.
        classes: width of the result (batch, classes).
        depth: number of hidden layers, at least one.
        generator: generator of the weights; None: PyTorch's default generator.
    """

    def __init__(
        self,
        features: int,
        hidden: int,
        classes: int,
        depth: int = 4,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if min(features, hidden, classes, depth) < 1:
            raise ValueError(
                f"DeepReLU: features={features}, hidden={hidden}, classes={classes} and "
                f"depth={depth} must be positive"
            )
        widths = [features, *[hidden] * depth, classes]
        self.layers = nn.ModuleList(
            nn.Linear(fan_in, fan_out, bias=False, device="meta")
            for fan_in, fan_out in itertools.pairwise(widths)
        ).to_empty(device="cpu")
        self.reset_parameters(generator)

    @classmethod
    def tiny(cls, generator: torch.Generator | None = None) -> DeepReLU:
        """128 -> 64 x 2 -> 10: for tests."""
        return cls(128, 64, 10, depth=2, generator=generator)

    @classmethod
    def mnist(
        cls, hidden: int = 256, depth: int = 4, generator: torch.Generator | None = None
    ) -> DeepReLU:
        """784 -> 256 x 4 -> 10: for images of 28 x 28."""
        return cls(28 * 28, hidden, 10, depth=depth, generator=generator)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all weights again, layer by layer."""
        for weight in self.parameters():
            bound = weight.shape[1] ** -0.5
            weight.uniform_(-bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        *hidden, last = self.layers
        for layer in hidden:
            x = torch.relu(layer(x))
        result: Tensor = last(x)
        return result
