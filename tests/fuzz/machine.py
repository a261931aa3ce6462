# SPDX-License-Identifier: BSD-3-Clause
"""Runs steps on one device. On the CPU it also decides which steps have one right answer."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._prims_common import is_non_overlapping_and_dense_or_false as is_dense

from fuzz.program import Device, MissingError, Program, Step, Var, called, replaced, variables

__all__ = ["DONE", "SKIPPED", "Machine", "Nature", "overlaps_itself", "run", "storage_of"]

DONE, SKIPPED = "done", "skipped"
INDEX = re.compile(r"(index|index -?\d+ is|Target -?\d+ is) out of (range|bounds)")


@dataclass(frozen=True, slots=True)
class Nature:
    """What a call asks of its inputs, so that every library must give the same answer."""

    limit: float = math.inf  # finite inputs, none larger
    exact: bool = False  # jumps, or is steep: no rounded inputs
    rounds: bool = False  # its results are rounded
    writes: bool = False  # the first argument
    partial: bool = False  # only a part of the first argument is written
    unchecked: bool = False  # PyTorch does not look whether the first argument overlaps itself
    repeats: bool = False  # may write an element several times: always the same number
    scale: float = 1.0  # by which it enlarges the rounding of its inputs
    gradients: bool = False  # writes gradients of leaves


@dataclass
class Machine:
    """Variables, what the steps did, and what was read on the way."""

    device: str
    tensors: dict[int, Tensor] = field(default_factory=dict)
    outcomes: list[str] = field(default_factory=list)  # DONE, SKIPPED, or a class of exception
    reads: dict[int, Any] = field(default_factory=dict)  # step -> what the host saw
    message: str = ""  # of the last exception
    noise: float = 0.0  # eps that rounded results are moved by
    random: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))
    lost: bool = False  # an index out of range: the device finds it only when it has run
    # Storages whose numbers are rounded, by address: kept, or another one might get the address.
    rounded: dict[int, Any] = field(default_factory=dict)
    magnitude: float = 1.0  # of the largest operand of a rounded call
    eps: float = 0.0  # of the coarsest dtype that was rounded to
    longest: int = 0  # elements of the largest operand of a rounded call

    def do(self, step: Step) -> Any:
        """Run one step; an exception of PyTorch becomes its outcome."""
        try:
            args = replaced(step.args, self.value)
        except MissingError:
            self.outcomes.append(SKIPPED)
            return None
        if step.call == "del":
            del self.tensors[step.args[0].number]
            self.outcomes.append(DONE)
            return None
        try:
            with torch.set_grad_enabled(step.grad):
                result = called(step.call, args)
        except Exception as error:
            self.outcomes.append(type(error).__name__)
            self.message = str(error)
            self.lost |= INDEX.search(self.message) is not None
            return None
        self.outcomes.append(DONE)
        self.keep(step, result)
        return result

    def value(self, arg: Any) -> Any:
        if isinstance(arg, Device):
            return self.device
        if isinstance(arg, Var):
            if arg.number not in self.tensors:
                raise MissingError
            return self.tensors[arg.number]
        return arg

    def keep(self, step: Step, result: Any) -> None:
        if isinstance(result, Tensor):
            result = (result,)
        elif not isinstance(result, tuple | list) or not all(isinstance(r, Tensor) for r in result):
            if result is not None:
                self.reads[len(self.outcomes) - 1] = result
            return
        self.tensors |= dict(zip(step.results, result, strict=False))

    # ---- on the CPU: is there one right answer?

    def try_step(self, step: Step, nature: Nature) -> Any:
        """do(), unless the answer depends on the order in which a library works."""
        inputs = [self.tensors.get(v.number) for v in variables(step.args)]
        known = [x for x in inputs if x is not None]
        if len(known) < len(inputs) or not self.is_defined(known, nature):
            self.outcomes.append(SKIPPED)
            return None
        read = [*known, *gradients_of(known)]
        rounds = nature.rounds or nature.gradients
        rounds = rounds or any(storage_of(x) in self.rounded for x in read)
        result = self.do(step)
        touched = [self.tensors[n] for n in step.results if n in self.tensors]
        touched += known[:1] if nature.writes else []
        touched += gradients_of(self.tensors.values()) if nature.gradients else []
        for x in touched:
            if rounds or not is_short(x):
                self.rounded[storage_of(x)] = x.untyped_storage()
                self.remember([x, *known], nature.scale)
                if self.noise and x.is_floating_point() and x.numel() and not overlaps_itself(x):
                    self.blur(x, [x, *known], nature.scale)
        return result

    def blur(self, x: Tensor, operands: list[Tensor], scale: float) -> None:
        """Move each number as other orders of summation might; autograd does not see it."""
        size = self.noise * torch.finfo(x.dtype).eps * largest_of(operands) * scale
        x.data.add_((torch.rand(x.shape, generator=self.random) * 2 - 1) * size)

    def is_defined(self, inputs: list[Tensor], nature: Nature) -> bool:
        if nature.exact and any(storage_of(x) in self.rounded for x in inputs):
            return False
        if nature.limit < math.inf and not all(is_tame(x, nature.limit) for x in inputs):
            return False
        return not nature.writes or writes_are_ordered(inputs, nature)

    def remember(self, tensors: list[Tensor], scale: float) -> None:
        for x in tensors:
            self.longest = max(self.longest, x.numel())
            if x.is_floating_point() and x.numel():
                self.eps = max(self.eps, torch.finfo(x.dtype).eps)
        self.magnitude = max(self.magnitude, largest_of(tensors) * scale)


def largest_of(tensors: list[Tensor]) -> float:
    """Finite size of a float among them."""
    some = [x for x in tensors if x.is_floating_point() and x.numel()]
    sizes = (x.detach().abs().max().item() for x in some)
    return max((size for size in sizes if math.isfinite(size)), default=0.0)


def storage_of(x: Tensor) -> int:
    return x.untyped_storage()._cdata


def gradients_of(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Views are not asked: that alone can make PyTorch build them a new graph."""
    return [x.grad for x in tensors if not x._is_view() and has_grad(x)]


