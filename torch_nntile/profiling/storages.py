# SPDX-License-Identifier: BSD-3-Clause
"""What the storages of a profile are: parameters, gradients, state of optimizers, activations.

Nobody says so when a storage is made. A module that is called has its parameters, an optimizer that
steps its parameters, their gradients and its state: these are noted then, by address, and found
again among the storages by address and time.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizers

__all__ = ["KINDS", "Storage", "StorageNotes", "address_of", "changes", "curves"]

PARAMETERS, GRADIENTS, STATE = "parameters", "gradients", "optimizer state"
ACTIVATIONS, TEMPORARIES, OTHERS = "activations", "temporaries", "others"
KINDS = (PARAMETERS, GRADIENTS, STATE, ACTIVATIONS, TEMPORARIES, OTHERS)


@dataclass(frozen=True, slots=True)
class Storage:
    """A storage, as long as the profile saw it. Times are in seconds since the profile began."""

    start: float  #: 0.0: it was there before
    end: float  #: of the profile, if it was there then
    bytes: int
    line: str  #: "model.py:14", of the call that made it; "" where it is not known
    backward: bool  #: made by the backward pass of what stands there
    module: str  #: whose parameter it is, or that made it: "GPT.layers.3.attn"
    kind: str  #: one of KINDS. What a backward pass or a step of an optimizer makes is temporary
    address: int


_Note = tuple[int, str, str]  # when, in ns; kind, module

_has_storage = torch._C._has_storage


def address_of(tensor: object) -> int:
    """Of its storage, which on another device is none of ours; 0: it is on the CPU, or has none."""
    if not isinstance(tensor, Tensor) or tensor.get_device() < 0 or not _has_storage(tensor):
        return 0
    return tensor.untyped_storage().data_ptr()


class StorageNotes:
    """From its making until `end()`, which gives the notes for `named()`."""

    def __init__(self, module_now: Callable[[], str]) -> None:
        self._module_now = module_now
        self._notes: list[tuple[int, int, str, str]] = []  # address, then a _Note
        self._owners: dict[int, str] = {}
        self._steps: list[tuple[int, int]] = []
        self._begun: dict[int, int] = {}
        self._handles = [
            hooks.register_module_forward_pre_hook(self._called),
            optimizers.register_optimizer_step_pre_hook(self._steps_now),
            optimizers.register_optimizer_step_post_hook(self._stepped),
        ]

    def end(self) -> None:
        for handle in self._handles:
            handle.remove()

    # Each step of the program comes here for each of its tensors, some times.
    def _note(self, tensor: object, now: int, kind: str, module: str) -> None:
        if address := address_of(tensor):
            self._notes.append((address, now, kind, module))

    def _called(self, module: nn.Module, inputs: Any) -> None:
        own = (*module._parameters.values(), *module._buffers.values())
        if not own:
            return
        name, now = self._module_now(), time.time_ns()
        for tensor in own:
            if tensor is not None:
                self._owners[id(tensor)] = name
                self._note(tensor, now, PARAMETERS, name)

    def _steps_now(self, optimizer: torch.optim.Optimizer, *arguments: Any) -> None:
        self._begun[id(optimizer)] = now = time.time_ns()
        for p in self._of(optimizer):
            module = self._owners.get(id(p))
            if module is None:  # else its module's call has noted it
                self._note(p, now, PARAMETERS, "")
            self._note(p.grad, now, GRADIENTS, module or "")

    def _stepped(self, optimizer: torch.optim.Optimizer, *arguments: Any) -> None:
        begun, now = self._begun.pop(id(optimizer), None), time.time_ns()
        if begun is not None:
            self._steps.append((begun, now))
        for p, state in optimizer.state.items():
            for value in state.values() if isinstance(state, dict) else ():
                self._note(value, now, STATE, self._owners.get(id(p), ""))

    @staticmethod
    def _of(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
        for group in optimizer.param_groups:
            yield from group["params"]

    @property
    def optimizer_steps(self) -> list[tuple[int, int]]:
        """When each optimizer's step began and ended, in ns."""
        return sorted(self._steps)

    def named(self, storages: Iterable[Storage], begin_ns: int) -> list[Storage]:
        """With what is known of each: its kind, and the module of its parameter."""
        starts = sorted(self._steps)

        def in_step(at: int) -> bool:
            k = bisect_right(starts, (at, 1 << 62)) - 1
            return k >= 0 and at <= starts[k][1]

        notes: dict[int, list[_Note]] = {}
        for address, at, kind, module in self._notes:
            notes.setdefault(address, []).append((at, kind, module))
        found = []
        for s in storages:
            first, last = (begin_ns + int(at * 1e9) for at in (s.start, s.end))
            slack = 10_000  # ns by which a float of seconds may be off
            own = notes.get(s.address, [])
            k = bisect_left(own, (first - slack, "", ""))
            if k < len(own) and own[k][0] <= last + slack:
                _, kind, module = own[k]
                s = replace(s, kind=kind, module=module or s.module)
            elif s.start > 0.0 and (s.backward or in_step(first)):
                s = replace(s, kind=TEMPORARIES)
            elif s.start > 0.0 and s.module:
                s = replace(s, kind=ACTIVATIONS)
            found.append(s)
        return found


def changes(storages: Iterable[Storage]) -> list[tuple[float, int, Storage]]:
    """When bytes come (and, negative, go), and whose; in the order of time."""
    found = [(s.start, s.bytes, s) for s in storages] + [(s.end, -s.bytes, s) for s in storages]
    return sorted(found, key=lambda change: change[0])


def curves(
    storages: Sequence[Storage], seconds: float, key: Callable[[Storage], str], columns: int
) -> tuple[dict[str, list[int]], int]:
    """Bytes over time by what `key` says: of each column, at its moment of most bytes.

    Returns:
        For each key `columns` numbers, the keys with the highest peaks first; and the most bytes of
        all at once.
    """
    steps = changes(storages)
    now = dict.fromkeys(map(key, storages), 0)
    found: dict[str, list[int]] = {name: [] for name in now}
    total = most = k = 0
    for column in range(columns):
        end = seconds * (column + 1) / columns
        highest, best = total, dict(now)
        while k < len(steps) and steps[k][0] < end:
            _, nbytes, storage = steps[k]
            now[key(storage)] += nbytes
            total += nbytes
            if total > highest:
                highest, best = total, dict(now)
            k += 1
        most = max(most, highest)
        for name, values in found.items():
            values.append(best[name])
    return dict(sorted(found.items(), key=lambda row: -max(row[1]))), most
