# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers in checkpoints of accelerate, which saves the states of devices that it knows."""

from __future__ import annotations

from typing import Any

import torch

from torch_nntile import device

__all__ = ["RandomState"]


class RandomState:
    """The generator of the device, as something that a checkpoint holds.

    `accelerator.register_for_checkpointing(RandomState())`, before `save_state` and `load_state`.
    """

    def state_dict(self) -> dict[str, Any]:
        return {"nntile": device.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device.set_rng_state(torch.as_tensor(state["nntile"], dtype=torch.uint8))
