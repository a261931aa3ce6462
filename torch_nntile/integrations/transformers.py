# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers in checkpoints of transformers' Trainer, which saves those of devices that it knows."""

from __future__ import annotations

from typing import Any

import torch
from transformers import TrainerCallback
from transformers.trainer_callback import ExportableState

from torch_nntile import device

__all__ = ["KeepRandomState"]


class KeepRandomState(TrainerCallback, ExportableState):
    """A resumed run draws the dropout that the whole run draws: `Trainer(callbacks=[...])`.

    The state of the device's generator goes into trainer_state.json, and comes back from there.
    """

    def state(self) -> dict[str, Any]:
        """What Trainer writes with each checkpoint."""
        return {"args": {}, "attributes": {"rng_state": device.get_rng_state().tolist()}}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Of a resumed run: `state` is what the checkpoint holds."""
        kept = state.stateful_callbacks.get(type(self).__name__)
        if state.global_step > 0 and isinstance(kept, dict):
            kept_state = kept["attributes"]["rng_state"]
            device.set_rng_state(torch.tensor(kept_state, dtype=torch.uint8))
