# SPDX-License-Identifier: BSD-3-Clause
"""For transformers' Trainer: cuts, profiles, captured steps, and random numbers in checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback
from transformers.trainer_callback import ExportableState

from torch_nntile import device
from torch_nntile.errors import InvalidArgumentError
from torch_nntile.integrations.loops import Steps
from torch_nntile.replay.captured import Captured, capture

__all__ = ["CapturedTrainer", "KeepRandomState", "NntileCallback"]


class NntileCallback(TrainerCallback):
    """Cuts and a profile: `Trainer(callbacks=[NntileCallback(tiling={"batch": 4})])`.

    Options are those of `torch_nntile.integrations.loops.Steps`.
    """

    def __init__(self, **options: Any) -> None:
        self.steps = Steps(**options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        """With the model that the loop calls."""
        self.steps.begin(given["model"])

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Of the first batch that is accumulated."""
        self.steps.step_begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the optimizer's step."""
        self.steps.step_end()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the last step."""
        self.steps.end()


class CapturedTrainer(Trainer):
    """Trainer whose forward and backward pass are recorded and replayed: `capture` of each batch.

    A last batch of another size is recorded beside the others. Models that read data cannot be
    captured: an error says where.

    Raises:
        ValueError: at the first step, with gradient accumulation: a backward pass that adds to
            gradients is not the same one twice in a row.
    """

    _captured: Captured | None = None

    def training_step(
        self, model: nn.Module, inputs: dict[str, Any], num_items_in_batch: Any = None
    ) -> Tensor:
        """Loss and gradients of a batch."""
        if self.args.gradient_accumulation_steps != 1:
            raise InvalidArgumentError(
                "CapturedTrainer: gradient_accumulation_steps must be 1, got "
                f"{self.args.gradient_accumulation_steps}"
            )
        if self._captured is None:
            self._captured = capture(self._uncaptured)
        items = num_items_in_batch
        if isinstance(items, int):
            items = torch.tensor(items)  # a tensor is read anew by each replay
        result: Tensor = self._captured(model, dict(inputs), items)
        return result

    def _uncaptured(self, model: Any, inputs: Any, items: Any) -> Tensor:
        result: Tensor = super().training_step(model, inputs, items)
        return result


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
