# SPDX-License-Identifier: BSD-3-Clause
"""Batches for the models of stock_transformers.py: two examples each, always the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WORDS, LENGTH, SIZE = 97, 12, 32  # of texts, and of pictures
Inputs = Callable[[], dict[str, Any]]


def of_a_seed() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def words(length: int = LENGTH) -> Tensor:
    return torch.randint(5, WORDS, (2, length), generator=of_a_seed())


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=of_a_seed())


def classes() -> Tensor:
    return torch.tensor([1, 3])


def text() -> dict[str, Any]:
    """Two texts, one with padding on its left."""
    ids = words()
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids}


def long_text() -> dict[str, Any]:
    ids = words(32)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def spans() -> dict[str, Any]:
    start = torch.tensor([2, 4])
    return {"input_ids": words(), "start_positions": start, "end_positions": start + 3}


def picture() -> dict[str, Any]:
    return {"pixel_values": noise(2, 3, SIZE, SIZE), "labels": classes()}


def segments() -> dict[str, Any]:
    return picture() | {"labels": torch.arange(2 * 8 * 8).reshape(2, 8, 8) % 5}


def boxes() -> dict[str, Any]:
    box = torch.tensor([[0.4, 0.5, 0.2, 0.3], [0.6, 0.3, 0.2, 0.2]])
    return {
        "pixel_values": noise(2, 3, SIZE, SIZE),
        "labels": [{"class_labels": torch.tensor([1, 2]), "boxes": box} for _ in range(2)],
    }


def captioned() -> dict[str, Any]:
    ids = words()
    ids[:, -1] = 2
    mask = torch.ones_like(ids)
    return {"input_ids": ids, "attention_mask": mask, "pixel_values": noise(2, 3, SIZE, SIZE)}


def pairs() -> dict[str, Any]:
    return captioned() | {"return_loss": True}


def masked_pictures() -> dict[str, Any]:
    return {"pixel_values": noise(2, 3, SIZE, SIZE), "noise": noise(2, 16).sigmoid()}


def video() -> dict[str, Any]:
    hidden = (torch.arange(32) % 4 == 0).expand(2, -1)
    return {"pixel_values": noise(2, 4, 3, SIZE, SIZE), "bool_masked_pos": hidden}


def waves() -> dict[str, Any]:
    return {"input_values": noise(2, 2000), "labels": torch.arange(1, 9).reshape(2, 4)}


def spectra() -> dict[str, Any]:
    return {"input_features": noise(2, 16, 60), "labels": words()}


def series() -> dict[str, Any]:
    past, future = noise(2, 17), noise(2, 4)
    return {
        "past_values": past,
        "past_time_features": noise(2, 17, 1),
        "past_observed_mask": torch.ones(2, 17),
        "future_values": future,
        "future_time_features": noise(2, 4, 1),
    }
