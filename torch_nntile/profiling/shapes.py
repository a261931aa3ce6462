# SPDX-License-Identifier: BSD-3-Clause
"""`profile(record_shapes=True)`: the shapes of each call's tensors, and which call needs which."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_nntile.profiling.storages import address_of

if TYPE_CHECKING:
    from torch_nntile.profiling.events import Call

__all__ = ["Shapes", "begun", "with_shapes"]

_MOST = 8  # tensors of a call: an optimizer's have hundreds


@dataclass(frozen=True, slots=True)
class _Note:
    op: str  # "aten::sum.dim_IntList"
    start: int  # ns
    end: int
    shapes: str
    reads: frozenset[int]  # addresses of storages
    writes: frozenset[int]


def _tensors(tree: Any) -> list[Tensor]:
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, Tensor)]


def _storages(tensors: Sequence[Tensor]) -> frozenset[int]:
    return frozenset(map(address_of, tensors)) - {0}


class Shapes(TorchDispatchMode):
    """Between PyTorch and the device's ops."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.notes: list[_Note] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Else torch.compile would give up, for ever, what it meets meanwhile."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = _tensors((args, kwargs))
        shapes = [str(tuple(x.shape)) for x in given[:_MOST]] + ["..."] * (len(given) > _MOST)
        start = time.time_ns()
        result = func(*args, **(kwargs or {}))
        end = time.time_ns()
        schema = func._schema
        into = list(_tensors(result))
        for k, argument in enumerate(schema.arguments):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = args[k] if k < len(args) else (kwargs or {}).get(argument.name)
                into += _tensors(value)
        op = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        reads, writes = _storages(given), _storages(into)
        self.notes.append(_Note(op, start, end, " ".join(shapes), reads, writes))
        return result


def with_shapes(
    calls: list[Call], notes: Sequence[_Note], begin_ns: int
) -> tuple[list[Call], dict[int, set[int]]]:
    """Calls with their shapes; and by call the calls that wrote what it uses.

    Args:
        calls: in the order of their starts.
        begin_ns: when the profile began.
    """
    starts = [begin_ns + round(call.start * 1e9) for call in calls]
    found, slack = list(calls), 1000  # ns by which a float of seconds may be off
    needs: dict[int, set[int]] = {}
    wrote: dict[int, set[int]] = {}  # by address, the calls that wrote there last
    for note in notes:
        first, last = bisect_left(starts, note.start - slack), bisect_left(starts, note.end)
        own = [k for k in range(first, last) if not calls[k].waits and k not in needs]
        sources = set().union(*(wrote.get(address, set()) for address in note.reads))
        for place, k in enumerate(own):  # of an op that is a composition: one after the other
            needs[k] = sources | set(own[:place])
            if calls[k].op == note.op:
                found[k] = replace(calls[k], shapes=note.shapes)
        if own:
            for address in note.writes:
                wrote[address] = set(own)
    return found, needs


def begun(wanted: bool) -> Shapes | None:
    """A mode that is on from now; None where nobody wants it."""
    if not wanted:
        return None
    mode = Shapes()
    mode.__enter__()  # type: ignore[no-untyped-call]
    return mode
