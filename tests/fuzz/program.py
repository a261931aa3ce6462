# SPDX-License-Identifier: BSD-3-Clause
"""A program as data: steps that call something of PyTorch with variables and plain arguments.

A step whose variables were never made is skipped. So every part of a program is a program, and
shrinking is leaving things out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fuzz import helpers

__all__ = [
    "DEVICE",
    "Device",
    "MissingError",
    "Program",
    "Step",
    "Var",
    "called",
    "replaced",
    "variables",
]


@dataclass(frozen=True, slots=True)
class Var:
    """Stands for a tensor that an earlier step made."""

    number: int

    def __repr__(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True, slots=True)
class Device:
    """Stands for the device that the program runs on."""

    def __repr__(self) -> str:
        return "device"


DEVICE = Device()


@dataclass(frozen=True, slots=True)
class Step:
    """One call, such as Step("transpose", "Tensor.transpose", (Var(0), 0, 1), (1,))."""

    kind: str  # row that drew it
    call: str  # what is called: see call_of()
    args: tuple[Any, ...]  # a dict at the end: by name
    results: tuple[int, ...] = ()  # variables that it makes
    grad: bool = True  # False: under no_grad()


@dataclass(frozen=True, slots=True)
class Program:
    steps: tuple[Step, ...]

    def __len__(self) -> int:
        return len(self.steps)


class MissingError(Exception):
    """A variable that no step has made."""


SPACES: dict[str, Any] = {
    "Tensor": Tensor,
    "torch": torch,
    "F": F,
    "operator": operator,
    "helpers": helpers,
}


def called(name: str, args: tuple[Any, ...]) -> Any:
    """Call "Tensor.add_", "torch.cat", "F.softmax", "helpers.numbers", "get.data", "set.data"."""
    space, _, rest = name.partition(".")
    if space == "get":
        return getattr(args[0], rest)
    if space == "set":
        return setattr(args[0], rest, args[1])
    by_name = args[-1] if args and isinstance(args[-1], dict) else {}
    return operator.attrgetter(rest)(SPACES[space])(*args[: len(args) - bool(by_name)], **by_name)


def variables(value: Any) -> Iterator[Var]:
    """The variables in an argument."""
    if isinstance(value, Var):
        yield value
    elif isinstance(value, tuple | list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from variables(each)


def replaced(value: Any, by: Callable[[Any], Any]) -> Any:
    """An argument with `by` applied to its leaves."""
    if isinstance(value, dict):
        return {name: replaced(each, by) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return type(value)(replaced(each, by) for each in value)
    return by(value)
