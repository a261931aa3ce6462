# SPDX-License-Identifier: BSD-3-Clause
"""Cuts and a profile for loops that are not the user's: what the callbacks of the other modules share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from torch_nntile import axes
from torch_nntile.errors import InvalidArgumentError
from torch_nntile.profiling.profile import profile as Profile

__all__ = ["Steps"]

Sizes = int | Sequence[int] | Literal["auto", "whole"]


class Steps:
    """Told of the begin and the end of a training and of its steps, it cuts and profiles.

    >>> for inputs, labels in Steps(tiling={"batch": 4}, profile="step.html").over(loader):
    ...     ...

    Args:
        tiling: sizes by name: "batch" is the first dim of each tensor of a batch whose extent is that
            of the first such tensor; other names are those that the user gave.
        cuts: a file of `save_cuts()`: read at the begin if it is there, written at the end.
        profile: a page to write (.html), with the tasks of one step.
        profile_step: which, from 1 on. The first ones make plans.

    Raises:
        ValueError: `profile_step` below 1.
    """

    def __init__(
        self,
        *,
        tiling: Mapping[str, Sizes] | None = None,
        cuts: str | os.PathLike[str] | None = None,
        profile: str | os.PathLike[str] | None = None,
        profile_step: int = 3,
    ) -> None:
        if profile_step < 1:
            raise InvalidArgumentError(f"profile_step must be 1 or more, got {profile_step}")
        self.tiling, self.cuts = dict(tiling or {}), cuts
        self.page, self.profile_step = profile, profile_step
        self._step = 0
        self._profile: Profile | None = None
        self._hook: Any = None

    def over(self, loader: Iterable[Any]) -> Iterator[Any]:
        """The batches of a loader, each a step; what they run is cut and profiled."""
        self.begin()
        try:
            for batch in loader:
                self.step_begin(batch)
                yield batch
                self.step_end()
        finally:
            self.end()

    def begin(self, model: nn.Module | None = None) -> None:
        """Before the first step; of a model that is given, what it is called with is a batch."""
        self._step = 0
        if self.cuts is not None and Path(self.cuts).exists():
            axes.load_cuts(self.cuts)
        if self.tiling and model is not None:
            cut = self._before_call
            self._hook = model.register_forward_pre_hook(cut, with_kwargs=True)

    def step_begin(self, batch: Any = None) -> None:
        """Before a step, with its batch if the loop has it on the device."""
        self._step += 1
        if self.tiling and batch is not None:
            self._cut(batch)
        if self.page is not None and self._step == self.profile_step:
            self._profile = Profile()
            self._profile.__enter__()

    def step_end(self) -> None:
        """After it."""
        if self._profile is not None and self.page is not None:
            found, self._profile = self._profile, None
            found.__exit__(None, None, None)
            found.html(self.page)

    def end(self) -> None:
        """After the last step, or after an error."""
        self.step_end()
        if self._hook is not None:
            self._hook.remove()
            self._hook = None
        if self.cuts is not None:
            axes.save_cuts(self.cuts)

    def _before_call(self, _model: nn.Module, args: Any, kwargs: Any) -> None:
        self._cut((args, kwargs))

    def _cut(self, batch: Any) -> None:
        leaves = [x for x in pytree.tree_leaves(batch) if isinstance(x, Tensor)]
        tensors = [x for x in leaves if x.device.type == "nntile" and x.dim()]
        if "batch" in self.tiling:
            for x in tensors:
                if x.shape[0] == tensors[0].shape[0]:
                    axes.set_axis_group_name(x, {0: "batch"})
        for name, sizes in self.tiling.items():
            axes.set_axis_group_tiling(name, sizes)
