# SPDX-License-Identifier: BSD-3-Clause
"""Makes a failing program smaller for as long as it fails in the same way."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuzz.program import Program, Step, Var, replaced, variables

__all__ = ["shrink"]

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, seconds: float = 60.0) -> Program:
    """Fewer steps, then simpler cuts, shapes and dtypes, then simpler numbers; again while it helps.

    Every candidate is a program: a step that misses a variable is left out when it runs.
    """
    until = time.monotonic() + seconds
    size = -1
    while size != weight(program) and time.monotonic() < until:
        size = weight(program)
        program = with_fewer_steps(program, fails, until)
        for candidates in (of_arguments, of_variables, of_numbers):
            program = with_simpler_steps(program, fails, candidates, until)
    return program


def weight(program: Program) -> int:
    return sum(len(repr(step)) for step in program.steps)


def with_fewer_steps(program: Program, fails: Fails, until: float) -> Program:
    """Leaves out halves, quarters, ... and single steps, the last first."""
    length = max(len(program) // 2, 1)
    while True:
        end = len(program)
        while end > 0 and time.monotonic() < until:
            start = max(end - length, 0)
            rest = connected(Program((*program.steps[:start], *program.steps[end:])))
            if len(rest) < len(program) and fails(rest):
                program = rest
            end = min(start, len(program))
        if length == 1:
            return program
        length = (length + 1) // 2


def connected(program: Program) -> Program:
    """Without the steps whose variables nobody makes."""
    known: set[int] = set()
    kept = []
    for step in program.steps:
        if all(v.number in known for v in variables(step.args)):
            kept.append(step)
            known |= set(step.results)
            if step.call == "del":
                known.discard(step.args[0].number)
    return Program(tuple(kept))


Candidates = Callable[[Program, int], Iterator[Step]]


def with_simpler_steps(
    program: Program, fails: Fails, candidates: Candidates, until: float
) -> Program:
    for k in range(len(program)):
        for step in candidates(program, k):
            if time.monotonic() > until:
                return program
            smaller = Program((*program.steps[:k], step, *program.steps[k + 1 :]))
            if len(repr(step)) <= len(repr(program.steps[k])) and fails(smaller):
                program = smaller
    return program


def of_arguments(program: Program, k: int) -> Iterator[Step]:
    """Simpler sizes of cuts, shorter shapes, other dtypes."""
    step = program.steps[k]
    if not step.grad:
        yield dataclasses.replace(step, grad=True)
    for at, arg in enumerate(step.args):
        for simpler in simpler_arguments(arg):
            yield with_argument(step, at, simpler)


def simpler_arguments(arg: Any) -> Iterator[Any]:
    if isinstance(arg, torch.dtype) and arg != torch.float32:
        yield torch.float32
    if isinstance(arg, list) and len(arg) > 1 and all(isinstance(n, int) for n in arg):
        yield arg[:1]
        if len(arg) > 2:
            yield [arg[0], sum(arg[1:])]
    if isinstance(arg, tuple) and arg and all(isinstance(n, int) for n in arg):
        for k, n in enumerate(arg):
            yield (*arg[:k], *arg[k + 1 :])
            for less in sorted({1, 2, n // 2, n - 1}):
                if 0 < less < n:
                    yield (*arg[:k], less, *arg[k + 1 :])


def of_variables(program: Program, k: int) -> Iterator[Step]:
    """An older variable in the place of one: then what made the newer may be left out."""
    step = program.steps[k]
    used = {v.number for v in variables(step.args)}
    older = sorted({n for s in program.steps[:k] for n in s.results})
    for number in sorted(used):
        for other in older:
            if other < number:
                yield dataclasses.replace(step, args=renamed(step.args, number, other))


def renamed(args: tuple[Any, ...], number: int, other: int) -> tuple[Any, ...]:
    changed: tuple[Any, ...] = replaced(args, lambda a: Var(other) if a == Var(number) else a)
    return changed


def of_numbers(program: Program, k: int) -> Iterator[Step]:
    step = program.steps[k]
    for at, arg in enumerate(step.args):
        if isinstance(arg, int | float) and not isinstance(arg, bool):
            for simpler in (1, 0, 2):
                if arg != simpler and (arg not in (0, 1) or simpler < arg):
                    yield with_argument(step, at, simpler)


def with_argument(step: Step, at: int, arg: Any) -> Step:
    return dataclasses.replace(step, args=(*step.args[:at], arg, *step.args[at + 1 :]))
