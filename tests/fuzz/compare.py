# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program on the CPU and on the device and says what differs first."""

from __future__ import annotations

import gc
import math
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import torch
from parity import FACTORS, runtime_mode
from torch import Tensor

import torch_nntile
from fuzz.draw import LARGEST
from fuzz.machine import DONE, SKIPPED, Machine, run, storage_of
from fuzz.program import Program, replaced

__all__ = ["SAME", "Verdict", "check", "first_difference", "has_no_answer"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind` is what shrinking keeps: a smaller program must fail in the same way."""

    kind: str = ""
    text: str = ""
    place: str = ""  # variable or step

    def __bool__(self) -> bool:
        return bool(self.kind)


SAME = Verdict()
NOISE = 4.0  # eps: well within what numbers_agree() allows, if nothing enlarges it


def check(program: Program, mode: str) -> Verdict:
    """Compare the device with the CPU; an exception where the device is read is a difference.

    mode: "eager", "graph", or "captured", where what a replay gives is compared.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(program, "cpu")
        if expected.lost:
            return SAME
        seen = without_graph if mode == "captured" else as_it_is
        try:
            others = Others()
            if mode == "captured":
                found = replayed(program, expected)
                others.check()
                verdict = first_difference(found, seen(expected), program) if found else SAME
            else:
                with runtime_mode(mode):
                    found = run(program, "nntile", expected.outcomes)
                    others.check()
                    verdict = first_difference(found, expected, program)
            torch_nntile.wait()
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Verdict(
                f"raises {type(error).__name__}", f"{error} [{last.filename}:{last.lineno}]"
            )
        laid = verdict.kind in ("stride", "storage_offset") and found
        if laid and differ_in_one(expected, found, verdict):
            return SAME
        if verdict.kind == "stride" and found and laid_as_meta(program, expected, found, verdict):
            return SAME
        return SAME if verdict and has_no_answer(program, expected, verdict, seen) else verdict


class Others:
    """In a budget, other data that fills most of it: it and the program's make room for each other."""

    def __init__(self) -> None:
        limited = torch.nntile.memory_stats()["swap_bytes"] > 0
        each = torch.nntile.mem_get_info()[1] // 16 // 4 if limited else 0
        self.host = [torch.arange(each, dtype=torch.float32) + k for k in range(12 if each else 0)]
        self.tensors = [x.to("nntile") for x in self.host]

    def check(self) -> None:
        for x, expected in zip(self.tensors, self.host, strict=True):
            assert torch.equal(x.cpu(), expected), "other data is not what it was"


def laid_as_meta(program: Program, expected: Machine, found: Machine, verdict: Verdict) -> bool:
    """PyTorch's own devices do not agree: its Meta kernel lays this tensor as we do."""
    number = int(verdict.place.removeprefix("v"))
    machine = Machine("meta")
    for step, outcome in zip(program.steps, expected.outcomes, strict=False):
        if outcome == DONE:  # what reads data fails here, and what follows from it
            machine.do(step)
    other = machine.tensors.get(number)
    return other is not None and fact(other, "stride") == fact(found.tensors[number], "stride")


def differ_in_one(expected: Machine, found: Machine, verdict: Verdict) -> bool:
    """An earlier tensor has other strides in dims of one element, which may be any: they choose layouts."""
    place = int(verdict.place.removeprefix("v"))
    return any(
        number < place
        and number in found.tensors
        and x.numel() > 0
        and fact(x, "stride") == fact(found.tensors[number], "stride")
        and x.stride() != found.tensors[number].stride()
        for number, x in expected.tensors.items()
    )


def as_it_is(machine: Machine) -> Machine:
    return machine


def without_graph(machine: Machine) -> Machine:
    """What a captured function can return: tensors without a graph of autograd, and gradients."""
    tensors = {n: x.data for n, x in machine.tensors.items()}  # detach() refuses some views
    gradients = {-1 - n: gradient_of(x) for n, x in machine.tensors.items()}
    tensors |= {n: x.data for n, x in gradients.items() if x is not None}
    return replace(machine, tensors=tensors)


def replayed(program: Program, expected: Machine) -> Machine | None:
    """The program as a replay of it leaves it, without what it reads. None: it cannot be captured."""
    outcomes = [
        SKIPPED if k in expected.reads else outcome for k, outcome in enumerate(expected.outcomes)
    ]
    # Not a variable: a captured function must not change what it can see.
    kept: ContextVar[Machine] = ContextVar("kept")

    now = [program]

    def call() -> list[Tensor]:
        machine = without_graph(run(now[0], "nntile", outcomes))
        kept.set(machine)
        gc.collect()  # leaves in cycles would count as used besides the arguments
        return list(machine.tensors.values())

    captured, differed = torch_nntile.capture(call), []
    for _ in range(4):  # mostly the third is a replay; names and cuts may settle one call later
        results = captured()
        machine = kept.get()
        differed.append(captured.why)
        if "captured function" in machine.message:  # it reads data in another way
            return None
        if machine.outcomes != outcomes:
            return replace(machine, reads=expected.reads)
        if captured.replays:
            break
    if not captured.replays and any(step.kind == "step" for step in program.steps):
        return None  # each call makes an optimizer of its own
    assert captured.replays == 1, differed
    tensors = dict(zip(machine.tensors, results, strict=True))
    now[0] = with_other_numbers(program)  # a replay reads no number of Python
    if now[0] != program:
        again, wanted = captured(), call()
        # A name that gets a cut has it at the next call from the start: its sums are then others.
        # In little memory, too: a task that does not fit is cut finer, and the whole has others.
        cuts = any(step.kind == "cut" for step in program.steps)
        cuts |= torch.nntile.memory_stats()["swap_bytes"] > 0
        same = all(
            torch.equal(bits(a), bits(b))
            or (cuts and torch.allclose(a.cpu(), b.cpu(), 1e-3, 1e-3, equal_nan=True))
            for a, b in zip(again, wanted, strict=True)
        )
        assert same, "other numbers are not seen"
    return replace(machine, tensors=tensors, outcomes=expected.outcomes, reads=expected.reads)


def with_other_numbers(program: Program) -> Program:
    """The same ops on other floats."""
    steps = [
        replace(step, args=replaced(step.args, lambda x: x + 1 if type(x) is float else x))
        if "_number" in step.kind
        else step
        for step in program.steps
    ]
    return Program(tuple(steps))


def bits(x: Tensor) -> Tensor:
    return x.cpu().reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8)


def first_difference(found: Machine, expected: Machine, program: Program) -> Verdict:
    return next(differences(found, expected, program), SAME)


def differences(found: Machine, expected: Machine, program: Program) -> Iterator[Verdict]:
    k = len(found.outcomes) - 1
    if k >= 0 and found.outcomes[k] != expected.outcomes[k]:
        text = f"step {k}: {found.outcomes[k]}, expected {expected.outcomes[k]}"
        words = f"{program.steps[k].kind}: {found.outcomes[k]} for {expected.outcomes[k]}"
        yield Verdict(words, f"{text}\n{found.message}", f"step {k}")
        return
    for k, value in expected.reads.items():
        if not numbers_agree(torch.tensor(found.reads[k]), torch.tensor(value), expected):
            text = f"step {k}: read {found.reads[k]}, expected {value}"
            yield Verdict("read", text, f"step {k}")
    for n, tensor in expected.tensors.items():
        verdict = layouts_differ(found.tensors[n], tensor)
        if verdict:
            yield Verdict(verdict.kind, f"v{n}: {verdict.text}", f"v{n}")
    if partners(found) != partners(expected):
        yield Verdict("storages", f"{partners(found)}, expected {partners(expected)}")
    # Last made, first read: the order of reads is not the order of the calls.
    for n, tensor in reversed(expected.tensors.items()):
        verdict = numbers_differ(found.tensors[n], tensor, expected)
        if verdict:
            yield Verdict(verdict.kind, f"v{n}{verdict.text}", f"v{n}")


def layouts_differ(found: Tensor, expected: Tensor) -> Verdict:
    for name in (*LAYOUT, *(["grad"] if expected.is_floating_point() else [])):
        if name == "grad":
            return gradients_differ(found, expected)
        ours, theirs = fact(found, name), fact(expected, name)
        if ours != theirs:
            return Verdict(name, f"{name} is {ours}, expected {theirs}")
    return SAME


def has_no_answer(
    program: Program,
    expected: Machine,
    verdict: Verdict,
    seen: Callable[[Machine], Machine] = as_it_is,
) -> bool:
    """The CPU differs from itself, there and in the same way, with other rounding and other
    undefined bytes."""
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills what empty() and resize_() add
    try:
        other = run(program, "cpu", noise=NOISE)
    finally:
        torch.use_deterministic_algorithms(False)
    if other.outcomes != expected.outcomes:
        return False
    same = (verdict.kind, verdict.place)
    return any((v.kind, v.place) == same for v in differences(seen(other), seen(expected), program))


LAYOUT = ("dtype", "shape", "stride", "storage_offset", "nbytes", "requires_grad", "is_leaf")


def fact(x: Tensor, name: str) -> Any:
    if name in ("stride", "storage_offset") and not x.numel():
        return None  # it follows from strides of dims of one element, which may be any
    if name == "stride":
        return tuple(s for n, s in zip(x.shape, x.stride(), strict=True) if n > 1)
    if name == "nbytes":
        return x.untyped_storage().nbytes()
    if name == "storage_offset":
        return x.storage_offset()
    try:
        return getattr(x, name)
    except RuntimeError as error:  # a view that autograd has given up
        return type(error).__name__


def gradients_differ(found: Tensor, expected: Tensor) -> Verdict:
    ours, theirs = gradient_of(found), gradient_of(expected)
    if (ours is None) != (theirs is None):
        return Verdict("grad", f"grad is {ours}, expected {theirs}")
    for name in LAYOUT[:3] if ours is not None and theirs is not None else ():
        if fact(ours, name) != fact(theirs, name):
            return Verdict(
                "grad", f"{name} of grad is {fact(ours, name)}, expected {fact(theirs, name)}"
            )
    return SAME


def gradient_of(x: Tensor) -> Tensor | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a tensor that is no leaf
        try:
            return x.grad
        except RuntimeError:
            return None


def partners(machine: Machine) -> dict[int, int]:
    """Variable -> the first that has its storage."""
    first: dict[int, int] = {}
    return {n: first.setdefault(storage_of(x), n) for n, x in machine.tensors.items()}


def numbers_differ(found: Tensor, expected: Tensor, machine: Machine) -> Verdict:
    theirs, ours = gradient_of(expected), gradient_of(found)
    pairs: list[tuple[str, Tensor, Tensor, int | None]] = [
        ("", found, expected, storage_of(expected))
    ]
    if theirs is not None and ours is not None:
        # Those of views are not among the storages that the machine knows.
        of_view = expected._is_view()
        pairs.append((".grad", ours, theirs, None if of_view else storage_of(theirs)))
    for name, x, y, storage in pairs:
        x, y = x.data.cpu(), y.data
        if not numbers_agree(x, y, machine, storage):
            return Verdict(f"numbers{name}", f"{name} is\n{x}, expected\n{y}")
    return SAME


def numbers_agree(
    found: Tensor, expected: Tensor, machine: Machine, storage: int | None = None
) -> bool:
    """Equal; of rounded numbers, as near as parity's table allows for the largest operand."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return False
    rounded = storage in machine.rounded if storage else bool(machine.rounded)
    if rounded and not expected.is_floating_point():
        return True  # the bits of rounded numbers
    if not rounded:
        return bool(torch.equal(plain(found), plain(expected)))
    # The CPU sums a variance one number after the other: its error grows with the length.
    terms = len(machine.outcomes) * 32 * max(1.0, machine.longest / LARGEST)
    factor = FACTORS[""].factor * machine.eps * math.sqrt(terms)
    return torch.allclose(
        found.double(),
        expected.double(),
        rtol=factor,
        atol=factor * machine.magnitude,
        equal_nan=True,
    )


def plain(x: Tensor) -> Tensor:
    """One nan; no sign of a zero, which sums and products leave open, in bits of floats either."""
    if x.is_floating_point():
        return x.nan_to_num(7.5)
    if x.dtype == torch.bool:
        return x
    sign = 128 if x.dtype == torch.uint8 else torch.iinfo(x.dtype).min
    return x.masked_fill(x == sign, 0)
