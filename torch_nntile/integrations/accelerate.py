# SPDX-License-Identifier: BSD-3-Clause
"""For loops with accelerate: cuts, profiles, and random numbers in checkpoints.

`Steps(...).over(loader)` gives the batches of a prepared loader, and cuts and profiles what they run. A
step that is a function of its batch is captured as any other: `torch_nntile.capture(step)`.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_nntile import device
from torch_nntile.integrations.loops import Steps

__all__ = ["RandomState", "Steps"]


class RandomState:
    """The generator of the device, as something that a checkpoint holds.

    `accelerator.register_for_checkpointing(RandomState())`, before `save_state` and `load_state`.
    """

    def state_dict(self) -> dict[str, Any]:
        return {"nntile": device.get_rng_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device.set_rng_state(torch.as_tensor(state["nntile"], dtype=torch.uint8))
