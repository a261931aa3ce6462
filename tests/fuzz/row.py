# SPDX-License-Identifier: BSD-3-Clause
"""One row per kind of operation: what it calls, how its arguments are drawn, what it asks of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from fuzz.draw import Draw
from fuzz.machine import Nature

__all__ = [
    "ANY",
    "EXACT",
    "JUMPS",
    "PRODUCTS",
    "ROUNDED",
    "SMALL",
    "SPREAD",
    "UNCHECKED",
    "WRITES",
    "Args",
    "Row",
    "rows",
]

Args = Callable[[Draw], tuple[Any, ...]]

ANY = Nature()
SMALL = Nature(limit=2**12)  # products stay exact in float32
JUMPS = replace(SMALL, exact=True)
PRODUCTS = Nature(limit=2**8)  # sums of them stay exact
EXACT = Nature(limit=2**20, exact=True)
ROUNDED = Nature(limit=8, rounds=True)
SPREAD = replace(ROUNDED, exact=True)  # divides by a size that must not be mere rounding
WRITES = Nature(writes=True)
UNCHECKED = replace(WRITES, unchecked=True)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    call: str
    args: Args
    nature: Nature = field(default=ANY)
    weight: float = 1.0
    of_autograd: bool = False  # oftener in programs about gradients


def rows(names: str, args: Args, nature: Nature = ANY, weight: float = 1.0) -> list[Row]:
    """Several calls that take the same arguments; "Tensor.sum:all" names a kind by itself."""
    found = []
    for word in names.split():
        call, _, name = word.partition(":")
        found.append(Row(name or call.partition(".")[2], call, args, nature, weight))
    return found