def has_grad(x: Tensor) -> bool:
    return (x.is_leaf or x.retains_grad) and x.grad is not None


def is_leaf(x: Tensor) -> bool:
    """False too for a view whose graph was lost, which PyTorch no longer wants to be asked."""
    try:
        return x.is_leaf
    except RuntimeError:
        return False


def is_short(x: Tensor) -> bool:
    """True for numbers that sums in any order give exactly."""
    if not x.is_floating_point() or not x.numel():
        return True
    scaled = x.detach() * 4
    limit = 1 / torch.finfo(x.dtype).eps
    return bool(((scaled == scaled.round()) & (scaled.abs() <= limit)).all())


def is_tame(x: Tensor, limit: float) -> bool:
    if x.dtype == torch.bool or not x.numel():
        return True
    x = x.detach()
    if not x.is_floating_point():
        return bool(x.min() >= -limit and x.max() <= limit)
    return bool((x.abs() <= limit).all())  # no nan either


def bytes_of(x: Tensor) -> Tensor:
    """Of each byte of the storage, whether it is one of x."""
    found = torch.tensor(x.storage_offset())
    for n, stride in zip(x.shape, x.stride(), strict=True):
        found = found.unsqueeze(-1) + torch.arange(n) * stride
    mask = torch.zeros(x.untyped_storage().nbytes(), dtype=torch.bool)
    for k in range(x.itemsize):
        mask[found.reshape(-1) * x.itemsize + k] = True
    return mask


def layout_of(x: Tensor) -> tuple[Any, ...]:
    strides = [stride for n, stride in zip(x.shape, x.stride(), strict=True) if n > 1]
    return x.shape, strides, x.storage_offset(), x.dtype


def overlaps_itself(x: Tensor) -> bool:
    return int(bytes_of(x).sum()) < x.numel() * x.itemsize


def writes_are_ordered(inputs: list[Tensor], nature: Nature) -> bool:
    """False where PyTorch neither refuses nor says which write to the first input is the last."""
    target, others = inputs[0], inputs[1:]
    refused = torch._debug_has_internal_overlap(target) == 1 and not nature.unchecked
    # The gradients of its elements are written through it too, and differ.
    repeats = nature.repeats and not any(x.requires_grad for x in inputs)
    if overlaps_itself(target) and not repeats and not refused:
        return False
    for other in others:
        if storage_of(other) != storage_of(target):
            continue
        same = layout_of(other) == layout_of(target)
        if same and other.stride() != target.stride():
            return False  # PyTorch looks at strides of dims of one element, which may be any
        refused = is_dense(target) and is_dense(other) and not nature.partial
        if nature.unchecked:
            same = refused = False
        if not same and not refused and bool((bytes_of(target) & bytes_of(other)).any()):
            return False
    return True


def run(
    program: Program, device: str, skipped: list[str] | None = None, noise: float = 0.0
) -> Machine:
    """All steps on a device but those that the CPU skipped; ends at the first other outcome."""
    from fuzz.rows import NATURES

    machine = Machine(device, noise=noise)
    for k, step in enumerate(program.steps):
        if skipped is None:
            machine.try_step(step, NATURES[step.kind])
        elif skipped[k] == SKIPPED:
            machine.outcomes.append(SKIPPED)
        else:
            machine.do(step)
            if machine.outcomes[k] != skipped[k]:
                break
    return machine
